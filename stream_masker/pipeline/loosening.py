"""Comparison of two field policies: does one let more of a record through than the other?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

from stream_masker.pipeline.fields import Action
from stream_masker.pipeline.paths import NameStep, Path
from stream_masker.pipeline.plan import FieldPolicy

PolicyEntry: TypeAlias = tuple[Path, Action]


def loosened_fields(own: FieldPolicy, other: FieldPolicy) -> Iterator[str]:
    """Yield the keys of ``fields`` by which ``other`` lets more through than ``own``.

    A change that cannot be compared, for example between a filter and an index of one list, counts as looser, and so
    does every change of a transform.

    The longest path that selects a value decides. It suffices to compare both policies at the paths that only one of
    them has: of two paths that decide for one value, the longer one is compared with the strictest (or loosest) action
    that the other policy may have there.
    """
    if (own.unlisted, other.unlisted) == ("drop", "keep"):
        yield "fields.unlisted"
    if own.transforms != other.transforms:
        yield "fields." + ", ".join(sorted({*own.transforms, *other.transforms}))
    before, after = set(_entries(own)), set(_entries(other))
    added = after - before
    if any(action < _bound(before, own.unlisted, path, max) or _adds_shape(before, path) for path, action in added):
        yield "fields.keep or fields.pseudonymize"
    if any(action > _bound(after, other.unlisted, path, min) for path, action in before - after):
        yield "fields.drop or fields.pseudonymize"


def _entries(fields: FieldPolicy) -> Iterator[PolicyEntry]:
    """Yield the paths of a policy with their actions, and the fields that filters keep."""
    listed = (
        (fields.keep, Action.KEEP),
        (fields.pseudonymize, Action.PSEUDONYMIZE),
        (fields.transformed, Action.TRANSFORM),
        (fields.drop, Action.DROP),
    )
    for paths, action in listed:
        for path in paths:
            yield path, action
            if action is not Action.DROP:
                yield from ((compared, Action.KEEP) for compared in path.parent.filter_fields())


def _adds_shape(entries: set[PolicyEntry], path: Path) -> bool:
    """Return whether a path adds a shape to a value that drops or pseudonymizes a part of it by the other shape.

    Where paths only continue into a list, an object gets the strictest of their actions, and the other way round. A
    path into the object ends that, for all of its members.
    """
    return any(action is not Action.KEEP and _part_by_shape(other, path) for other, action in entries)


def _part_by_shape(one: Path, other: Path) -> bool:
    """Return whether two paths part at a value where one selects members and the other elements."""
    for shared, (a, b) in enumerate(zip(one.steps, other.steps, strict=False)):
        if isinstance(a, NameStep) != isinstance(b, NameStep):
            return Path(one.text, one.steps[:shared]).may_meet(Path(other.text, other.steps[:shared]))
    return False


def _bound(entries: set[PolicyEntry], unlisted: str, path: Path, pick: Callable[[Iterable[Action]], Action]) -> Action:
    """Return the strictest (``max``) or loosest (``min``) action that a policy may have at a path."""
    around = [(other, action) for other, action in entries if _may_contain(other, path)]
    certain = [len(other.steps) for other, _ in around if other.steps == path.steps[: len(other.steps)]]
    inherited = [] if certain else [Action.KEEP if unlisted == "keep" else Action.DROP]
    longest = [(other, action) for other, action in around if len(other.steps) >= max(certain, default=0)]
    return pick([*inherited, *_strongest_by_path(longest).values()])


def _strongest_by_path(entries: Iterable[PolicyEntry]) -> dict[Path, Action]:
    """Return the action of each path; if it has several, the greatest."""
    strongest: dict[Path, Action] = {}
    for path, action in entries:
        strongest[path] = max(action, strongest.get(path, action))
    return strongest


def _may_contain(outer: Path, inner: Path) -> bool:
    """Return whether a value that ``outer`` selects can be, or contain, one that ``inner`` selects."""
    return len(outer.steps) <= len(inner.steps) and outer.may_meet(inner)
