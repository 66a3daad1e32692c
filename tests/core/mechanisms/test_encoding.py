"""Records to columns and back: every way of being absent, and errors that name the record but never the value."""

from __future__ import annotations

import numpy as np
import pytest

from stream_masker.core.batch import ABSENT, MaskedBatch
from stream_masker.core.mechanisms.encoding import decode, encode
from stream_masker.core.ontology import Ontology
from stream_masker.errors import ParameterError, UnknownConceptError

TAU = Ontology.from_edges([("a", "root"), ("b", "root"), ("c", "b")]).taxonomy()


class Code(str):
    """A string of another class."""

    __slots__ = ()


def one(values):
    return encode([{} if value is ... else {"x": value} for value in values], {"x": TAU}).columns[0]


def codes(*values):
    return [ABSENT if value is None else TAU.position(value) for value in values]


@pytest.mark.parametrize("values", [["a", "c"], ["a", None, "b"], [None, ...], [], [Code("c"), "a"]])
def test_scalars_are_positions_and_what_is_not_there_is_absent(values):
    column = one(values)
    assert column.offsets is None
    assert column.codes.dtype == np.int32
    assert column.codes.tolist() == codes(*(None if value is ... else value for value in values))


def test_lists_are_their_elements_one_after_another():
    column = one([["a", "c"], None, [], ..., ["b"]])
    assert column.codes.tolist() == codes("a", "c", "b")
    assert column.offsets.tolist() == [0, 2, 2, 2, 2, 3]


@pytest.mark.parametrize("values", [["a", "secret"], ["a", ""], [None, "secret"], [["a"], ["b", "secret"]], [[], [""]]])
def test_an_unknown_value_is_named_by_its_record(values):
    with pytest.raises(UnknownConceptError, match="'x' of record 1 ") as caught:
        one(values)
    assert caught.value.position == 1
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("bad", [7, True, b"a", ("a",), {"a": 1}, ["a", None], [["a"]], [7]])
@pytest.mark.parametrize("first", ["a", None, ["a"]])
def test_a_value_of_another_type_is_named_by_its_record(first, bad):
    with pytest.raises(ParameterError, match=r"record [01]"):
        one([first, bad])


@pytest.mark.parametrize("values", [[["a"], "a"], [None, "a", ["a"]]])
def test_lists_and_single_values_do_not_mix(values):
    with pytest.raises(ParameterError, match="single value in record 1"):
        one(values)


def test_columns_become_records_in_the_attributes_order():
    records = [{"x": "a", "y": ["c", "b"]}, {"y": []}, {"x": "c"}]
    taxonomies = {"y": TAU, "x": TAU}
    decoded = decode(MaskedBatch(encode(records, taxonomies).columns, ()), taxonomies)
    assert decoded == [{"y": ["c", "b"], "x": "a"}, {"y": [], "x": None}, {"y": [], "x": "c"}]
    assert all(list(record) == ["y", "x"] for record in decoded)
