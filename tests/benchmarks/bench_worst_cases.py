"""The cost of records that a producer can make as expensive as possible, compared with that of plain records.

``python tests/benchmarks/bench_worst_cases.py [--records N] [--only CONFIGURATION]``; ``--records``: those
of the size of plain ones in a batch. One core; garbage collection is
set as in a worker (``service.runtime.process``). Codes of ICD-10-CM are masked. Each case is a batch of records of
which every one has the same peculiarity, and which are read for the first time; the first batch of a case is not
counted. The last column is the cost of a byte compared with plain records of the same configuration; a record that is
smaller than a plain one counts as one of the same size. The benchmark fails if a byte of any case costs more than its
bound (``bound_of``). A second table shows how much longer a batch of plain records takes with one such record in it.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

import orjson
from measuring import CODES, arguments, once, table
from support.small_configuration import write_secret

from stream_masker.core.ontology import Ontology
from stream_masker.pipeline.masker import RecordMasker
from stream_masker.pipeline.records import InputRecord
from stream_masker.service.configuration.loading import parse_configuration
from stream_masker.service.masking import Masking
from stream_masker.service.runtime.process import infrequent_collections

MOST = 40.0
"""The bound: the most times that a byte of any case may cost what a byte of a plain record costs."""

MOST_OF_SPELLINGS = 80.0
"""The bound of codes of which each is spelled in a way that has not occurred before (``SPELLINGS``)."""

MOST_OF_ANCESTORS = 160.0
"""The bound with ``unknown: ancestor``, where the prefixes of unknown codes are looked up too."""

BATCHES = 5
WORKER_BATCH = 10_000
RANDOM = Random(1)
ALL_CODES = [code for code in Ontology.load("icd10cm").taxonomy().ids if "." in code]

Make = Callable[[], bytes]
"""A function that returns the text of another record of a case."""


def main() -> None:
    given = arguments(__doc__, {"--records": 1_000, "--only": {"choices": CONFIGURATIONS}})
    exceeded = []
    with infrequent_collections(WORKER_BATCH):
        for name, (configuration, cases) in CONFIGURATIONS.items():
            if given.only in (None, name):
                masker = calibrated(configuration)
                costs = print_cases(name, masker, cases, given.records)
                exceeded += [f"{case} ({name})" for case, cost in costs.items() if cost > bound_of(case, name)]
                print_intruders(name, masker, cases)
    if exceeded:
        sys.exit("a byte costs more than its bound: " + "; ".join(exceeded))


def bound_of(case: str, name: str) -> float:
    """The most times that a byte of a case may cost what a byte of a plain record of the same configuration costs."""
    if name == BY_ANCESTOR:
        return MOST_OF_ANCESTORS
    return MOST_OF_SPELLINGS if case in SPELLINGS else MOST


def calibrated(configuration: Mapping[str, Any]) -> RecordMasker:
    """A masker with statistics of plain records."""
    with tempfile.TemporaryDirectory() as folder:
        write_secret(Path(folder), content=RANDOM.randbytes(32))
        masking = Masking(parse_configuration({**configuration, "secret": {"file": "secret"}}, folder=Path(folder)))
    counts = masking.masker.count([plain() for _ in range(5_000)]).counts
    mechanism = masking.mechanism
    mechanism.restore(mechanism.snapshot_of(mechanism.compute(counts, version=1)))  # type: ignore[attr-defined]
    return masking.masker


def print_cases(name: str, masker: RecordMasker, cases: Mapping[str, Make], records: int) -> dict[str, float]:
    """Print the table of a configuration. Return the cost of a byte of each case compared with plain records."""
    size, usual, *_ = measured(masker, plain, records)
    costs = {}

    def rows() -> Iterator[list[object]]:
        for case, make in cases.items():
            bytes_each, each, rejected = measured(masker, make, records)
            costs[case] = (each / max(bytes_each, size)) / (usual / size)
            yield [case, bytes_each, each, rejected, costs[case]]

    table(f"Worst cases: {name}", HEAD, rows())
    return costs


HEAD = ["records", "bytes each", "µs each", "rejected", "÷ plain"]


def measured(masker: RecordMasker, make: Make, records: int) -> tuple[int, float, str]:
    """The mean size of a case's records, the time of each in µs, and the share that is rejected."""
    count = max(4, records * 500 // max(500, len(make())))
    batches = [[InputRecord(i, make()) for i in range(count)] for _ in range(BATCHES + 1)]
    times = [once(partial(mask, masker, batch)) for batch in batches]
    sizes = [sum(len(one.value or b"") for one in batch) for batch in batches]
    rejected = len(mask(masker, batches[-1]).rejected)
    size = sum(sizes) // (count * len(sizes))
    each = median(time / of_batch for time, of_batch in zip(times[1:], sizes[1:], strict=True)) * size
    return size, 1e6 * each, f"{rejected / count:.0%}"


def mask(masker: RecordMasker, batch: list[InputRecord]) -> Any:
    return masker.mask("t", 0, batch, statistics_version=1)


def print_intruders(name: str, masker: RecordMasker, cases: Mapping[str, Make]) -> None:
    """Print what one record of each case costs a batch of plain records."""
    batches = [[InputRecord(i, plain()) for i in range(WORKER_BATCH)] for _ in range(BATCHES)]
    usual = [once(partial(mask, masker, batch)) for batch in batches]

    def rows() -> Iterator[list[object]]:
        for case in INTRUDERS:
            if case in cases:
                mixed = [[*batch[:-1], InputRecord(WORKER_BATCH, cases[case]())] for batch in batches]
                times = [once(partial(mask, masker, batch)) for batch in mixed]
                yield [case, 1e3 * median(times), median(times) / median(usual)]

    table(f"One record among {WORKER_BATCH:,} plain ones: {name}", ["record", "ms a batch", "÷ plain"], rows())


INTRUDERS = ("plain", "cut off at the end", "an unknown code", "20,000 unknown codes", "20,000 new codes")


def event() -> dict[str, Any]:
    """A discharge of about 500 bytes."""
    return {
        "patient": {"id": f"P{RANDOM.randrange(10**6):06}", "name": "x" * 40},
        "age": 41,
        "measured": [0.5, 1.25],
        "principal": {"code": RANDOM.choice(CODES), "display": "the principal diagnosis"},
        "secondary": [{"code": RANDOM.choice(CODES), "display": "a secondary diagnosis"} for _ in range(3)],
        "codes": RANDOM.choices(CODES, k=3),
        "refs": ["a", "b"],
        "nested": {},
        "remark": "y" * 60,
    }


def plain() -> bytes:
    return orjson.dumps(event())


def with_raw(field: str, raw: str) -> bytes:
    """An event with one field replaced by the text of a JSON value."""
    return orjson.dumps({**event(), field: "@@"}).replace(b'"@@"', raw.encode())


def repeated(field: str, text: str, count: int) -> bytes:
    """An event with a list of equal elements in a field."""
    return with_raw(field, "[" + ",".join([text] * count) + "]")


def unknown_code() -> str:
    return f"Q{RANDOM.randrange(10**9)}"


def new_text() -> str:
    """A code that has not occurred before in this spelling."""
    return RANDOM.choice(ALL_CODES).lower() + " " * RANDOM.randrange(8)


def extended_code() -> str:
    """An unknown code that begins with a known one."""
    return RANDOM.choice(ALL_CODES) + "".join(RANDOM.choices("ghjkmnpqrstuvwxyz", k=3))


def secondary(count: int, code: Callable[[], str], *last: str) -> bytes:
    """An event with a list of objects with codes."""
    codes = [*(code() for _ in range(count - len(last))), *last]
    return orjson.dumps({**event(), "secondary": [{"code": one} for one in codes]})


def codes(count: int, code: Callable[[], str]) -> bytes:
    """An event with a list of codes."""
    return orjson.dumps({**event(), "codes": [code() for _ in range(count)]})


def common() -> str:
    return RANDOM.choice(CODES)


def any_code() -> str:
    return RANDOM.choice(ALL_CODES)


def many_members(count: int) -> bytes:
    first = RANDOM.randrange(16**6)
    names = ",".join(f'"{first + number:x}":1' for number in range(count))
    return with_raw("nested", "{" + names + "}")


JSON_CASES: Mapping[str, Make] = {
    "plain": plain,
    "two bytes": lambda: b"{}",
    "100 numbers with an exponent": lambda: repeated("measured", "1e5", 100),
    "one number that is too large": lambda: repeated("measured", "1e999", 1),
    "a number of 100 kB": lambda: with_raw("measured", "1" * 100_000),
    "an escape in a name": lambda: plain().replace(b'"age"', b'"\\u0061ge"'),
    "an escape in a code": lambda: plain().replace(b'"code":"', b'"code":"\\u0049'),
    "a name twice": lambda: plain().replace(b'"age":41', b'"age":41,"age":41'),
    "3,000 times the same name": lambda: with_raw("nested", "{" + ",".join(['"a":1'] * 3_000) + "}"),
    "a name of 100 kB": lambda: with_raw("nested", '{"' + "x" * 100_000 + '":1}'),
    "escapes in 10 kB of text": lambda: with_raw("nested", '{"a":"' + "\\u0041" * 1_700 + '"}'),
    "10 kB of empty lists": lambda: repeated("measured", "[]", 3_300),
    "100,000 levels": lambda: with_raw("nested", "[" * 100_000),
    "60,000 names": lambda: many_members(60_000),
    "cut off at the end": lambda: plain()[:-1],
    "not UTF-8 at the end": lambda: plain()[:-2] + b'\xff"}',
    "100 kB of white space": lambda: with_raw("age", " " * 100_000 + "1"),
}
CODE_CASES: Mapping[str, Make] = {
    "an unknown code": lambda: orjson.dumps({**event(), "principal": {"code": unknown_code()}}),
    "a code of 100 kB": lambda: orjson.dumps({**event(), "principal": {"code": unknown_code() + "x" * 100_000}}),
    "a label of 100 kB": lambda: orjson.dumps({**event(), "principal": {"code": "I10", "display": "x" * 100_000}}),
    "256 known codes, the last unknown": lambda: secondary(256, common, unknown_code()),
    "256 codes of all": lambda: secondary(256, any_code),
    "300 unknown codes": lambda: secondary(300, unknown_code),
    "20,000 known codes": lambda: secondary(20_000, common),
    "20,000 known codes, the last unknown": lambda: secondary(20_000, common, unknown_code()),
    "20,000 new codes": lambda: secondary(20_000, new_text),
    "20,000 unknown codes": lambda: secondary(20_000, unknown_code),
    "10 kB of elements that are numbers": lambda: repeated("secondary", "1", 5_000),
    "10 kB of elements without a code": lambda: repeated("secondary", "{}", 3_300),
}
LIST_CASES: Mapping[str, Make] = {
    "plain": plain,
    "an escape in a name": lambda: plain().replace(b'"age"', b'"\\u0061ge"'),
    "10 kB of elements without a code": lambda: repeated("secondary", "{}", 3_300),
    "1,000 new codes": lambda: codes(1_000, new_text),
    "1,000 unknown codes": lambda: codes(1_000, unknown_code),
    "1,000 codes with an unknown end": lambda: codes(1_000, extended_code),
    "a code with an unknown end of 100 kB": lambda: codes(1, lambda: extended_code() + "x" * 100_000),
    "10 kB of pseudonyms": lambda: repeated("refs", "1", 5_000),
}
"""The text of a record of each case."""


def attributes(**options: str) -> dict[str, dict[str, str]]:
    return {
        "principal": {"path": "principal.code", "label": "principal.display", "ontology": "icd", **options},
        "secondary": {"path": "secondary[*].code", "label": "secondary[*].display", "ontology": "icd", **options},
    }


def configuration(attributes: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "ontologies": {"icd": {"source": "icd10cm"}},
        "attributes": attributes,
        "fields": {
            "keep": ["age", "measured", "nested"],
            "pseudonymize": ["patient.id", "refs"],
            "unlisted": "drop",
        },
        "noise_key": "patient.id",
        **more,
    }


def of_lists(unknown: str) -> dict[str, Any]:
    """A configuration with a list of codes, values that may be missing, and a policy for unknown codes."""
    options = {"missing": "keep", "unknown": unknown}
    mechanism = {"name": "semantic_noise", "correlated": False, "reference": "mean"}
    own = {**attributes(**options), "codes": {"path": "codes[*]", "ontology": "icd", **options}}
    return configuration(own, mechanism=mechanism)


SPELLINGS = ("20,000 new codes", "1,000 new codes")
BY_ANCESTOR = "lists, unknown codes by ancestor"
TRANSPORT = {"mechanism": {"name": "semantic_transport"}}
CONFIGURATIONS: Mapping[str, tuple[Mapping[str, Any], Mapping[str, Make]]] = {
    "semantic_noise": (configuration(attributes()), {**JSON_CASES, **CODE_CASES}),
    "semantic_transport": (configuration(attributes(), **TRANSPORT), {"plain": plain, **CODE_CASES}),
    "lists, unknown codes are suppressed": (of_lists("suppress"), LIST_CASES),
    BY_ANCESTOR: (of_lists("ancestor"), LIST_CASES),
}


if __name__ == "__main__":
    main()
