"""Semantic transport compared with semantic noise: what statistics survive, what an attacker learns, and the cost.

``python tests/benchmarks/bench_transport.py [--quick] [--only-speed] [--trees]``. Needs the data files of
``tests/support/data.py``.

* Utility and disclosure on the real discharges and on the strong sample, at each α and at the RMSE that it gives.
  Semantic noise (reference ``pair``) has the α for which its RMSE is that of transport, found by bisection. ``V own``:
  the chance that the best guess of the principal code from its own mask is right, exact for transport, estimated from
  repeated masking for noise. ``V``: the same from the whole masked record.
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
from bench_disclosure import added, repeated
from bench_masking import BATCH, NAMES, codes_of, events, records_of, synthetic_release, timed
from measuring import SNOMED_CONCEPTS, once, table
from support.data import icd9cm
from support.real_codes import as_batch, real_codes, real_pairs, strong_sample

from stream_masker.core.batch import Batch, Column
from stream_masker.core.mechanisms import SemanticNoise, SemanticTransport, WindowedMechanism
from stream_masker.core.ontology import Ontology, Taxonomy
from stream_masker.core.random.keys import FieldKeys, PositionKeys
from stream_masker.core.statistics import compute_statistics, count_batch
from stream_masker.core.statistics.counts import Counts

ALPHAS = (0.1, 0.3, 0.5, 1.0)
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
HEAD = ["mechanism", "α", "Δ sdCor", "sd(sMean*, sMean)", "sVar* ÷ sVar", "RMSE", "target", "V own", "V", "V of record"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few repeats and batches, and a smaller synthetic release")
    parser.add_argument("--only-speed", action="store_true", help="only recalibration and masking")
    parser.add_argument("--trees", action="store_true", help="only recalibration of three attributes")
    given = parser.parse_args()
    if given.trees:
        print_trees()
        return
    if not given.only_speed:
        print_utility(5 if given.quick else 50)
    icd10 = Ontology.load("icd10cm").taxonomy()
    table("recalibration, 100,000 records", ["attributes", "cold, s", "warm, s"], recalibration_rows(icd10))
    batches = 12 if given.quick else 40
    table(f"masking, {len(icd10):,} concepts of ICD-10-CM", MASKING_HEAD, masking_rows(icd10, batches))
    with tempfile.TemporaryDirectory() as folder:
        source = synthetic_release(Path(folder), 50_000 if given.quick else SNOMED_CONCEPTS)
        graph = Ontology.load(source).taxonomy()
        table(f"masking, {len(graph):,} concepts, a graph", MASKING_HEAD, masking_rows(graph, batches))


def print_utility(repeats: int) -> None:
    """Print the tables on the real discharges."""
    tau, codes = icd9cm().taxonomy(), real_pairs()
    for title, sample in (("strong sample", strong_sample(codes, tau)), ("all discharges", codes)):
        table(title, HEAD, utility_rows(tau, as_batch(sample), repeats))


def calibrated(made: WindowedMechanism, batch: Batch) -> WindowedMechanism:
    """Put the statistics of a batch in force."""
    sizes = [len(d.taxonomy) for d in made.distances]
    made.restore(made.snapshot_of(made.compute(count_batch(batch, sizes), version=1)))
    return made


def transport(tau: Taxonomy, alpha: float) -> SemanticTransport:
    return SemanticTransport(dict.fromkeys(NAMES, tau), target={"alpha": alpha}, seed=SEED)


def noise(tau: Taxonomy, alpha: float, rounding: str = "calibrated") -> SemanticNoise:
    return SemanticNoise(dict.fromkeys(NAMES, tau), alpha=alpha, reference="pair", rounding=rounding, seed=SEED)


def utility_rows(tau: Taxonomy, batch: Batch, repeats: int) -> Iterator[list[object]]:
    for alpha in ALPHAS:
        made = calibrated(transport(tau, alpha), batch)
        figures = made.disclosure()
        yield [
            "transport",
            alpha,
            *utility(made, batch, repeats),
            figures.vulnerability["principal"],
            figures.given_record["principal"],
            figures.vulnerability_of_record,
        ]
        level, other = matched(tau, batch, figures.rmse["principal"])
        yield ["noise, pair", level, *utility(other, batch, repeats), own_vulnerability(other, batch, repeats), "", ""]


def matched(tau: Taxonomy, batch: Batch, rmse: float) -> tuple[float, SemanticNoise]:
    """Return semantic noise whose principal RMSE is the given one, and its α."""
    low, high = 0.001, 10.0
    for _ in range(14):
        level = float(np.sqrt(low * high))
        made = calibrated(noise(tau, level), batch)
        found = made.mask_batch(batch, keys_of(0, batch)).distortions[0]
        low, high = (level, high) if (found.squared_distance / found.values) ** 0.5 < rmse else (low, level)
    return level, made


def keys_of(number: int, batch: Batch) -> PositionKeys:
    return PositionKeys(b"secret %d of sixteen bytes" % number, "transport", 0, np.arange(batch.size, dtype=np.int64))


def utility(made: WindowedMechanism, batch: Batch, repeats: int) -> tuple[float, ...]:
    """ΔsdCor, sd(sMean*, sMean), sVar* ÷ sVar, RMSE and its target of the principal code, of all repeats together."""
    total, squares, values, wanted = None, 0.0, 0, 0.0
    sizes = [len(d.taxonomy) for d in made.distances]
    correlations = []
    before = made.statistics
    for number in range(repeats):
        masked = made.mask_batch(batch, keys_of(number, batch))
        found = masked.distortions[0]
        squares, values = squares + found.squared_distance, values + found.values
        wanted += found.squared_noise
        counts = count_batch(Batch(batch.size, masked.columns), sizes)
        total = compute_statistics(counts, NAMES, made.distances, version=1)
        correlations.append(total.correlation[0, 1])
    moved = made.distances[0](before.mean["principal"], total.mean["principal"])
    shift = float(np.mean(correlations)) - float(before.correlation[0, 1])
    ratio = total.variance["principal"] / before.variance["principal"]
    return shift, moved, ratio, (squares / values) ** 0.5, (wanted / values) ** 0.5


def own_vulnerability(made: SemanticNoise, batch: Batch, repeats: int) -> float:
    """V(A | A*) of the principal code, from repeated masking."""
    original, size = batch.columns[0].codes, len(made.distances[0].taxonomy)
    joint, counts = np.zeros(0, np.int64), np.zeros(0, np.int64)
    for masked in repeated(made, batch, repeats):
        joint, counts = added(joint, counts, masked.astype(np.int64) * size + original)
    best = np.maximum.reduceat(counts, np.flatnonzero(np.diff(joint // size, prepend=-1)))
    return float(best.sum() / counts.sum())


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
