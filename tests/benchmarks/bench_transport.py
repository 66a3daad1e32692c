"""The cost of semantic transport, compared with that of semantic noise.

``python tests/benchmarks/bench_transport.py [--quick] [--trees]``. What statistics survive, and what an
attacker learns, shows ``bench_frontier.py``.

* Recalibration of 100,000 synthetic records of ICD-10-CM with 2,000 values an attribute, and of 20,000 records whose
  secondary codes are arrays, cold and warm, in seconds of one core; and of 100,000 records with three scalar
  attributes, synthetic ones with 2,000 values each and the real discharges, for an α, a vulnerability and an ε
  (``--trees``, minutes). NumPy has one thread: others wait actively, which counts as processor time.
* Putting a version in force, and masking of batches of 10,000 records by ``mask_many`` (records) and by ``mask_batch``
  (encoded records), in µs a record, alternating with semantic noise with reference ``pair`` (``calibrated`` and
  ``ceil``), in one run, on ICD-10-CM and on a synthetic SNOMED CT release: the first batch, the mean of the first 12,
  and the median of the second half. The last rows are the ratios.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np
from bench_masking import BATCH, NAMES, codes_of, events, records_of, synthetic_release, timed
from measuring import SNOMED_CONCEPTS, once, table
from support.data import icd9cm
from support.real_codes import as_batch, real_codes

from stream_masker.core.batch import Batch, Column
from stream_masker.core.mechanisms import SemanticNoise, SemanticTransport, WindowedMechanism
from stream_masker.core.ontology import Ontology, Taxonomy
from stream_masker.core.random.keys import FieldKeys
from stream_masker.core.statistics import count_batch
from stream_masker.core.statistics.counts import Counts

TREE_TARGETS = ({"alpha": 0.3}, {"vulnerability": 0.5}, {"epsilon": 12.0})
SEED = b"a seed of sixteen bytes"
FIRST = 12
MASKING_HEAD = [
    "mechanism",
    "put in force, s",
    "mask_many: first batch, µs a record",
    "first 12 batches",
    "steady",
    "mask_batch: first batch",
    "first 12 batches",
    "steady",
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few batches and a smaller synthetic release")
    parser.add_argument("--trees", action="store_true", help="only recalibration of three attributes")
    given = parser.parse_args()
    if given.trees:
        print_trees()
        return
    icd10 = Ontology.load("icd10cm").taxonomy()
    table("recalibration, 100,000 records", ["attributes", "cold, s", "warm, s"], recalibration_rows(icd10))
    batches = 12 if given.quick else 40
    table(f"masking, {len(icd10):,} concepts of ICD-10-CM", MASKING_HEAD, masking_rows(icd10, batches))
    with tempfile.TemporaryDirectory() as folder:
        source = synthetic_release(Path(folder), 50_000 if given.quick else SNOMED_CONCEPTS)
        graph = Ontology.load(source).taxonomy()
        table(f"masking, {len(graph):,} concepts, a graph", MASKING_HEAD, masking_rows(graph, batches))


def transport(tau: Taxonomy, alpha: float) -> SemanticTransport:
    return SemanticTransport(dict.fromkeys(NAMES, tau), target={"alpha": alpha}, seed=SEED)


def noise(tau: Taxonomy, alpha: float, rounding: str = "calibrated") -> SemanticNoise:
    return SemanticNoise(dict.fromkeys(NAMES, tau), alpha=alpha, reference="pair", rounding=rounding, seed=SEED)


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


def print_trees() -> None:
    """Print the times of windows of three attributes: synthetic ones, and the real discharges."""
    icd10 = Ontology.load("icd10cm").taxonomy()
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


def masking_rows(tau: Taxonomy, batches: int) -> Iterator[list[object]]:
    stream = events(tau)
    codes = [codes_of(tau, islice(stream, BATCH)) for _ in range(batches)]
    names = ["transport", "noise, pair, calibrated", "noise, pair, ceil"]
    records, keys = records_of(tau, codes[0], 0)
    for each in contenders(tau):
        each.learn_many(records)
        each.calibrate()
        each.mask_many(records, keys=keys)
    in_records, encoded = contenders(tau), contenders(tau)
    for each in (*in_records, *encoded):
        each.learn_many(records)
        each.calibrate()
    in_force = [timed(partial(each.restore, each.snapshot())) for each in in_records]
    times = np.empty((2, len(names), batches))
    for number, batch in enumerate(codes):
        records, keys = records_of(tau, batch, number)
        for each, row in zip(in_records, times[0], strict=True):
            row[number] = timed(partial(each.mask_many, records, keys=keys)) / BATCH * 1e6
        columns, field_keys = as_batch(batch), FieldKeys(SEED, keys)
        for each, row in zip(encoded, times[1], strict=True):
            row[number] = timed(partial(each.mask_batch, columns, field_keys)) / BATCH * 1e6
    figures = np.array([in_force, *(figure for kind in times for figure in summarised(kind))])
    for name, row in zip(names, figures.T.tolist(), strict=True):
        yield [name, *row]
    for j, name in enumerate(names[1:], start=1):
        yield [f"transport ÷ {name}", *(figures[:, 0] / figures[:, j]).tolist()]


def contenders(tau: Taxonomy) -> tuple[WindowedMechanism, ...]:
    """Create the mechanisms whose masking is compared."""
    return (transport(tau, 0.3), noise(tau, 0.3), noise(tau, 0.3, rounding="ceil"))


def summarised(times: np.ndarray) -> tuple[np.ndarray, ...]:
    """(mechanisms,) each: the first time, the mean of the first ``FIRST``, and the median of the second half."""
    return times[:, 0], times[:, :FIRST].mean(axis=1), np.median(times[:, times.shape[1] // 2 :], axis=1)


if __name__ == "__main__":
    main()
