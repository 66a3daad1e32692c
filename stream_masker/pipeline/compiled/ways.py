"""The paths that read a record (codes, labels, copies, numbers, noise key, alpha) as one tree of steps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from stream_masker.pipeline.paths import Each, Index, Name, Path, Step, Where
from stream_masker.pipeline.plan import Plan

CODE: Final = 0
COPY: Final = 1
LABEL: Final = 2
NUMBER: Final = 3
NOISE_KEY: Final = 4
ALPHA: Final = 5

CONTROLS: Final = -1
"""The attribute of paths that belong to none."""


@dataclass(frozen=True, slots=True)
class Role:
    """What a path is for: its kind (CODE ... ALPHA) and the number of its attribute; numeric ones come last."""

    path: Path
    kind: int
    attribute: int = CONTROLS

    @property
    def is_written(self) -> bool:
        """Whether masking rewrites what stands there."""
        return self.kind <= NUMBER


@dataclass(eq=False, slots=True)
class Way:
    """A step of some paths. ``ends``: numbers of roles whose paths end here; ``lists``: whose ``[*]`` goes on here."""

    ends: list[int] = field(default_factory=list)
    lists: list[int] = field(default_factory=list)
    names: dict[str, Way] = field(default_factory=dict)
    places: dict[int, Way] = field(default_factory=dict)
    each: Way | None = None
    wheres: list[tuple[Where, Way]] = field(default_factory=list)

    @property
    def in_list(self) -> bool:
        return bool(self.places or self.each or self.wheres)

    def child(self, step: Step) -> Way:
        match step:
            case Name(key):
                return self.names.setdefault(key, Way())
            case Index(position):
                return self.places.setdefault(position, Way())
            case Each():
                self.each = self.each or Way()
                return self.each
            case Where():
                return self._matching(step)

    def element(self, place: int, matching: Iterable[Where]) -> Iterator[Way]:
        """The ways on to a list's element."""
        chosen = list(matching)
        found = (self.each, self.places.get(place), *(way for where, way in self.wheres if where in chosen))
        yield from (way for way in found if way is not None)

    def _matching(self, step: Where) -> Way:
        for where, way in self.wheres:
            if where == step:
                return way
        self.wheres.append((step, Way()))
        return self.wheres[-1][1]


def roles_of(plan: Plan, *, controls: bool) -> list[Role]:
    """Every path that reads a record; ``controls``: noise key and alpha too."""
    roles = []
    for number, attribute in enumerate(plan.attributes):
        roles.append(Role(attribute.path, CODE, number))
        roles += [] if attribute.label is None else [Role(attribute.label, LABEL, number)]
        roles += [Role(path, COPY, number) for path in attribute.copies]
    roles += [Role(one.path, NUMBER, number) for number, one in enumerate(plan.numeric, start=len(plan.attributes))]
    if controls and plan.noise_key is not None:
        roles.append(Role(plan.noise_key, NOISE_KEY))
    if controls and plan.alpha is not None and plan.alpha.path is not None:
        roles.append(Role(plan.alpha.path, ALPHA))
    return roles


def tree_of(roles: Iterable[Role]) -> Way:
    """The paths of roles as a tree; roles are numbered in their order."""
    root = Way()
    for number, role in enumerate(roles):
        way = root
        for step in role.path.steps:
            if isinstance(step, Each):
                way.lists.append(number)
            way = way.child(step)
        way.ends.append(number)
    return root
