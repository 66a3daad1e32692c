"""The cost of every part of the library, compared with other implementations.

``python tests/benchmarks/table.py`` prints a table, in ten minutes.
The other benchmarks of this folder measure each part in more detail, and the parts that need a broker.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import bench_masking
import numpy as np
from measuring import SNOMED_CONCEPTS, arguments, best, cell, peak_megabytes, random_positions, table, taxonomy
from references import (
    HESML,
    LITERAL,
    PairDistance,
    distances_to_all,
    literal_covariance,
    literal_wu_palmer,
)

from stream_masker.core.batch import Batch, Column
from stream_masker.core.distance import Distance, LogTaxonomic, WuPalmer
from stream_masker.core.ontology import Ontology
from stream_masker.core.statistics import compute_statistics, count_batch, distance_covariance, semantic_mean

SNOMED = f"snomed:{SNOMED_CONCEPTS}"
NAMES = {"icd10cm": "ICD-10-CM", "hpo": "HPO", SNOMED: "RF2"}
FEW = 300
"""The number of pairs for slow implementations."""
HEAD = ("", "on", "here", "others take, times as long")
Row = tuple[str, str, str, str]
PARSE = "Ontology._of(sources.find_source({!r}).read())"
OPEN = "Ontology.load({!r}).taxonomy()"


def main() -> None:
    arguments(__doc__, {})
    table("parts", HEAD, rows())


def rows() -> Iterator[Row]:
    for name in NAMES:
        yield pairs(name, WuPalmer(taxonomy(name)))
    yield pairs(SNOMED, LogTaxonomic(taxonomy(SNOMED)))
    yield strings(SNOMED)
    yield matrix(SNOMED)
    yield to_all(SNOMED)
    for name in NAMES:
        yield covariance(name)
    for name in NAMES:
        yield mean(name)
    for name in NAMES:
        yield everything(name)
    with tempfile.TemporaryDirectory() as folder:
        yield from of_release(Path(folder))


def size(name: str) -> str:
    return f"{NAMES[name]}, {len(taxonomy(name)):,} concepts"


def against(**ratios: float) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {cell(float(ratio))}" for name, ratio in ratios.items())


def pairs(name: str, d: Distance) -> Row:
    n, tau = 1_000_000, d.taxonomy
    a, b = random_positions(tau, n, seed=1), random_positions(tau, n, seed=2)
    rate = n / best(lambda: d.pairs(a, b))
    ratios = {"literal NumPy": rate / rate_of_other(d, LITERAL[d.name](tau), a[:FEW], b[:FEW])}
    if d.name == WuPalmer.name and name in HESML:
        ratios["HESML (as published)"] = rate / HESML[name]
    what = "Wu–Palmer" if d.name == WuPalmer.name else "LogTaxonomic"
    return (f"{what}, random pairs", size(name), f"{rate / 1e6:,.0f} million/s", against(**ratios))


def rate_of_other(d: Distance, other: PairDistance, a: np.ndarray, b: np.ndarray) -> float:
    """Return the pairs per second of an implementation with the same distances."""
    given = list(zip(a.tolist(), b.tolist(), strict=True))
    seconds = best(lambda: [other(i, j) for i, j in given], repeats=3)
    distances = np.array([other(i, j) for i, j in given])
    assert np.allclose(distances, d.pairs(a, b), atol=1e-12)
    return len(given) / seconds


def strings(name: str) -> Row:
    d, n = WuPalmer(taxonomy(name)), 100_000
    d.pairs(*(random_positions(d.taxonomy, n, seed=k) for k in (1, 2)))
    ids = [d.taxonomy.decode(random_positions(d.taxonomy, n, seed=k).tolist()) for k in (1, 2)]
    rate = n / best(lambda: d.pairs(*ids))
    return ("Wu–Palmer, pairs given as strings", size(name), f"{rate / 1e6:,.1f} million/s", "")


def matrix(name: str) -> Row:
    d, k = WuPalmer(taxonomy(name)), 1_000
    concepts = random_positions(d.taxonomy, k, seed=3)
    seconds = best(lambda: d.matrix(concepts))
    slow = k**2 / rate_of_other(d, literal_wu_palmer(d.taxonomy), concepts[:FEW], concepts[::-1][:FEW])
    return (f"Wu–Palmer, {k:,} x {k:,}", size(name), f"{seconds * 1e3:,.1f} ms", against(literal_NumPy=slow / seconds))


def to_all(name: str) -> Row:
    d = WuPalmer(taxonomy(name))
    a = int(random_positions(d.taxonomy, 1, seed=4)[0])
    seconds, slow = best(lambda: d.to_all(a)), best(lambda: distances_to_all(d.taxonomy, a), repeats=2)
    assert np.allclose(d.to_all(a), distances_to_all(d.taxonomy, a), atol=1e-12)
    return ("Wu–Palmer, one to all", size(name), f"{seconds * 1e3:,.2f} ms", against(literal_NumPy=slow / seconds))


def sample(d: Distance, values: int, records: int) -> list[np.ndarray]:
    """Return ``records`` positions of two attributes with up to ``values`` distinct ones; the second depends on the
    first."""
    rng = np.random.default_rng(0)
    places = [rng.permutation(len(d.taxonomy))[:values].astype(np.int32) for _ in range(2)]
    first, other = ((values * rng.random(records) ** 2.5).astype(np.int64) for _ in range(2))
    second = np.where(rng.random(records) < 0.6, (first * 7 + 3) % values, other)
    return [place[rank] for place, rank in zip(places, (first, second), strict=True)]


def covariance(name: str) -> Row:
    d, n = WuPalmer(taxonomy(name)), 4_000
    a, b = sample(d, 1_000, n)
    seconds = best(lambda: distance_covariance(a, d, b, d))

    def literal() -> float:
        return literal_covariance(d.matrix(a), d.matrix(b))

    assert abs(literal() - distance_covariance(a, d, b, d)) < 1e-9
    ratio = best(literal, repeats=2) / seconds
    return (f"sdCov of {n:,} records", size(name), f"{seconds * 1e3:,.1f} ms", against(literal_NumPy=ratio))


def mean(name: str) -> Row:
    d = WuPalmer(taxonomy(name))
    values = sample(d, 1_000, 1_000_000)[0]
    distinct = np.unique(values)
    seconds = best(lambda: semantic_mean(values, d), repeats=3)
    slow = best(lambda: distances_to_all(d.taxonomy, int(distinct[0])), repeats=2) * distinct.size
    what = f"sMean of a million records, {distinct.size:,} values"
    return (what, size(name), f"{seconds * 1e3:,.0f} ms", against(literal_NumPy=slow / seconds))


def everything(name: str) -> Row:
    d = WuPalmer(taxonomy(name))
    columns = tuple(Column(codes) for codes in sample(d, 2_000, 1_000_000))
    counts = count_batch(Batch(1_000_000, columns), [len(d.taxonomy)] * 2)
    compute = partial(compute_statistics, counts, "ab", [d, d], version=1)
    seconds, memory = best(compute, repeats=2), peak_megabytes(compute)
    pairs = counts.pairs[0, 1].keys.size
    what = f"all statistics of a million records, 2 attributes, 2,000 values, {pairs:,} pairs"
    return (what, size(name), f"{seconds:,.2f} s, {memory:,.0f} MB", "")


def of_release(folder: Path) -> Iterator[Row]:
    release = bench_masking.synthetic_release(folder)
    yield opening("icd10cm", "icd10cm")
    yield opening(SNOMED, release)
    for name in ("icd10cm", release):
        yield masking(name, folder / "codes.npy")


def opening(name: str, source: str) -> Row:
    """Measure opening an ontology that was parsed before."""
    Ontology.load(source)
    seconds = started(OPEN.format(source))
    return (
        "opening an ontology that was parsed before",
        size(name),
        f"{seconds * 1e3:,.0f} ms",
        against(parsing_the_source=started(PARSE.format(source)) / seconds),
    )


def started(code: str) -> float:
    """Return the seconds that code takes in a new process, without the imports."""
    imports = "import time; from stream_masker.core.ontology import Ontology, sources"
    timed = f"{imports}; start = time.perf_counter(); {code}; print(time.perf_counter() - start)"
    run = [sys.executable, "-c", timed]
    return min(float(subprocess.run(run, check=True, capture_output=True).stdout) for _ in range(3))


def masking(source: str, file: Path) -> Row:
    """Measure masking. ``file``: stores the records' codes for the process whose memory is measured."""
    tau = Ontology.load(source).taxonomy()
    codes, parsing = bench_masking.written_batches(tau, file)
    times = bench_masking.masking_times(tau, codes, "pair", "calibrated")
    ratios = {"literal NumPy": times.literal / times.steady}
    ratios |= {f"orjson round trip ({shape})": parsing[shape] / times.steady for shape in ("flat", "nested")}
    passed = bench_masking.BATCHES * bench_masking.BATCH // 10
    here = (
        f"{times.steady * 1e6:.2f} µs a record ({times.second * 1e6:.2f} when {passed:,} have passed), "
        f"{bench_masking.resident(source, file, 'pair')} MB resident"
    )
    on = f"{'ICD-10-CM' if tau.is_tree else 'RF2'}, {len(tau):,} concepts"
    return ("masking 2 correlated attributes (`pair`), batches of 10,000", on, here, against(**ratios))


if __name__ == "__main__":
    main()
