"""Masking of two correlated attributes, compared with parsing the record and with the paper's algorithm.

Run by hand: ``python tests/benchmarks/bench_masking.py [--quick] [--snomed SOURCE]``. One core. Synthetic
discharges are masked by ``mask_many`` in batches of 10,000 that are never repeated. The times are those of the first
batch, and two medians: over the second tenth of all batches (up to 600,000 records), and over the last tenth (three
million records, steady). By then most, but not all, codes and pairs of a batch have occurred before.

* orjson: decoding and encoding the same discharge events, nested (about 480 bytes) and flat (about 200 bytes);
* transport: of α = 0.3;
* the literal algorithm: 2017's algorithms 1 to 3 over every concept, in NumPy, on precomputed arrays of ancestors;
* single calls: ``mask_one`` with one code, with two and with one and three, ÷ ``mask_many`` with the same record and
  ÷ ``d(x, y)``, of both mechanisms;
* resident memory: of a separate process that opens the compiled ontology and masks the same batches.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from math import nan
from pathlib import Path as Folder
from typing import Any

import numpy as np
import orjson
from measuring import SNOMED_CONCEPTS, table
from support.memory import MB
from support.memory import resident as resident_bytes
from support.snomed import write_release

from stream_masker.core.distance import WuPalmer
from stream_masker.core.mechanisms import SemanticNoise, SemanticTransport
from stream_masker.core.mechanisms.windowed import WindowedMechanism
from stream_masker.core.ontology import Ontology, Taxonomy
from stream_masker.core.ontology.sources import compile_ontology
from stream_masker.pipeline.paths import compile_path
from stream_masker.service.events.synthetic import SyntheticAttribute, SyntheticDischarges

BATCH = 10_000
NAMES = ("principal", "secondary")
TRANSPORT = "transport"
CASES = [(reference, rounding) for reference in ("mean", "pair", "root") for rounding in ("calibrated", "ceil")]
CASES.append((TRANSPORT, ""))
SHAPES = {"1": (None,), "2": (None, None), "1 + 3": (None, 3)}
"""How many codes each attribute of a single call has; None for a scalar."""
FEW = 20
"""The number of records for the literal algorithm."""

HEAD = [
    "reference",
    "rounding",
    "first batch, µs a record",
    "second tenth",
    "steady",
    "÷ orjson, nested",
    "÷ orjson, flat",
    "literal NumPy ÷",
    "MB resident",
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few batches and a smaller synthetic release")
    parser.add_argument("--snomed", help="a release or a compiled ontology instead of a synthetic release")
    parser.add_argument("--resident", nargs=3, metavar=("SOURCE", "CODES", "REFERENCE"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.resident:
        return print_resident(*given.resident)
    with tempfile.TemporaryDirectory() as folder:
        snomed = given.snomed or synthetic_release(Folder(folder), 50_000 if given.quick else SNOMED_CONCEPTS)
        for source in ("icd10cm", snomed):
            measure(source, batches=10 if given.quick else 300, folder=Folder(folder))
    measure_single_calls(Ontology.load("icd10cm").taxonomy())


def measure_single_calls(tau: Taxonomy) -> None:
    """Print the table of single calls."""
    codes = codes_of(tau, islice(events(tau), BATCH)).T
    distance = WuPalmer(tau)
    pairs = [tau.decode(pair) for pair in codes[: 100 * FEW]]
    between = fastest(lambda: [distance(x, y) for x, y in pairs]) / len(pairs)

    def rows() -> Iterator[list[object]]:
        for make in (SemanticTransport, SemanticNoise):
            for shape, sizes in SHAPES.items():
                names = NAMES[: len(sizes)]
                records = [record_of(tau, names, sizes, row) for row in codes]
                masking = make(dict.fromkeys(names, tau), seed=b"benchmark.......")
                masking.learn_many(records)
                masking.calibrate()
                few = [(record, b"%d" % n) for n, record in enumerate(records[: 100 * FEW])]
                one, many = (fastest(partial(call, masking, few)) / len(few) for call in (mask_each, mask_each_alone))
                yield [make.name, shape, one * 1e6, many / one, one / between]

    head = ["mechanism", "codes", "mask_one, µs", "mask_many of one record ÷", "÷ d(x, y)"]
    table(f"single calls; d(x, y): {between * 1e6:.2f} µs", head, rows())


def mask_each(masking: WindowedMechanism[Any], few: Iterable[tuple[dict[str, Any], bytes]]) -> None:
    """Mask records by ``mask_one``."""
    for record, key in few:
        masking.mask_one(record, key=key)


def mask_each_alone(masking: WindowedMechanism[Any], few: Iterable[tuple[dict[str, Any], bytes]]) -> None:
    """Mask records by ``mask_many``, one at a time."""
    for record, key in few:
        masking.mask_many([record], keys=[key])


def record_of(tau: Taxonomy, names: Sequence[str], sizes: Sequence[int | None], row: np.ndarray) -> dict[str, Any]:
    """Return a record with a code of each attribute, or with a list of codes near it."""
    record: dict[str, Any] = {}
    for name, code, size in zip(names, row[: len(names)], sizes, strict=True):
        texts = tau.decode(np.minimum(code + np.arange(size or 1), len(tau) - 1))
        record[name] = texts[0] if size is None else texts
    return record


def fastest(run: Callable[[], object]) -> float:
    """Return the least processor time of seven runs, in seconds."""
    return min(timed(run) for _ in range(7))


def synthetic_release(folder: Folder, concepts: int) -> str:
    """Compile a synthetic SNOMED CT release."""
    write_release(folder / "release", concepts=concepts, seed=1)
    compiled = folder / "synthetic.ontology"
    compile_ontology(str(folder / "release"), compiled)
    return str(compiled)


def measure(source: str, *, batches: int, folder: Folder) -> None:
    """Print the table of one taxonomy."""
    tau = Ontology.load(source).taxonomy()
    title = f"{len(tau):,} concepts, {'a tree' if tau.is_tree else 'a directed acyclic graph'}"
    stream = events(tau)
    sample = list(islice(stream, BATCH))
    codes = np.array([codes_of(tau, islice(stream, BATCH)) for _ in range(batches)], np.int32)
    np.save(folder / "codes.npy", codes)
    parsing = [round_trip([orjson.dumps(shape(event)) for event in sample]) for shape in (dict, flat)]
    print(f"\nA batch: {np.unique(codes[-1]).size:,} codes, {np.unique(codes[-1], axis=1).shape[1]:,} pairs.")

    def rows() -> Iterator[list[object]]:
        for reference, rounding in CASES:
            times, slow = seconds(tau, codes, reference, rounding)
            tenth = batches // 10
            second, steady = np.median(times[tenth : 2 * tenth]), np.median(times[-tenth:])
            megabytes = resident(source, folder / "codes.npy", reference)
            ratios = [steady / of for of in parsing]
            yield [reference, rounding, times[0] * 1e6, second * 1e6, steady * 1e6, *ratios, slow / steady, megabytes]

    table(title, HEAD, rows())


def codes_of(tau: Taxonomy, events: Iterable[dict[str, Any]]) -> np.ndarray:
    """Return the (2, n) positions of both attributes."""
    flattened = [flat(event) for event in events]
    return np.array([tau.encode([event[name] for event in flattened]) for name in NAMES])


def records_of(tau: Taxonomy, codes: np.ndarray, number: int) -> tuple[list[dict[str, str]], list[bytes]]:
    """Return a batch's records as parsed, and their keys."""
    texts = [tau.decode(column) for column in codes]
    records = [dict(zip(NAMES, row, strict=True)) for row in zip(*texts, strict=True)]
    keys = [b"enc-%09d" % (number * BATCH + i) for i in range(len(records))]
    return orjson.loads(orjson.dumps(records)), keys


def mechanism(tau: Taxonomy, codes: np.ndarray, reference: str, rounding: str) -> WindowedMechanism[Any]:
    """Return a mechanism calibrated on a batch."""
    taxonomies, seed = dict.fromkeys(NAMES, tau), b"benchmark......."
    made: WindowedMechanism[Any] = (
        SemanticTransport(taxonomies, target={"alpha": 0.3}, seed=seed)
        if reference == TRANSPORT
        else SemanticNoise(taxonomies, reference=reference, rounding=rounding, seed=seed)
    )
    made.learn_many(records_of(tau, codes, 0)[0])
    made.calibrate()
    return made


def seconds(tau: Taxonomy, codes: np.ndarray, reference: str, rounding: str) -> tuple[list[float], float]:
    """Return the seconds per record of each batch, and of the literal algorithm."""
    noise = mechanism(tau, codes[0], reference, rounding)
    records, keys = records_of(tau, codes[0][:, :FEW], 0)
    noise.mask_many(records, keys=keys)
    fresh = mechanism(tau, codes[0], reference, rounding)
    times = []
    for number, batch in enumerate(codes):
        records, keys = records_of(tau, batch, number)
        times.append(timed(partial(fresh.mask_many, records, keys=keys)) / BATCH)
    return times, nan if reference == TRANSPORT else literal(noise, tau, reference, codes[0][:, :FEW].T)


def print_resident(source: str, codes: str, reference: str) -> None:
    """Mask all batches and print the process's resident memory in MB."""
    tau = Ontology.load(source).taxonomy()
    noise = mechanism(tau, batch_of(codes, 0), reference, "calibrated")
    for number in range(len(np.load(codes, mmap_mode="r"))):
        records, keys = records_of(tau, batch_of(codes, number), number)
        noise.mask_many(records, keys=keys)
    print(int(resident_bytes(os.getpid()) / MB))


def batch_of(codes: str, number: int) -> np.ndarray:
    """Load one batch from a file, without keeping the others in memory."""
    return np.array(np.load(codes, mmap_mode="r")[number])


def resident(source: str, codes: Folder, reference: str) -> int:
    """Return the output of ``print_resident`` in a separate process."""
    arguments = [sys.executable, __file__, "--resident", source, str(codes), reference]
    return int(subprocess.run(arguments, check=True, capture_output=True, text=True).stdout)


def timed(run: Callable[[], object]) -> float:
    """Return the processor time of a call in this thread, in seconds."""
    start = time.thread_time()
    run()
    return time.thread_time() - start


def events(tau: Taxonomy) -> Iterator[dict[str, Any]]:
    """Yield discharges with a principal and a secondary diagnosis."""
    attributes = [
        SyntheticAttribute(
            name, tau, compile_path(f"diagnoses.{name}.code"), label=compile_path(f"diagnoses.{name}.display")
        )
        for name in NAMES
    ]
    return SyntheticDischarges(attributes, seed=3).events()


def flat(event: dict[str, Any]) -> dict[str, Any]:
    """Return the event without nesting, names and labels."""
    kept = {name: value for name, value in event.items() if not isinstance(value, dict)}
    codes = {name: diagnosis["code"] for name, diagnosis in event["diagnoses"].items()}
    return {**kept, "patient": event["patient"]["id"], **codes}


def round_trip(events: list[bytes]) -> float:
    """Return the seconds to decode and encode one event."""

    def run() -> None:
        for event in events:
            orjson.dumps(orjson.loads(event))

    return fastest(run) / len(events)


def literal(noise: WindowedMechanism[Any], tau: Taxonomy, reference: str, codes: np.ndarray) -> float:
    """Return the seconds per record of the papers' algorithm over every concept; codes: (n, 2)."""
    means = [tau.position(concept) for concept in noise.statistics.mean.values()]
    deviations = np.random.default_rng(1).normal(0, 0.2, codes.shape)

    def run() -> None:
        for pair, epsilons in zip(codes, deviations, strict=True):
            for j in range(2):
                r = {"mean": means[j], "pair": int(pair[1 - j]), "root": 0}[reference]
                replaced_literally(tau, int(pair[j]), r, float(epsilons[j]))

    return timed(run) / len(codes)


def replaced_literally(tau: Taxonomy, a: int, r: int, noise: float) -> int:
    """Replace a value by 2017's algorithms 1 to 3, which differ only in the reference."""
    to_a, to_r = distances(tau, a), distances(tau, r)
    admissible = to_r > to_r[a] if noise > 0 else to_r < to_r[a]
    admissible = (admissible | (a == r)) & (to_a >= abs(noise))
    admissible[a] = False
    return int(np.argmin(np.where(admissible, to_a, np.inf))) if admissible.any() else a


def distances(tau: Taxonomy, a: int) -> np.ndarray:
    """Return the (m,) distances of one concept to every other one (2017: equations 11 and 12)."""
    up = tau.closure
    own = slice(up.offsets[a], up.offsets[a + 1])
    links = np.full(len(tau), -1)
    links[up.ancestors[own]] = up.paths[own]
    common = links[up.ancestors] >= 0
    depth = np.where(common, tau.depth[up.ancestors], 0)
    deepest = np.maximum.reduceat(depth, up.offsets[:-1])
    far = np.iinfo(np.int64).max
    here = depth == np.repeat(deepest, np.diff(up.offsets))
    paths = np.minimum.reduceat(np.where(here, up.paths + links[up.ancestors], far), up.offsets[:-1])
    return 1 - 2 * deepest / (2 * deepest + paths)


if __name__ == "__main__":
    main()
