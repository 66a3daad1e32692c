"""Matching along the trie of all paths: as each path alone selects, step by step, and in the order of rejections."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_masker.pipeline.codec.reference.matching import matcher
from stream_masker.pipeline.paths import EachStep, FilterStep, IndexStep, NameStep, Path, PathTrie, Step, compile_path
from stream_masker.pipeline.reasons import RecordRejectedError

NAMES = ("a", "b", "k")
STEPS = st.one_of(
    st.sampled_from(NAMES).map(NameStep),
    st.integers(0, 2).map(IndexStep),
    st.just(EachStep()),
    st.builds(FilterStep, st.tuples(st.sampled_from(NAMES)), st.sampled_from(["1", "x"])),
)
PATHS = st.builds(
    lambda name, steps: Path("", (NameStep(name), *steps)), st.sampled_from(NAMES), st.lists(STEPS, max_size=4)
)
RECORDS = st.dictionaries(
    st.sampled_from(NAMES),
    st.recursive(
        st.sampled_from([None, 1, "x"]),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=3),
        max_leaves=12,
    ),
    max_size=3,
)


def selected(value: Any, steps: tuple[Step, ...]) -> list[tuple[Any, Any]]:
    """The slots that a path selects, found step by step. Raises TypeError for a value of another shape."""
    if value is None:
        return []
    step, *rest = steps
    if not isinstance(value, dict if isinstance(step, NameStep) else list):
        raise TypeError(step)
    slots = [(value, key) for key in keys(value, step)]
    return [slot for container, key in slots for slot in selected(container[key], tuple(rest))] if rest else slots


def keys(value: Any, step: Step) -> list[Any]:
    match step:
        case NameStep(key):
            return [key] if key in value else []
        case IndexStep(position):
            return [position] if position < len(value) else []
        case EachStep():
            return list(range(len(value)))
        case FilterStep():
            if not all(element is None or isinstance(element, dict) for element in value):
                raise TypeError(step)
            return [position for position, element in enumerate(value) if step.matches(element)]


def places(slots: Any) -> list[tuple[int, Any]]:
    return [(id(container), key) for container, key in slots]


@given(st.lists(PATHS, min_size=1, max_size=5), RECORDS)
def test_every_path_selects_what_it_selects_alone(paths, record):
    matches = matcher(PathTrie.of((path, number) for number, path in enumerate(paths)))(record)
    for number, path in enumerate(paths):
        try:
            expected = places(selected(record, path.steps))
        except TypeError:
            with pytest.raises(RecordRejectedError, match="wrong_shape"):
                list(matches.all_slots_of(number, path))
        else:
            assert places(matches.all_slots_of(number, path)) == expected


def test_paths_with_the_same_filter_evaluate_it_once(monkeypatch):
    evaluated = []
    monkeypatch.setattr(FilterStep, "matches", lambda step, element: evaluated.append(element) or True)
    paths = [compile_path(f"coding[?system=icd].{field}") for field in ("code", "display", "version")]
    elements = [{"code": 1, "display": 2}, {"code": 3}]
    matches = matcher(PathTrie.of((path, number) for number, path in enumerate(paths)))({"coding": elements})
    assert [len(matches.slots_of(number, path)) for number, path in enumerate(paths)] == [2, 1, 0]
    assert evaluated == elements


def test_elements_behind_one_of_another_shape_are_not_matched():
    """Nothing reads them: the element before has rejected the record."""
    path = compile_path("s[*].code")
    matches = matcher(PathTrie.of([(path, 0)]))({"s": [{"code": 1}, {}, None, 1, {"code": 2}, *[1] * 1000]})
    (elements,) = matches.lists_of(0, path)
    assert len(elements) == 4
    assert [bool(element.slots) for element in elements] == [True, False, False, False]
    with pytest.raises(RecordRejectedError, match="wrong_shape"):
        elements[3].slots_of(0, path)


@pytest.mark.parametrize(
    ("record", "rejection"),
    [
        ({"id": [], "p": 1, "t": 1, "s": 1}, ("missing_noise_key", "id")),
        ({"id": "x", "p": 1, "t": 1, "s": 1}, ("wrong_shape", "t.text")),
        ({"id": "x", "p": 1, "t": {}, "s": 1}, ("wrong_shape", "p.code")),
        ({"id": "x", "p": {"code": "Z99"}, "t": {}, "s": 1}, ("unknown_code", "p.code")),
        ({"id": "x", "p": {"code": "I10"}, "t": {}, "s": 1}, ("wrong_shape", "s[*].code")),
        ({"id": "x", "p": {"code": "I10"}, "t": {}, "s": [{"code": "Z99"}, 1]}, ("wrong_shape", "s[*].text")),
        (
            {"id": "x", "p": {"code": "I10"}, "t": {}, "s": [{"code": "Z99"}, {"code": 1}]},
            ("unknown_code", "s[*].code"),
        ),
        ({"id": "x", "p": {"code": "I10"}, "t": {}, "s": [{"code": 1}, {"code": "Z99"}]}, ("not_a_code", "s[*].code")),
    ],
)
def test_of_several_faults_the_first_in_the_order_of_the_plan_is_named(bench, record, rejection):
    attributes = {"p": {"path": "p.code", "label": "t.text"}, "s": {"path": "s[*].code", "label": "s[*].text"}}
    assert bench(attributes, noise_key="id").mask_one(record) == rejection
