"""The benchmark table of the documentation: the cost of every part, compared with other implementations.

``python tests/benchmarks/table.py [--write]`` prints it or writes it into ``docs/performance.md``, in ten minutes.
The other benchmarks of this folder measure each part in more detail, and the parts that need a broker.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path

import bench_masking
import bench_statistics as statistics
import numpy as np
import orjson
from bench_distances import FEW, HESML, check_and_rate, library, literal
from measuring import SNOMED_CONCEPTS, best, cell, peak_megabytes, random_positions, taxonomy

from stream_masker.core.distance import Distance, LogTaxonomic, WuPalmer
from stream_masker.core.ontology import Ontology
from stream_masker.core.ontology.sources import compile_ontology
from stream_masker.core.statistics import compute_statistics, distance_covariance, semantic_mean

PAGE = Path(__file__).parents[2] / "docs" / "performance.md"
SNOMED = f"snomed:{SNOMED_CONCEPTS}"
NAMES = {"icd10cm": "ICD-10-CM", "hpo": "HPO", SNOMED: "RF2"}
BATCHES, EARLY, LATE = 300, slice(15, 30), slice(270, 300)
"""The number of masked batches, and of the last ones whose median is shown."""
HEAD = ("", "on", "here", "others take, times as long")
Row = tuple[str, str, str, str]
PARSE = "sources.resolve_source({!r}).parse()"
OPEN = "Ontology.load({!r}).taxonomy()"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the table into the documentation")
    given = parser.parse_args()
    lines = [f"| {' | '.join(HEAD)} |", "|" + " --- |" * len(HEAD)]
    for row in rows():
        lines.append(f"| {' | '.join(row)} |")
        print(lines[-1], file=sys.stderr, flush=True)
    write("\n".join(lines) + "\n") if given.write else print("\n".join(lines))


def write(text: str) -> None:
    """Replace the table between its marks."""
    start, end = "<!-- benchmarks -->\n", "<!-- end of benchmarks -->\n"
    pattern = re.escape(start) + ".*?" + re.escape(end)
    PAGE.write_text(re.sub(pattern, lambda _: start + text + end, PAGE.read_text(), flags=re.DOTALL))


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
    slow, python = (check_and_rate(d, other(tau), a[:FEW], b[:FEW]) for other in (literal(d), library(d)))
    ratios = {"literal NumPy": rate / slow, ("NLTK" if d.name == WuPalmer.name else "nxontology"): rate / python}
    if d.name == WuPalmer.name and name in HESML:
        ratios["HESML (as published)"] = rate / HESML[name]
    what = "Wu–Palmer" if d.name == WuPalmer.name else "LogTaxonomic"
    return (f"{what}, random pairs", size(name), f"{rate / 1e6:,.0f} million/s", against(**ratios))


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
    slow = k**2 / check_and_rate(d, literal(d)(d.taxonomy), concepts[:FEW], concepts[::-1][:FEW])
    return (f"Wu–Palmer, {k:,} x {k:,}", size(name), f"{seconds * 1e3:,.1f} ms", against(literal_NumPy=slow / seconds))


def to_all(name: str) -> Row:
    d = WuPalmer(taxonomy(name))
    a = int(random_positions(d.taxonomy, 1, seed=4)[0])
    seconds, slow = best(lambda: d.to_all(a)), best(lambda: bench_masking.distances(d.taxonomy, a), repeats=2)
    assert np.allclose(d.to_all(a), bench_masking.distances(d.taxonomy, a), atol=1e-12)
    return ("Wu–Palmer, one to all", size(name), f"{seconds * 1e3:,.2f} ms", against(literal_NumPy=slow / seconds))


def covariance(name: str) -> Row:
    d, n = WuPalmer(taxonomy(name)), 4_000
    a, b = statistics.sample(d, 1_000, n)
    seconds = best(lambda: distance_covariance(a, d, b, d))
    others = {"literal NumPy": statistics.literal_covariance, "dcor": statistics.dcor_covariance}
    slow = {label: partial(statistics.of_matrices, other, d, a, b) for label, other in others.items()}
    assert all(abs(other() - distance_covariance(a, d, b, d)) < 1e-9 for other in slow.values())
    ratios = {label: best(other, repeats=2) / seconds for label, other in slow.items()}
    return (f"sdCov of {n:,} records", size(name), f"{seconds * 1e3:,.1f} ms", against(**ratios))


def mean(name: str) -> Row:
    d = WuPalmer(taxonomy(name))
    values = statistics.sample(d, 1_000, 1_000_000)[0]
    distinct = np.unique(values)
    seconds = best(lambda: semantic_mean(values, d), repeats=3)
    slow = best(lambda: bench_masking.distances(d.taxonomy, int(distinct[0])), repeats=2) * distinct.size
    what = f"sMean of a million records, {distinct.size:,} values"
    return (what, size(name), f"{seconds * 1e3:,.0f} ms", against(literal_NumPy=slow / seconds))


def everything(name: str) -> Row:
    d = WuPalmer(taxonomy(name))
    counts = statistics.counted(d, statistics.sample(d, 2_000, 1_000_000))
    compute = partial(compute_statistics, counts, "ab", [d, d], version=1)
    seconds, memory = best(compute, repeats=2), peak_megabytes(compute)
    pairs = counts.pairs[0, 1].keys.size
    what = f"all statistics of a million records, 2 attributes, 2,000 values, {pairs:,} pairs"
    return (what, size(name), f"{seconds:,.2f} s, {memory:,.0f} MB", "")


def of_release(folder: Path) -> Iterator[Row]:
    source = folder / "release"
    bench_masking.write_release(source, concepts=SNOMED_CONCEPTS, seed=1)
    compiled = folder / "rf2.ontology"
    compile_ontology(str(source), compiled)
    yield opening("icd10cm", "icd10cm", "icd10cm")
    yield opening(SNOMED, str(compiled), str(source))
    for name in ("icd10cm", str(compiled)):
        yield masking(name, folder / "codes.npy")


def opening(name: str, compiled: str, source: str) -> Row:
    """Measure opening a compiled ontology. A name is a source that is compiled already, in the cache or the package."""
    seconds = started(OPEN.format(compiled))
    return (
        "opening the compiled ontology",
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
    stream = bench_masking.events(tau)
    sample = list(islice(stream, bench_masking.BATCH))
    codes = [bench_masking.codes_of(tau, islice(stream, bench_masking.BATCH)) for _ in range(BATCHES)]
    np.save(file, np.array(codes, np.int32))
    times, slow = bench_masking.seconds(tau, np.load(file), "pair", "calibrated")
    early, steady = (float(np.median(times[which])) for which in (EARLY, LATE))
    ratios = {"literal NumPy": slow / steady}
    for label, shape in {"orjson round trip (flat)": bench_masking.flat, "(nested)": dict}.items():
        ratios[label] = bench_masking.round_trip([orjson.dumps(shape(event)) for event in sample]) / steady
    passed = EARLY.stop * bench_masking.BATCH
    here = (
        f"{steady * 1e6:.2f} µs a record ({early * 1e6:.2f} when {passed:,} have passed), "
        f"{bench_masking.resident(source, file, 'pair')} MB resident"
    )
    on = f"{'ICD-10-CM' if tau.is_tree else 'RF2'}, {len(tau):,} concepts"
    return ("masking 2 correlated attributes (`pair`), batches of 10,000", on, here, against(**ratios))


if __name__ == "__main__":
    main()
