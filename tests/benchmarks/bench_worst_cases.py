"""The cost of records that a producer can make as expensive as possible, in nanoseconds per byte of input.

``python tests/benchmarks/bench_worst_cases.py [--records N]``. One core. Each case is a batch of records of which every
one has the same peculiarity; the last column is the cost of a byte compared with plain records of the same run. Codes
are masked by semantic noise on ICD-10-CM. Each batch is read for the first time; the first batch of a case is not
counted. The benchmark fails if a byte of any case costs more than ``MOST`` times that of a plain record.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from statistics import median

import orjson
from measuring import once, table

from stream_masker.pipeline.masker import RecordMasker
from stream_masker.pipeline.records import InputRecord, Rejected
from stream_masker.service.configuration.loading import parse_configuration
from stream_masker.service.masking import Masking

MOST = 40.0
"""The bound: the most times that a byte of any case may cost what a byte of a plain record costs."""

BATCHES = 5
HEAD = ["records", "bytes each", "ns a byte", "rejected", "÷ plain"]
RANDOM = Random(1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=3_000, help="records of 500 bytes in a batch")
    given = parser.parse_args()
    masker = calibrated()
    worst = 0.0

    def rows() -> Iterator[list[object]]:
        nonlocal worst
        plain = 0.0
        for name, make in CASES.items():
            size, cost, rejected = measured(masker, make, given.records)
            plain = plain or cost
            worst = max(worst, cost / plain)
            yield [name, size, cost, rejected, cost / plain]

    table("Worst cases", HEAD, rows())
    if worst > MOST:
        sys.exit(f"a byte costs up to {worst:.1f} times that of a plain record; the bound is {MOST}")


def calibrated() -> RecordMasker:
    """A masker with statistics of plain records."""
    with tempfile.TemporaryDirectory() as folder:
        secret = Path(folder) / "secret"
        secret.write_bytes(RANDOM.randbytes(32))
        secret.chmod(0o600)
        masking = Masking(parse_configuration({**CONFIGURATION, "secret": {"file": str(secret)}}))
    counts = masking.masker.count([plain() for _ in range(5_000)]).counts
    mechanism = masking.mechanism
    mechanism.restore(mechanism.snapshot_of(mechanism.compute(counts, version=1)))  # type: ignore[attr-defined]
    return masking.masker


CONFIGURATION = {
    "ontologies": {"icd": {"source": "icd10cm"}},
    "attributes": {
        "principal": {"path": "principal.code", "label": "principal.display", "ontology": "icd"},
        "secondary": {"path": "secondary[*].code", "label": "secondary[*].display", "ontology": "icd"},
    },
    "fields": {"keep": ["age", "measured", "nested"], "pseudonymize": ["patient.id"], "unlisted": "drop"},
    "noise_key": "patient.id",
}
CODES = ("I10", "E11.9", "J45.909", "M54.5", "N39.0", "K21.9", "F32.9", "E78.5", "Z23", "R07.9")


def measured(masker: RecordMasker, make: Callable[[], bytes], records: int) -> tuple[int, float, str]:
    """The mean size of a case's records, the cost of a byte in ns, and the share of rejected records."""
    size = len(make())
    count = max(4, records * 500 // size)
    batches = [[InputRecord(i, make()) for i in range(count)] for _ in range(BATCHES + 1)]
    times, rejected = [], 0
    for batch in batches:
        times.append(once(lambda batch=batch: masker.mask("t", 0, batch, statistics_version=1)))  # type: ignore[misc]
    outcomes = masker.mask("t", 0, batches[-1], statistics_version=1).outcomes
    rejected = sum(isinstance(one, Rejected) for one in outcomes)
    bytes_each = [sum(len(one.value or b"") for one in batch) for batch in batches]
    costs = [seconds / size for seconds, size in zip(times[1:], bytes_each[1:], strict=True)]
    return bytes_each[-1] // count, 1e9 * median(costs), f"{rejected / count:.0%}"


def event() -> dict[str, object]:
    """A discharge of about 500 bytes."""
    return {
        "patient": {"id": f"P{RANDOM.randrange(10**6):06}", "name": "x" * 40},
        "age": 41,
        "measured": [0.5, 1.25],
        "principal": {"code": RANDOM.choice(CODES), "display": "the principal diagnosis"},
        "secondary": [{"code": RANDOM.choice(CODES), "display": "a secondary diagnosis"} for _ in range(3)],
        "nested": {},
        "remark": "y" * 60,
    }


def plain() -> bytes:
    return orjson.dumps(event())


def with_raw(field: str, raw: str) -> bytes:
    """An event with one field replaced by the text of a JSON value."""
    return orjson.dumps({**event(), field: "@@"}).replace(b'"@@"', raw.encode())


def unknown_code() -> str:
    return f"Q{RANDOM.randrange(10**9)}"


def unknown_secondary(count: int) -> bytes:
    return orjson.dumps({**event(), "secondary": [{"code": unknown_code()} for _ in range(count)]})


def many(text: str, count: int) -> bytes:
    return with_raw("measured", "[" + ",".join([text] * count) + "]")


def many_members(count: int) -> bytes:
    first = RANDOM.randrange(16**6)
    names = ",".join(f'"{first + number:x}":1' for number in range(count))
    return with_raw("nested", "{" + names + "}")


CASES: dict[str, Callable[[], bytes]] = {
    "plain": plain,
    "one number with an exponent": lambda: many("1e5", 1),
    "100 numbers with an exponent": lambda: many("1e5", 100),
    "one integer of 20 digits": lambda: many("18446744073709551615", 1),
    "one number of 17 digits": lambda: many("0.12345678901234567", 1),
    "one number that is too large": lambda: many("1e999", 1),
    "an escape in a name": lambda: plain().replace(b'"age"', b'"\\u0061ge"'),
    "an escape in a code": lambda: plain().replace(b'"code":"', b'"code":"\\u0049'),
    "a name twice": lambda: plain().replace(b'"age":41', b'"age":41,"age":41'),
    "escapes in 10 kB of text": lambda: with_raw("nested", '{"a":"' + "\\u0041" * 1_700 + '"}'),
    "an unknown code": lambda: orjson.dumps({**event(), "principal": {"code": unknown_code()}}),
    "300 unknown codes": lambda: unknown_secondary(300),
    "20,000 unknown codes": lambda: unknown_secondary(20_000),
    "10 kB of empty lists": lambda: many("[]", 3_300),
    "10 kB of empty objects": lambda: many("{}", 3_300),
    "60 levels": lambda: with_raw("nested", '{"a":' * 60 + "1" + "}" * 60),
    "3,000 names": lambda: many_members(3_000),
    "60,000 names": lambda: many_members(60_000),
    "cut off at the end": lambda: plain()[:-1],
    "not UTF-8 at the end": lambda: plain()[:-2] + b'\xff"}',
    "100 kB cut off at the end": lambda: many("1", 50_000)[:-1],
    "100 kB of white space": lambda: with_raw("age", " " * 100_000 + "1"),
}
"""The text of a record of each case."""


if __name__ == "__main__":
    main()
