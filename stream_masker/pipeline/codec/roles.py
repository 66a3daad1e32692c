"""The roles of the paths that a codec reads: codes, copies, labels, numbers, noise key, alpha and counted fields."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from stream_masker.pipeline.paths import Path, PathTrie
from stream_masker.pipeline.plan import Plan

CODE_ROLE: Final = 0
COPY_ROLE: Final = 1
LABEL_ROLE: Final = 2
NUMBER_ROLE: Final = 3
NOISE_KEY_ROLE: Final = 4
ALPHA_ROLE: Final = 5
COUNTED_ROLE: Final = 6
"""The kinds of roles. Masking replaces the values of the first four. A counted field has one of a number of kinds: it
is of the context, or generalized by the counts of the window."""

NO_ATTRIBUTE: Final = -1
"""The attribute of the noise key, of the alpha and of counted fields."""


@dataclass(frozen=True, slots=True)
class Role:
    """What a path is read for: a kind, and the number of the attribute. Numeric attributes follow the nominal ones.

    place: the number of the attribute's place that the path belongs to, or of the counted field.
    """

    path: Path
    kind: int
    attribute: int = NO_ATTRIBUTE
    place: int = 0

    @property
    def is_masked(self) -> bool:
        """Whether masking replaces the value."""
        return self.kind <= NUMBER_ROLE


def roles_of(plan: Plan, *, alpha: bool) -> list[Role]:
    """Return the roles of all paths that a plan reads; ``alpha``: including the record's alpha."""
    return [*_attribute_roles(plan), *_control_roles(plan, alpha)]


def _attribute_roles(plan: Plan) -> Iterator[Role]:
    for number, attribute in enumerate(plan.attributes):
        for k, place in enumerate(attribute.places):
            yield Role(place.path, CODE_ROLE, number, k)
            yield from () if place.label is None else (Role(place.label, LABEL_ROLE, number, k),)
            yield from (Role(path, COPY_ROLE, number, k) for path in place.copies)
    for number, numeric in enumerate(plan.numeric, start=len(plan.attributes)):
        yield Role(numeric.path, NUMBER_ROLE, number)


def _control_roles(plan: Plan, alpha: bool) -> Iterator[Role]:
    if plan.noise_key is not None:
        yield Role(plan.noise_key, NOISE_KEY_ROLE)
    if alpha and plan.alpha is not None and plan.alpha.path is not None:
        yield Role(plan.alpha.path, ALPHA_ROLE)
    yield from (Role(field.path, COUNTED_ROLE, place=number) for number, field in enumerate(plan.counted))


def role_trie(roles: Sequence[Role]) -> PathTrie[int]:
    """Return the paths of roles as a trie; its items are the roles' numbers."""
    return PathTrie.of((role.path, number) for number, role in enumerate(roles))
