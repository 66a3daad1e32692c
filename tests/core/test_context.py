"""The numbering of contexts."""

from __future__ import annotations

import pytest

from stream_masker.core.context import Context
from stream_masker.errors import ParameterError

CONTEXT = Context.of({"sex": ["F", "M"], "age": [18, 65]})


@pytest.mark.parametrize("value", [None, "unknown", True, [40], float("nan"), {"years": 40}])
def test_what_is_no_number_has_no_band(value):
    assert CONTEXT.numbers([["M"], [value]]).tolist() == [7]


def test_texts_that_are_numbers_have_a_band():
    assert CONTEXT.numbers([["M", "M"], ["40", "1e400"]]).tolist() == [5, 6]


def test_contexts_have_names():
    assert CONTEXT.name_of((0, 1)) == "sex F, age 18 to below 65"
    assert CONTEXT.name_of((2, 0)) == "sex other, age below 18"
    assert CONTEXT.name_of((1, 2)) == "sex M, age 65 or more"
    assert CONTEXT.name_of(()) == "all records"
    assert not Context.of({})


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
        {1: ["F"]},
        {"a": [str(k) for k in range(50)], "b": [str(k) for k in range(50)]},
    ],
)
def test_other_contexts_are_refused(given):
    with pytest.raises(ParameterError, match="context"):
        Context.of(given)
