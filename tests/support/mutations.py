"""Mutations of JSON messages, for property tests of their readers."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import orjson
from hypothesis import strategies as st

VALUES = [
    None,
    True,
    -1,
    0,
    1,
    7,
    10**6,
    10**15,
    2**62,
    2**63 - 1,
    0.5,
    -0.5,
    1e-300,
    1e308,
    "",
    "a",
    "nan",
    [],
    {},
    [1],
    [[]],
]
"""Replacements: of each JSON type, negative, zero, huge and tiny."""


@st.composite
def mutated(draw: Callable[..., Any], raw: bytes) -> bytes:
    """Return the JSON message ``raw`` with one to three changed, removed, repeated or copied members."""
    message = orjson.loads(raw)
    for _ in range(draw(st.integers(1, 3))):
        _mutate(draw, message)
    return orjson.dumps(message)


def _mutate(draw: Callable[..., Any], message: Any) -> None:
    parent = message
    while True:
        keys = sorted(parent) if isinstance(parent, dict) else range(len(parent))
        if not keys:
            return
        key = draw(st.sampled_from(list(keys)))
        child = parent[key]
        if not isinstance(child, dict | list) or draw(st.integers(0, 4)) == 0:
            break
        parent = child
    how = draw(st.sampled_from(["replace", "remove", "repeat", "copy", "scale"]))
    if how == "remove":
        del parent[key]
    elif how == "repeat" and isinstance(parent, list):
        parent.append(child)
    elif how == "copy":
        parent[key] = parent[draw(st.sampled_from(list(keys)))]
    elif how == "scale" and isinstance(child, int | float) and not isinstance(child, bool):
        parent[key] = min(child * draw(st.sampled_from([2, 1000, 10**12])), 2**63 - 1)
    else:
        parent[key] = deepcopy(draw(st.sampled_from(VALUES)))
