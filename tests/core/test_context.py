"""The numbering of contexts."""

from __future__ import annotations

import pytest

from stream_masker.core.context import Context
from stream_masker.errors import ParameterError

CONTEXT = Context.of({"sex": ["F", "M"], "age": [18, 65]})


@pytest.mark.parametrize(
    ("value", "number"),
    [("40", 5), ("1e400", 6), *((other, 7) for other in (None, "unknown", True, [40], float("nan"), {"years": 40}))],
)
def test_numbers_and_texts_that_are_numbers_have_a_band(value, number):
    assert CONTEXT.numbers([["M"], [value]]).tolist() == [number]


@pytest.mark.parametrize(
    "given",
    [
        "sex",
        ["sex"],
        {"sex": []},
        {"sex": "FM"},
        {"sex": ["F", "F"]},
        {"age": [65, 18]},
        {"age": [18, 18]},
        {"age": [True]},
        {"age": ["F", 18]},
        {"age": [float("nan")]},
        {"a": [str(k) for k in range(50)], "b": [str(k) for k in range(50)]},
    ],
)
def test_other_contexts_are_refused(given):
    with pytest.raises(ParameterError, match="context"):
        Context.of(given)
