"""Strategies for plans whose paths use few names and so overlap, and for documents that match these paths."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from support.documents import one_in

from stream_masker.pipeline.paths import FilterStep, IndexStep, NameStep, Path, Step, compile_path
from stream_masker.pipeline.transforms import Constant, LeadingCharacters, NumberBands, Pseudonym

NAMES = st.sampled_from(["a", "b", "c"])
STEPS = st.sampled_from([".a", ".b", ".c", "[0]", "[1]", "[?a=1]", "[?b=x]", "[?a='1']", "[?a.b=1]"])
CODES = st.sampled_from(["I10", "e119", "E11.9", "I110", "E03", "i10", "E1165", "I11", 7, 0.25])
VALUES = st.sampled_from(
    [None, True, 1, "1", "x", "I10", "e119", "E11.9", 1.5, "I110", [], {}, {"a": 1}, [1, "x"], {"b": "x", "c": 1}]
)

TRANSFORMS = st.sampled_from([NumberBands(5), LeadingCharacters(2), Pseudonym(8), Constant("c"), Constant(None)])


@st.composite
def paths(draw: st.DrawFn, *, array: bool = False) -> str:
    """A path of up to four steps; ``array``: with a ``[*]``. It does not end with a filter."""
    steps = draw(st.lists(STEPS, max_size=3))
    if steps and steps[-1].startswith("[?"):
        steps.pop()
    if array:
        steps.insert(draw(st.integers(0, max(0, len(steps) - 1))), "[*]")
    return draw(NAMES) + "".join(steps)


class _Paths:
    """Paths of one plan that do not contradict each other: a path that is not allowed together with the others is left
    out."""

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw
        self._masked: list[Path] = []
        self._listed: set[Path] = set()

    def masked(self, *, array: bool = False, least: int = 0, most: int = 1) -> list[str]:
        """Paths that masking replaces. If ``least`` is 1, the first one may need a name of its own."""
        drawn = self._draw(st.lists(paths(array=array), min_size=least, max_size=most))
        found = [text for text in drawn if self._add(text)]
        return found or [self._own(array) for _ in range(least)]

    def _add(self, text: str) -> bool:
        path = compile_path(text)
        allowed = not any(path.may_meet(other) for other in self._masked)
        self._masked += [path] * allowed
        return allowed

    def _own(self, array: bool) -> str:
        text = f"d{len(self._masked)}" + ("[*]" if array else "")
        self._masked.append(compile_path(text))
        return text

    def listed(self) -> list[str]:
        """Paths for one list of the field policy."""
        drawn = [compile_path(text) for text in self._draw(st.lists(paths() | paths(array=True), max_size=3))]
        found = {path: path.text for path in drawn if path not in self._listed and not self._is_inside(path)}
        self._listed.update(found)
        return list(found.values())

    def _is_inside(self, path: Path) -> bool:
        masked = {other.steps for other in self._masked}
        return any(path.steps[:end] in masked for end in range(1, len(path.steps) + 1))


def _attribute(draw: st.DrawFn, some: _Paths) -> dict[str, Any]:
    array = one_in(draw, 3)
    (path,) = some.masked(array=array, least=1)
    labels = some.masked(array=array) if one_in(draw, 2) else []
    return {
        "path": path,
        "missing": draw(st.sampled_from(["keep", "keep", "keep", "reject"])),
        "unknown": draw(st.sampled_from(["suppress", "ancestor", "reject"])),
        "copies": some.masked(array=array, most=2) if one_in(draw, 2) else [],
        "also": some.masked(array=array, most=2) if one_in(draw, 3) else [],
        **({"label": labels[0]} if labels else {}),
    }


@st.composite
def plans(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any]]:
    """The attributes and the other arguments of a ``Bench``. A few plans are not valid."""
    some, more = _Paths(draw), dict[str, Any]()
    attributes = {f"x{number}": _attribute(draw, some) for number in range(draw(st.integers(1, 3)))}
    if one_in(draw, 5):
        more["noise_key"] = draw(paths())
    more["unlisted"] = draw(st.sampled_from(["keep", "drop"]))
    more["fields"] = {action: some.listed() for action in ("keep", "drop", "pseudonymize")}
    more["transforms"] = {path: draw(TRANSFORMS) for path in some.listed()} if one_in(draw, 3) else {}
    return attributes, more


@st.composite
def documents(draw: st.DrawFn, plan: Any) -> dict[str, Any]:
    """A document in which most paths of a plan select values."""
    read = [
        path
        for a in plan.attributes
        for place in a.places
        for path in place.written
        if path == a.path or not one_in(draw, 3)
    ]
    read += [path for path in (plan.noise_key,) if path is not None]
    kept = [path for paths in plan.fields.lists.values() for path in paths if one_in(draw, 2)]
    document: Any = {"a": 1} if one_in(draw, 10) else {}
    for path in [*kept, *read]:
        document = _with_value(draw, document, path.steps)
    return document


def _with_value(draw: st.DrawFn, value: Any, steps: tuple[Step, ...]) -> Any:
    """The value, changed so that the steps select a value in it."""
    if not steps or one_in(draw, 30):
        return draw(VALUES if one_in(draw, 4) else CODES)
    step, rest = steps[0], steps[1:]
    if isinstance(step, NameStep):
        value = value if isinstance(value, dict) else {}
        return {**value, step.key: _with_value(draw, value.get(step.key), rest)}
    elements = list(value) if isinstance(value, list) else draw(st.lists(VALUES, max_size=2))
    position = step.position if isinstance(step, IndexStep) else draw(st.integers(0, len(elements)))
    elements += [{}] * (position + 1 - len(elements))
    elements[position] = _with_value(draw, elements[position], rest)
    return _matching(elements, position, step) if isinstance(step, FilterStep) else elements


def _matching(elements: list[Any], position: int, step: FilterStep) -> list[Any]:
    """Elements that are objects; a filter selects the one at ``position``."""
    wanted: Any = step.value if step.value == "x" else int(step.value)
    for key in reversed(step.field[1:]):
        wanted = {key: wanted}
    objects = [element if isinstance(element, dict) else {} for element in elements]
    objects[position] = {**objects[position], step.field[0]: wanted}
    return objects
