"""Construction of events from columns."""

from __future__ import annotations

import pytest

from stream_masker.errors import ConfigurationError
from stream_masker.pipeline.paths import compile_path
from stream_masker.service.events.event_builder import NO_FIELD, event_tree, row_builder


def tree(**paths: str):
    return event_tree({column: compile_path(path) for column, path in paths.items()})


def test_a_row_fills_nested_objects_and_lists() -> None:
    build = row_builder(tree(a="x.y", b="list[1].code", c="list[0].code", d="z"), ["a", "b", "c", "d"])
    assert build([1, 2, 3, 4]) == {"x": {"y": 1}, "list": [{"code": 3}, {"code": 2}], "z": 4}


def test_missing_cells_leave_out_field_object_and_element() -> None:
    build = row_builder(tree(a="x.y", b="list[0].code", c="list[1].code"), ["a", "b", "c"])
    assert build([NO_FIELD, NO_FIELD, "kept"]) == {"list": [{"code": "kept"}]}


def test_empty_row_is_an_empty_object_with_its_lists() -> None:
    assert row_builder(tree(a="x.y"), ["a"])([NO_FIELD]) == {}
    assert row_builder(tree(a="x[0]"), ["a"])([NO_FIELD]) == {"x": []}


def test_columns_without_a_path_are_ignored() -> None:
    assert row_builder(tree(b="b"), ["a", "b"])([1, 2]) == {"b": 2}


def test_elements_are_built_from_lists_of_cells() -> None:
    paths = tree(id="p.id", code="dx[*].code", label="dx[*].text.de", first="pair[0]", second="pair[1]")
    build = row_builder(paths, list(paths.columns()), lists=True)
    assert [build(row) for row in ((7, ["a"], ["A"], 1, 3), (8, ["b", "c"], ["B", "C"], 2, 4))] == [
        {"p": {"id": 7}, "dx": [{"code": "a", "text": {"de": "A"}}], "pair": [1, 3]},
        {
            "p": {"id": 8},
            "dx": [{"code": "b", "text": {"de": "B"}}, {"code": "c", "text": {"de": "C"}}],
            "pair": [2, 4],
        },
    ]


def test_array_of_scalars_can_be_empty() -> None:
    build = row_builder(tree(c="codes[*]"), ["c"], lists=True)
    assert [build(row) for row in ([[]], [["a"]])] == [{"codes": []}, {"codes": ["a"]}]


@pytest.mark.parametrize(
    ("first", "second"), [("a", "a"), ("a", "a.b"), ("a.b", "a"), ("a.b", "a[0]"), ("a[*]", "a[0]")]
)
def test_conflicting_paths_are_refused(first: str, second: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        tree(one=first, two=second)
    assert repr(first) in str(caught.value)
    assert repr(second) in str(caught.value)


def test_filters_and_rows_for_all_elements_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="filter"):
        tree(a="coding[?system=icd].code")
    with pytest.raises(ConfigurationError, match=r"\[0\]"):
        row_builder(tree(a="dx[*].code"), ["a"])
