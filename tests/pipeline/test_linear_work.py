"""The work for a record grows in proportion to its size, whatever it contains; measured by calls, not by time."""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest
from support.results import InputRecord, inputs

from stream_masker.pipeline.masker import RecordMasker

ATTRIBUTES = {
    "a": {"path": "code", "missing": "keep"},
    "b": {"path": "s[*].code", "label": "s[*].text", "missing": "keep"},
    "c": {"path": "codes[*]", "missing": "keep"},
    "d": {"path": "coding[?system=icd].code", "missing": "keep"},
}
NEW = count()
SIZE, TIMES, TOLERANCE = 500, 4, 1.2


def repeated(field: str, element: bytes) -> Callable[[int], list[bytes]]:
    return lambda size: [b'{"%b":[%b]}' % (field.encode(), b",".join([element] * size))]


def new_codes(code: str) -> Callable[[int], list[bytes]]:
    """A list of codes that have not occurred before."""
    return lambda size: [b'{"codes":[%b]}' % ",".join(f'"{code}{next(NEW)}"' for _ in range(size)).encode()]


def rejected_between_others(size: int) -> list[bytes]:
    return [b'{"codes":["I10"],"\\u0061":1}', b'{"s":1}'] * (size // 2)


CASES: dict[str, Callable[[int], list[bytes]]] = {
    "codes": repeated("codes", b'"I10"'),
    "codes and labels": repeated("s", b'{"code":"I10","text":"x"}'),
    "no codes": repeated("s", b"{}"),
    "entries that a filter leaves out": repeated("coding", b'{"system":"x","code":"I10"}'),
    "entries without the member of a filter": repeated("coding", b"{}"),
    "null": repeated("s", b"null"),
    "numbers": repeated("codes", b"1"),
    "another shape": repeated("s", b"1"),
    "lists": repeated("x", b"[]"),
    "large integers": repeated("x", b"18446744073709551615"),
    "new unknown codes": new_codes("unknown-"),
    "new codes with an unknown end": new_codes("I10.x"),
    "one long code": lambda size: [b'{"code":"I10%b"}' % (b"x" * size)],
    "levels": lambda size: [b'{"x":' * size + b"1" + b"}" * size],
    "members": lambda size: [b'{"x":{%b}}' % ",".join(f'"{k}":{{"k":1}}' for k in range(size)).encode()],
    "cut off": lambda size: [b'{"x":[%b' % (b"1," * size)],
    "rejected records between others": rejected_between_others,
}


@pytest.fixture(scope="module", params=["ancestor", "suppress"])
def masker(request: pytest.FixtureRequest, bench: Any) -> RecordMasker:
    attributes = {name: {**settings, "unknown": request.param} for name, settings in ATTRIBUTES.items()}
    made: RecordMasker = bench(attributes, fields={"pseudonymize": ["x"]}).masker
    return made


@pytest.mark.parametrize("case", CASES)
def test_the_calls_grow_in_proportion_to_the_size(masker: RecordMasker, case: str) -> None:
    mask(masker, CASES[case](TIMES * SIZE))
    one, several = (calls(masker, CASES[case](size)) for size in (SIZE, TIMES * SIZE))
    assert several <= TOLERANCE * TIMES * one


def mask(masker: RecordMasker, values: list[bytes]) -> None:
    masker.mask("t", 0, inputs([InputRecord(*record) for record in enumerate(values)]), statistics_version=1)


def calls(masker: RecordMasker, values: list[bytes]) -> int:
    """The number of calls, of functions in Python and in C, that masking makes."""
    made = list[str]()
    sys.setprofile(lambda _frame, event, _argument: made.append(event) if event in ("call", "c_call") else None)
    try:
        mask(masker, values)
    finally:
        sys.setprofile(None)
    return len(made)
