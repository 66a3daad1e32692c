"""Encoding of records as columns and decoding: absent values, and errors that name the record but never the value."""

from __future__ import annotations

import numpy as np
import pytest

from stream_masker.core.batch import ABSENT, MaskedBatch
from stream_masker.core.mechanisms.encoding import decode, encode
from stream_masker.core.ontology import Ontology
from stream_masker.errors import ParameterError, UnknownConceptError

TAU = Ontology.from_edges([("a", "root"), ("b", "root"), ("c", "b")]).taxonomy()


class Code(str):
    """A subclass of str."""

    __slots__ = ()


def encode_one(values):
    return encode([{} if value is ... else {"x": value} for value in values], {"x": TAU}).columns[0]


def codes(*values):
    return [ABSENT if value is None else TAU.position(value) for value in values]


@pytest.mark.parametrize("values", [["a", "c"], ["a", None, "b"], [None, ...], [], [Code("c"), "a"]])
def test_scalars_become_positions_or_absent(values):
    column = encode_one(values)
    assert column.offsets is None
    assert column.codes.dtype == np.int32
    assert column.codes.tolist() == codes(*(None if value is ... else value for value in values))


def test_lists_are_concatenated():
    column = encode_one([["a", "c"], None, [], ..., ["b"]])
    assert column.codes.tolist() == codes("a", "c", "b")
    assert column.offsets.tolist() == [0, 2, 2, 2, 2, 3]


@pytest.mark.parametrize("values", [["a", "secret"], ["a", ""], [None, "secret"], [["a"], ["b", "secret"]], [[], [""]]])
def test_errors_name_the_record_of_an_unknown_value(values):
    with pytest.raises(UnknownConceptError, match="'x' of record 1 ") as caught:
        encode_one(values)
    assert caught.value.position == 1
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("bad", [7, True, b"a", ("a",), {"a": 1}, ["a", None], [["a"]], [7]])
@pytest.mark.parametrize("first", ["a", None, ["a"]])
def test_errors_name_the_record_of_a_value_of_another_type(first, bad):
    with pytest.raises(ParameterError, match=r"record [01]"):
        encode_one([first, bad])


@pytest.mark.parametrize("values", [[["a"], "a"], [None, "a", ["a"]]])
def test_lists_and_single_values_cannot_be_mixed(values):
    with pytest.raises(ParameterError, match="single value in record 1"):
        encode_one(values)


def test_columns_decode_to_records_in_the_attributes_order():
    records = [{"x": "a", "y": ["c", "b"]}, {"y": []}, {"x": "c"}]
    taxonomies = {"y": TAU, "x": TAU}
    decoded = decode(MaskedBatch(encode(records, taxonomies).columns, ()), taxonomies)
    assert decoded == [{"y": ["c", "b"], "x": "a"}, {"y": [], "x": None}, {"y": [], "x": "c"}]
    assert all(list(record) == ["y", "x"] for record in decoded)
