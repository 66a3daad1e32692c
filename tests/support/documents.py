"""Documents of events: as JSON in several ways, with another value at a place, and their scalars."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import reduce
from operator import getitem
from typing import Any

import orjson
from hypothesis import strategies as st

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


EXTREME = [None, True, -1, 0, 1, 10**6, 10**15, 2**62, 2**63 - 1, 0.5, 1e-300, 1e308, "", "a", "nan", [], {}, [1], [[]]]
"""Values of each JSON type: negative, zero, huge, tiny and empty."""


@st.composite
def mutated(draw: st.DrawFn, raw: bytes) -> bytes:
    """A JSON message in which one to three places have another value: an extreme one, or that of another place."""
    message = orjson.loads(raw)
    for _ in range(draw(st.integers(1, 3))):
        place, other = draw(st.lists(st.sampled_from([*places(message)]), min_size=2, max_size=2))
        new = draw(st.sampled_from([reduce(getitem, other, message), *EXTREME]))
        message = put(message, place, new)
    return orjson.dumps(message)


def encoded(document: Any) -> st.SearchStrategy[bytes]:
    """A document as JSON, compact or with white space, escapes and repeated members."""
    shapes: list[dict[str, Any]] = [{"separators": (",", ":")}, {"indent": "\t"}]
    texts = (json.dumps(document, ensure_ascii=escaped, **shape) for escaped in (False, True) for shape in shapes)
    found = [text.encode("utf-8", "surrogatepass") for text in texts]
    return st.sampled_from([*found, b'{"twice":1,' + found[0][1:], found[0].replace(b":", b" :\r\n", 1)])


def one_in(draw: st.DrawFn, n: int) -> bool:
    """Draw True in about one of n cases; shrinks to False."""
    return draw(st.integers(0, n - 1)) == n - 1


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
