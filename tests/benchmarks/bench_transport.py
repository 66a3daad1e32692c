"""The cost of the versions of semantic transport. What it costs to mask shows ``bench_masking.py``, what statistics
survive and what an attacker learns ``bench_frontier.py``.

``python tests/benchmarks/bench_transport.py [--trees]``: recalibration of 100,000 synthetic records of ICD-10-CM with
2,000 values an attribute, and of 20,000 records whose secondary codes are arrays, cold and warm, in seconds of one
core; with ``--trees``, for minutes, of 100,000 records with three scalar attributes, synthetic ones with 2,000 values
each and the real discharges, for an α, a vulnerability and an ε. NumPy has one thread: others wait actively, which
counts as processor time.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from functools import partial
from itertools import islice

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np
from bench_masking import NAMES, codes_of, events
from measuring import once, table
from support.data import icd9cm
from support.real_codes import as_batch, real_codes

from stream_masker.core.batch import Batch, Column
from stream_masker.core.mechanisms import SemanticTransport
from stream_masker.core.ontology import Ontology, Taxonomy
from stream_masker.core.statistics import count_batch
from stream_masker.core.statistics.counts import Counts

TREE_TARGETS = ({"alpha": 0.3}, {"vulnerability": 0.5}, {"epsilon": 12.0})
SEED = b"a seed of sixteen bytes"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trees", action="store_true", help="only recalibration of three attributes")
    tau = Ontology.load("icd10cm").taxonomy()
    if parser.parse_args().trees:
        print_trees(tau)
    else:
        table("recalibration, 100,000 records", ["attributes", "cold, s", "warm, s"], recalibration_rows(tau))


def transport(tau: Taxonomy, alpha: float) -> SemanticTransport:
    return SemanticTransport(dict.fromkeys(NAMES, tau), target={"alpha": alpha}, seed=SEED)


def recalibration_rows(tau: Taxonomy) -> Iterator[list[object]]:
    codes = codes_of(tau, islice(events(tau), 105_000))
    windows = [as_batch(codes[:, start : start + 100_000]) for start in (0, 5_000)]
    arrays = [with_arrays(codes[:, start : start + 20_000]) for start in (0, 2_000)]
    for label, batches in (("two of 2,000 values", windows), ("a scalar and an array", arrays)):
        first, second = (count_batch(batch, [len(tau)] * 2) for batch in batches)
        transport(tau, 0.3).compute(first, version=1)
        made = transport(tau, 0.3)
        cold = once(partial(put_in_force, made, first))
        yield [label, cold, once(partial(made.compute, second, version=2))]


def print_trees(icd10: Taxonomy) -> None:
    """Print the times of windows of three attributes: synthetic ones, and the real discharges."""
    codes = codes_of(icd10, islice(events(icd10), 105_000))
    rng = np.random.default_rng(0)
    near = codes[1][np.argsort(np.argsort(codes[0], kind="stable"))]
    third = np.where(rng.random(near.size) < 0.6, near, rng.permutation(codes[1]))
    synthetic = ("three of 2,000 values", icd10, np.array([*codes, third], np.int32))
    head = ["attributes", "target", "cold, s", "warm, s"]
    table("recalibration of three attributes, 100,000 records", head, tree_rows([synthetic, real_triples()]))


def real_triples() -> tuple[str, Taxonomy, np.ndarray]:
    """The diagnoses of the real discharges that have three: a label, their taxonomy, and (3, n) int32 positions."""
    tau = icd9cm().taxonomy()
    return "three real diagnoses", tau, real_codes(("diag_1", "diag_2", "diag_3"))


def tree_rows(samples: list[tuple[str, Taxonomy, np.ndarray]]) -> Iterator[list[object]]:
    for label, tau, codes in samples:
        windows = [codes[:, :-5_000], codes[:, 5_000:]]
        batches = [Batch(w.shape[1], tuple(Column(np.ascontiguousarray(x)) for x in w)) for w in windows]
        first, second = (count_batch(batch, [len(tau)] * 3) for batch in batches)
        for target in TREE_TARGETS:
            made = SemanticTransport(dict.fromkeys("abc", tau), target=target, seed=SEED)
            cold = once(partial(put_in_force, made, first))
            yield [label, target, cold, once(partial(made.compute, second, version=2))]


def put_in_force(made: SemanticTransport, counts: Counts) -> None:
    made.restore(made.snapshot_of(made.compute(counts, version=1)))


def with_arrays(codes: np.ndarray) -> Batch:
    """A batch whose secondary codes are arrays of one to four codes of records with the same principal code."""
    principal, secondary = codes
    order = np.argsort(principal, kind="stable")
    place = np.empty(order.size, np.int64)
    place[order] = np.arange(order.size)
    lengths = np.random.default_rng(0).integers(1, 5, order.size)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    own = np.repeat(np.arange(order.size), lengths)
    index = np.arange(own.size) - offsets[own]
    other = order[np.minimum(place[own] + index, order.size - 1)]
    chosen = np.where(principal[other] == principal[own], other, own)
    columns = (Column(principal.astype(np.int32)), Column(secondary[chosen].astype(np.int32), offsets))
    return Batch(order.size, columns)


if __name__ == "__main__":
    main()
