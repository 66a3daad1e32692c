from __future__ import annotations

import pytest

from stream_masker.errors import ConfigurationError
from stream_masker.pipeline.paths import compile_path
from stream_masker.service.events.event_builder import NO_FIELD, ColumnValues, assemble, event_tree, row_builder


def shape(**paths: str):
    return event_tree({column: compile_path(path) for column, path in paths.items()})


def test_a_row_fills_nested_objects_and_lists() -> None:
    build = row_builder(shape(a="x.y", b="list[1].code", c="list[0].code", d="z"), ["a", "b", "c", "d"])
    assert build([1, 2, 3, 4]) == {"x": {"y": 1}, "list": [{"code": 3}, {"code": 2}], "z": 4}


def test_absent_cells_leave_out_their_field_their_object_and_their_element() -> None:
    build = row_builder(shape(a="x.y", b="list[0].code", c="list[1].code"), ["a", "b", "c"])
    assert build([NO_FIELD, NO_FIELD, "kept"]) == {"list": [{"code": "kept"}]}


def test_a_row_of_nothing_is_an_empty_object_and_keeps_its_lists() -> None:
    assert row_builder(shape(a="x.y"), ["a"])([NO_FIELD]) == {}
    assert row_builder(shape(a="x[0]"), ["a"])([NO_FIELD]) == {"x": []}


def test_columns_outside_the_shape_are_ignored() -> None:
    assert row_builder(shape(b="b"), ["a", "b"])([1, 2]) == {"b": 2}


def test_columns_become_events_level_by_level() -> None:
    columns = {
        "id": ColumnValues([7, 8]),
        "code": ColumnValues(["a", "b", "c"], [0, 1, 3]),
        "label": ColumnValues(["A", "B", "C"], [0, 1, 3]),
        "first": ColumnValues([1, 2]),
        "second": ColumnValues([3, 4]),
    }
    made = assemble(
        shape(id="p.id", code="dx[*].code", label="dx[*].text.de", first="pair[0]", second="pair[1]"), columns
    )
    assert made == [
        {"p": {"id": 7}, "dx": [{"code": "a", "text": {"de": "A"}}], "pair": [1, 3]},
        {
            "p": {"id": 8},
            "dx": [{"code": "b", "text": {"de": "B"}}, {"code": "c", "text": {"de": "C"}}],
            "pair": [2, 4],
        },
    ]


def test_an_array_of_plain_values_may_be_empty() -> None:
    assert assemble(shape(c="codes[*]"), {"c": ColumnValues(["a"], [0, 0, 1])}) == [{"codes": []}, {"codes": ["a"]}]


@pytest.mark.parametrize(
    ("first", "second"), [("a", "a"), ("a", "a.b"), ("a.b", "a"), ("a.b", "a[0]"), ("a[*]", "a[0]")]
)
def test_two_paths_that_cannot_both_be_written_are_refused_by_name(first: str, second: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        shape(one=first, two=second)
    assert repr(first) in str(caught.value)
    assert repr(second) in str(caught.value)


def test_filters_and_rows_into_every_element_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="filter"):
        shape(a="coding[?system=icd].code")
    with pytest.raises(ConfigurationError, match=r"\[0\]"):
        row_builder(shape(a="dx[*].code"), ["a"])
