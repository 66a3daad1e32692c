"""Strategies for events, with any content, encoded as JSON in many ways, and damaged; and the scalars of a document."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

CODES = [
    "I10",
    "i10",
    "I11.0",
    "I110",
    "E11.9",
    "e119",
    "E1165",
    "E11.65",
    "E03",
    "E11.99",
    "I11",
    "Diabetes",
    "type 2 diabetes",
]
TEXTS = ["Diabetes", "DIABETES", "état", "ÉTAT", "a b", "ab", "42", "x" * 200, "日本語", "🙂", "I10"]
NUMBERS = [
    0,
    1,
    -1,
    42,
    10**17,
    10**18,
    10**19,
    2**64 - 1,
    2**64,
    -(2**63),
    0.5,
    -0.5,
    1.5,
    1e-3,
    1e-7,
    1e22,
    123456.789,
]
RAW_NUMBERS = [
    "-0",
    "-0.0",
    "1.0",
    "1.50",
    "0.000",
    "1e5",
    "1E5",
    "0.10",
    "00",
    "01",
    "1.",
    ".5",
    "-",
    "+1",
    "NaN",
    "1e400",
    "0.1e1",
]

JUNK = b'"\\{}[],: 0-.eEtfn/u\x00\x1f\x7f\x80\xc3\xed\xf4\xff\xef\xbb'
"""Bytes with a meaning in JSON or UTF-8, and bytes that are invalid in both."""

Place = tuple[Any, ...]
"""The keys and indices that lead to a value."""


def places(value: Any, place: Place = ()) -> Iterator[Place]:
    """Every place in a value."""
    yield place
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from places(inner, (*place, key))


def put(value: Any, place: Place, new: Any) -> Any:
    """A copy of the value with another value at a place."""
    if not place:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[place[0]] = put(value[place[0]], place[1:], new)
    return copy


@st.composite
def encoded(draw: st.DrawFn, document: Any) -> bytes:
    """A document as JSON in one of many ways: compact, or with white space, escapes, unusual numbers and repeated
    keys. It need not be valid."""
    text = _unusual(draw, document) if one_in(draw, 3) else _compact(document)
    return text.encode("utf-8", "surrogatepass")


def one_in(draw: st.DrawFn, n: int) -> bool:
    """Draw True in about one of n cases; shrinks to False."""
    return draw(st.integers(0, n - 1)) == n - 1


def _compact(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except ValueError:
        return "null"


def _unusual(draw: st.DrawFn, value: Any) -> str:
    space = draw(st.sampled_from(["", " ", "\n\t", "\r"]))
    if isinstance(value, dict):
        members = list(value.items())
        if members and one_in(draw, 30):
            members.append(draw(st.sampled_from(members)))
        if one_in(draw, 4):
            members = draw(st.permutations(members))
        parts = [f"{_unusual(draw, key)}{space}:{space}{_unusual(draw, inner)}" for key, inner in members]
        return "{" + space + f"{space},{space}".join(parts) + space + "}"
    if isinstance(value, list):
        return "[" + space + f",{space}".join(_unusual(draw, inner) for inner in value) + space + "]"
    return _unusual_scalar(draw, value)


def _unusual_scalar(draw: st.DrawFn, value: Any) -> str:
    kind = draw(st.integers(0, 59))
    if kind == 59:
        return draw(st.sampled_from(RAW_NUMBERS))
    if kind >= 57:
        return _compact(value).replace("a", draw(st.sampled_from(["\\u0061", "\\/"])))
    return json.dumps(value) if kind >= 40 else _compact(value)


def named_scalars(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every scalar of a JSON value, with the name of the member that holds it."""
    if isinstance(value, dict):
        for key, member in value.items():
            yield from named_scalars(member, key)
    elif isinstance(value, list):
        for element in value:
            yield from named_scalars(element, name)
    else:
        yield name, value
