"""Records per second of every registered mechanism on real discharges, compared with an orjson round trip.

Run by hand: ``python tests/benchmarks/bench_mechanisms.py [--only NAME ...] [--records 20000]``. One core, processor
time, best of several runs. Records have a principal and a secondary diagnosis (ICD-9-CM, 17,727 concepts). The
statistics are computed from the first 10,000 records; the following ones are masked. ``mask_batch`` takes encoded
records, as in the service; ``mask_many`` takes dictionaries of codes. Group mechanisms get groups of 1,000 and 10,000.
The round trip is ``orjson.loads`` and ``orjson.dumps`` of a discharge as an event with all columns of the file.

``SETTINGS`` lists mechanisms with non-default parameters.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import orjson
from measuring import table
from support.data import discharges, icd9cm

from stream_masker.core.batch import Batch, Column
from stream_masker.core.mechanisms import MECHANISMS, WindowedMechanism, mechanism
from stream_masker.core.numeric import Numeric
from stream_masker.core.ontology import ConceptMap, Taxonomy
from stream_masker.core.random.keys import PositionKeys

SECRET = b"the secret of the benchmark"
COLUMNS = {"principal": "diag_1", "secondary": "diag_2"}
NUMBERS = {"stay": "time_in_hospital", "drugs": "num_medications"}
WINDOW = 10_000
BATCHES = (10_000,)
GROUPS = (1_000, 10_000)
REPEATS = 3


@dataclass(frozen=True, eq=False)
class Setting:
    """A use of a mechanism. label: suffix of its name; attributes: masked attributes; numbers: numeric ones."""

    label: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    attributes: tuple[str, ...] = ("principal", "secondary")
    numbers: tuple[str, ...] = ()


DEFAULT = (Setting(),)

SETTINGS: dict[str, tuple[Setting, ...]] = {
    "semantic_noise": (
        Setting("mean"),
        Setting("pair", {"reference": "pair"}),
        Setting("root", {"reference": "root"}),
        Setting("mean, and two numbers", numbers=tuple(NUMBERS)),
        Setting("two numbers", attributes=(), numbers=tuple(NUMBERS)),
    ),
    "microaggregation": (
        Setting("k = 3", {"k": 3}),
        Setting("k = 5"),
        Setting("k = 20", {"k": 20}),
        Setting("k = 5, classic", {"variant": "classic"}),
        Setting("k = 5, hybrid", {"hybrid": True}),
        Setting("k = 5, and two numbers", numbers=tuple(NUMBERS)),
    ),
    "rank_swapping": (
        Setting("Algorithm 1, k = 10", {"intervals": "fixed"}),
        Setting("Algorithm 2, k = 10"),
        Setting("Algorithm 2, p = 5", {"p": 5.0}),
        Setting("Algorithm 3, k = 10", {"multivariate": True}),
        Setting("Algorithm 3, p = 5", {"p": 5.0, "multivariate": True}),
    ),
}
"""The settings of mechanisms that are not measured with their defaults alone."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", choices=sorted(MECHANISMS), default=sorted(MECHANISMS))
    parser.add_argument("--records", type=int, default=20_000, help="records masked in a run")
    options = parser.parse_args()
    trip = per_second(round_trip, options.records)
    print(f"\norjson round trip: {trip:,.0f} records/s")
    head = ["mechanism", "batch", "calibrate, s", "mask_batch/s", "÷ orjson", "mask_many/s", "÷ orjson"]
    table("Records/s by mechanism", head, (row for name in options.only for row in rows(name, options.records, trip)))


def rows(name: str, records: int, trip: float) -> Iterator[list[object]]:
    for setting in SETTINGS.get(name, DEFAULT):
        made, calibration = calibrated(name, setting)
        for size in GROUPS if made.needs_group else BATCHES:
            by_batch = per_second(lambda n: mask_batches(made, setting, n, size), records)  # noqa: B023
            by_record = per_second(lambda n: mask_records(made, setting, n, size), records)  # noqa: B023
            label = f"{name} ({setting.label})" if setting.label else name
            yield [label, size, calibration, by_batch, by_batch / trip, by_record, by_record / trip]


def calibrated(name: str, setting: Setting) -> tuple[WindowedMechanism[Any], float]:
    """Return a calibrated mechanism and its calibration time in seconds, including compilation on the first call."""
    numeric = {"numeric": {number: Numeric(minimum=0, integer=True) for number in setting.numbers}}
    parameters = {**(numeric if setting.numbers else {}), **setting.parameters}
    made = mechanism(name)(dict.fromkeys(setting.attributes, tau()), seed=SECRET, **parameters)
    made.learn_many(masked_fields(setting, 0, WINDOW))
    start = time.process_time()
    made.calibrate()
    return made, time.process_time() - start


def per_second(run: Callable[[int], None], records: int) -> float:
    """Return the records per second of processor time; the first run may compile and is not counted."""
    run(records)
    times = []
    for _ in range(REPEATS):
        start = time.process_time()
        run(records)
        times.append(time.process_time() - start)
    return records / min(times)


def mask_batches(made: WindowedMechanism[Any], setting: Setting, records: int, size: int) -> None:
    columns = [codes()[name] for name in setting.attributes]
    for start in range(WINDOW, WINDOW + records, size):
        numeric = numbers(setting)[start : start + size] if setting.numbers else None
        batch = Batch(size, tuple(Column(column[start : start + size]) for column in columns), numeric=numeric)
        made.mask_batch(batch, PositionKeys(SECRET, "discharges", 0, np.arange(start, start + size)))


def mask_records(made: WindowedMechanism[Any], setting: Setting, records: int, size: int) -> None:
    for start in range(WINDOW, WINDOW + records, size):
        some = masked_fields(setting, start, size)
        made.mask_many(some, keys=keys()[start : start + size])


@cache
def masked_fields(setting: Setting, start: int, size: int) -> list[dict[str, Any]]:
    """Return records with the codes and numbers that a setting masks."""
    values = [tau().decode(codes()[name][start : start + size]) for name in setting.attributes]
    values += [column.astype(int).tolist() for column in numbers(setting)[start : start + size].T]
    return [dict(zip(setting.attributes + setting.numbers, row, strict=True)) for row in zip(*values, strict=True)]


@cache
def tau() -> Taxonomy:
    return icd9cm().taxonomy()


@cache
def codes() -> dict[str, np.ndarray]:
    """Return the positions of both diagnoses, for the discharges in which both are known."""
    concepts = ConceptMap(tau(), unknown="ancestor", ontology=icd9cm())
    found = np.array([[concepts.resolve(row[a])[0] for a in COLUMNS.values()] for row in discharges()], np.int32)
    known = found[(found >= 0).all(axis=1)]
    return {name: np.ascontiguousarray(known[:, j]) for j, name in enumerate(COLUMNS)}


@cache
def numbers(setting: Setting) -> np.ndarray:
    """Return the (n, q) float64 numbers that a setting masks, of the first discharges."""
    rows = [[float(row[NUMBERS[number]]) for number in setting.numbers] for row in discharges()[: codes_known()]]
    return np.array(rows).reshape(codes_known(), len(setting.numbers))


def codes_known() -> int:
    return len(codes()["principal"])


@cache
def keys() -> list[bytes]:
    return [b"%d" % number for number in range(len(discharges()))]


def round_trip(records: int) -> None:
    for event in events()[:records]:
        orjson.dumps(orjson.loads(event))


@cache
def events() -> list[bytes]:
    return [orjson.dumps(row) for row in discharges()]


if __name__ == "__main__":
    main()
