"""The context of records: fields that stay, by whose kinds masks are chosen (``core.context``).

The kind of a field is that of its value *as it is released*. If it were that of the value before a generalization, the
law of the masks would tell more of the value than the record itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from stream_masker.core.context import ContextAttribute
from stream_masker.errors import ConfigurationError
from stream_masker.pipeline.paths import NOTHING, EachStep, FilterStep, JsonValue, NameStep, Path, Step
from stream_masker.pipeline.transforms import (
    DateUnit,
    FieldTransform,
    LeadingCharacters,
    LevelAncestor,
    NumberBands,
    TransformContext,
)

if TYPE_CHECKING:
    from stream_masker.pipeline.plan import FieldPolicy

GENERALIZING: Final = (NumberBands, DateUnit, LeadingCharacters, LevelAncestor)
"""The transforms of fields that can be a context: their results are functions of the value alone."""

_UNKEYED: Final = TransformContext(lambda _: "", lambda _: b"")


@dataclass(frozen=True, slots=True)
class ContextField:
    """A field of the context.

    path: of the field, without ``[*]``; attribute: its kinds; transform: that of the field policy, None if the value is
    kept as it is.
    """

    path: Path
    attribute: ContextAttribute
    transform: FieldTransform | None = None

    def kind_of(self, value: JsonValue) -> int:
        """Return the kind of a field's value, as it is released. Of a band of numbers, its least number counts.

        ``value``: ``NOTHING`` for a record without the field.
        """
        if value is NOTHING:
            return self.attribute.size - 1
        if self.transform is None:
            return self.attribute.kind_of(value)
        released = self.transform.of_value(value, _UNKEYED)
        if self.attribute.bounds and isinstance(self.transform, NumberBands) and isinstance(released, str):
            released = released.rstrip("+").partition("-")[0]
        return self.attribute.kind_of(released)


def context_field(
    path: Path, attribute: ContextAttribute, policy: FieldPolicy, masked: Iterable[Path] = ()
) -> ContextField:
    """Return the field of a context at a path; ``masked``: the paths whose values masking replaces.

    Raises ConfigurationError unless the field policy keeps or generalizes the field.
    """
    if path.arrays:
        raise ConfigurationError(f"{path.text!r} is not allowed: use a path without [*], so that it selects one value")
    if any(path.may_meet(other) for other in masked):
        raise ConfigurationError(f"{path.text!r} is masked: a context is of fields that stay")
    treatments = list(_treatments(policy))
    around = [(len(other.steps), key) for key, other in treatments if _contains(other, path)]
    depth, key = max(around, default=(0, policy.unlisted))
    beside = [k for k, other in treatments if k != "keep" and len(other.steps) >= depth and path.may_meet(other)]
    transform = policy.transformed.get(path)
    if [*beside, key] == [key, key] and isinstance(transform, GENERALIZING):
        return ContextField(path, attribute, transform)
    if beside or key != "keep":
        where = f"fields.{beside[0] if beside else key}" if beside or around else "fields.unlisted"
        raise ConfigurationError(
            f"{path.text!r} does not stay in the record ({where}): a context is of fields that are kept, or "
            "generalized by nothing but their value"
        )
    return ContextField(path, attribute)


def _treatments(policy: FieldPolicy) -> Iterator[tuple[str, Path]]:
    """Yield every path of a field policy, with the key of its treatment."""
    for key, paths in policy.lists().items():
        yield from ((key, path) for path in paths)


def _contains(other: Path, path: Path) -> bool:
    """Return whether one path surely selects the value of another one, or what is around it."""
    return len(other.steps) <= len(path.steps) and all(map(_covers, other.steps, path.steps))


def _covers(step: Step, selected: Step) -> bool:
    if isinstance(step, FilterStep) and isinstance(selected, FilterStep):
        return (step.field, step.value) == (selected.field, selected.value)
    return step == selected or (isinstance(step, EachStep) and not isinstance(selected, NameStep))
