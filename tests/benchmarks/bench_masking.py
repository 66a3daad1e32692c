"""Masking of two correlated attributes, compared with parsing the record and with the paper's algorithm.

Run by hand: ``python tests/benchmarks/bench_masking.py``. One core. Synthetic discharges are masked by ``mask_many`` in
batches of 10,000 that are never repeated. The times are those of the first batch, and two medians: over the second
twentieth of all batches (up to 300,000 records), and over the last tenth (three million records, steady). By then most,
but not all, codes and pairs of a batch have occurred before.

* orjson: decoding and encoding the same discharge events, nested (about 480 bytes) and flat (about 200 bytes);
* transport: of α = 0.3;
* the literal algorithm: 2017's algorithms 1 to 3 over every concept, in NumPy, on precomputed arrays of ancestors;
* single calls: ``mask_one`` with one code, with two and with one and three, ÷ ``mask_many`` with the same record and
  ÷ ``d(x, y)``, of both mechanisms;
* resident memory: of a separate process that opens the parsed ontology and masks the same batches.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from math import nan
from pathlib import Path as Folder
from typing import Any, NamedTuple

import numpy as np
import orjson
from measuring import SNOMED_CONCEPTS, arguments, once, table
from references import replaced_literally
from support.memory import MB
from support.memory import resident as resident_bytes
from support.snomed import write_release

from stream_masker.core.distance import WuPalmer
from stream_masker.core.mechanisms import SemanticNoise, SemanticTransport
from stream_masker.core.mechanisms.windowed import WindowedMechanism
from stream_masker.core.ontology import Ontology, Taxonomy
from stream_masker.pipeline.paths import compile_path
from stream_masker.service.events.synthetic import SyntheticAttribute, SyntheticDischarges

BATCH, BATCHES = 10_000, 300
NAMES = ("principal", "secondary")
TRANSPORT = "transport"
CASES = [(reference, rounding) for reference in ("mean", "pair", "root") for rounding in ("calibrated", "ceil")]
SHAPES = {"1": (None,), "2": (None, None), "1 + 3": (None, 3)}
"""How many codes each attribute of a single call has; None for a scalar."""
FEW = 20
"""The number of records for the literal algorithm."""


class MaskingTimes(NamedTuple):
    """Seconds per record: of the first batch, the second twentieth, the last tenth, and the literal algorithm."""

    first: float
    second: float
    steady: float
    literal: float


def main() -> None:
    if resident_of := arguments(__doc__, {"--resident": {"nargs": 3, "help": argparse.SUPPRESS}}).resident:
        return print_resident(*resident_of)
    with tempfile.TemporaryDirectory() as folder:
        for source in ("icd10cm", synthetic_release(Folder(folder))):
            measure(source, Folder(folder) / "codes.npy")
    measure_single_calls(Ontology.load("icd10cm").taxonomy())


def synthetic_release(folder: Folder) -> str:
    """Write a synthetic SNOMED CT release; return its path."""
    return str(write_release(folder / "release", concepts=SNOMED_CONCEPTS, seed=1))


def measure(source: str, file: Folder) -> None:
    """Print the table of one taxonomy."""
    tau = Ontology.load(source).taxonomy()
    codes, parsing = written_batches(tau, file)
    print(f"\nA batch: {np.unique(codes[-1]).size:,} codes, {np.unique(codes[-1], axis=1).shape[1]:,} pairs.")

    def rows() -> Iterator[list[object]]:
        for reference, rounding in [*CASES, (TRANSPORT, "")]:
            times = masking_times(tau, codes, reference, rounding)
            ratios = [times.steady / seconds for seconds in parsing.values()]
            each = [1e6 * seconds for seconds in times[:3]]
            yield [reference, rounding, *each, *ratios, times.literal / times.steady, resident(source, file, reference)]

    head = ["reference", "rounding", "first batch, µs a record", "second twentieth", "steady"]
    head += [f"÷ orjson, {shape}" for shape in parsing] + ["literal NumPy ÷", "MB resident"]
    table(f"{len(tau):,} concepts, {'a tree' if tau.is_tree else 'a directed acyclic graph'}", head, rows())


def written_batches(tau: Taxonomy, file: Folder) -> tuple[np.ndarray, dict[str, float]]:
    """Write (batches, 2, n) positions to a file; return them, and orjson's seconds per event of each shape."""
    stream = events(tau)
    sample = list(islice(stream, BATCH))
    codes = np.array([codes_of(tau, islice(stream, BATCH)) for _ in range(BATCHES)], np.int32)
    np.save(file, codes)
    return codes, {name: round_trip([orjson.dumps(shape(e)) for e in sample]) for name, shape in SHAPE_OF.items()}


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
        SemanticTransport(taxonomies, alpha=0.3, certainty=1.0, seed=seed)
        if reference == TRANSPORT
        else SemanticNoise(taxonomies, reference=reference, rounding=rounding, seed=seed)
    )
    made.learn_many(records_of(tau, codes, 0)[0])
    made.calibrate()
    return made


def masking_times(tau: Taxonomy, codes: np.ndarray, reference: str, rounding: str) -> MaskingTimes:
    noise = mechanism(tau, codes[0], reference, rounding)
    records, keys = records_of(tau, codes[0][:, :FEW], 0)
    noise.mask_many(records, keys=keys)
    fresh, times, n = mechanism(tau, codes[0], reference, rounding), [], len(codes)
    for number, batch in enumerate(codes):
        records, keys = records_of(tau, batch, number)
        times.append(once(partial(fresh.mask_many, records, keys=keys)) / BATCH)
    slow = nan if reference == TRANSPORT else literal(noise, tau, reference, codes[0][:, :FEW].T)
    return MaskingTimes(times[0], float(np.median(times[n // 20 : n // 10])), float(np.median(times[-n // 10 :])), slow)


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


def fastest(run: Callable[[], object]) -> float:
    """Return the least processor time of seven runs, in seconds."""
    return min(once(run) for _ in range(7))


def events(tau: Taxonomy) -> Iterator[dict[str, Any]]:
    """Yield discharges with a principal and a secondary diagnosis."""
    attributes = []
    for name in NAMES:
        path, label = (compile_path(f"diagnoses.{name}.{field}") for field in ("code", "display"))
        attributes.append(SyntheticAttribute(name, tau, path, label=label))
    return SyntheticDischarges(attributes, seed=3).events()


def flat(event: dict[str, Any]) -> dict[str, Any]:
    """Return the event without nesting, names and labels."""
    kept = {name: value for name, value in event.items() if not isinstance(value, dict)}
    codes = {name: diagnosis["code"] for name, diagnosis in event["diagnoses"].items()}
    return {**kept, "patient": event["patient"]["id"], **codes}


SHAPE_OF: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {"nested": dict, "flat": flat}


def round_trip(events: list[bytes]) -> float:
    """Return the seconds to decode and encode one event."""
    return fastest(lambda: [orjson.dumps(orjson.loads(event)) for event in events]) / len(events)


def literal(noise: WindowedMechanism[Any], tau: Taxonomy, reference: str, codes: np.ndarray) -> float:
    """Return the seconds per record of the papers' algorithm over every concept; codes: (n, 2)."""
    means = [tau.position(concept) for concept in noise.statistics.mean.values()]
    deviations = np.random.default_rng(1).normal(0, 0.2, codes.shape)

    def run() -> None:
        for pair, epsilons in zip(codes, deviations, strict=True):
            for j in range(2):
                r = {"mean": means[j], "pair": int(pair[1 - j]), "root": 0}[reference]
                replaced_literally(tau, int(pair[j]), r, float(epsilons[j]))

    return once(run) / len(codes)


if __name__ == "__main__":
    main()
