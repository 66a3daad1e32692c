"""The measures of 2012 on any data: which attributes count as known, which pair, and how many records."""

from __future__ import annotations

from itertools import product

import pytest

from stream_masker.errors import ParameterError
from stream_masker.evaluation.co_occurrence import co_occurrence
from stream_masker.evaluation.papers.samples import flat_dataset

ROWS = [(a, b, "same", "xy"[a == "p"], c) for a, b, c in product("pqr", "pqr", "stuv")]
COLUMNS = {name: [row[j] for row in ROWS] for j, name in enumerate(("a", "b", "constant", "secret", "c"))}


def measured(**options):
    return co_occurrence(flat_dataset(COLUMNS), confidential="secret", files=1, **options)


def test_an_attribute_with_a_single_value_does_not_count_as_known():
    found = measured()
    assert sorted({row.known for row in found.by_knowledge}) == [1, 2, 3]
    assert {row.known for row in found.entropies} == {1}


def test_figure_5_has_one_two_three_and_all_attributes():
    columns = {**COLUMNS, **{f"more{i}": COLUMNS["a"] for i in range(3)}}
    found = co_occurrence(flat_dataset(columns), confidential="secret", files=1)
    assert sorted({row.known for row in found.by_knowledge}) == [1, 2, 3, 6]


def test_the_pair_is_that_of_the_greatest_association_unless_given():
    assert set(measured().pair) == {"a", "secret"}
    given = measured(pair=("b", "c"))
    assert given.pair == ("b", "c")
    assert given.original == pytest.approx(0.0)


def test_records_limits_the_records_that_are_measured():
    assert measured(records=24).original == pytest.approx(24)
    assert measured().original == pytest.approx(36)


def test_nothing_is_measured_without_another_attribute_of_two_values():
    columns = {name: COLUMNS[name] for name in ("constant", "secret")}
    with pytest.raises(ParameterError, match=r"^the measures of 2012 need an attribute with two values beside secret$"):
        co_occurrence(flat_dataset(columns), confidential="secret")
