"""The paths that read a record (codes, labels, copies, numbers, noise key, alpha) as one tree of steps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from stream_masker.pipeline.paths import EachStep, FilterStep, IndexStep, NameStep, Path, Step
from stream_masker.pipeline.plan import Plan

CODE_ROLE: Final = 0
COPY_ROLE: Final = 1
LABEL_ROLE: Final = 2
NUMBER_ROLE: Final = 3
NOISE_KEY_ROLE: Final = 4
ALPHA_ROLE: Final = 5

CONTROL_ROLES: Final = -1
"""The attribute of paths that belong to none."""


@dataclass(frozen=True, slots=True)
class Role:
    """What a path is for: its kind (CODE ... ALPHA) and the number of its attribute; numeric ones come last."""

    path: Path
    kind: int
    attribute: int = CONTROL_ROLES

    @property
    def is_written(self) -> bool:
        """Whether masking rewrites what stands there."""
        return self.kind <= NUMBER_ROLE


@dataclass(eq=False, slots=True)
class PathNode:
    """A step of some paths. ``ends``: numbers of roles whose paths end here; ``lists``: whose ``[*]`` goes on here."""

    ends: list[int] = field(default_factory=list)
    lists: list[int] = field(default_factory=list)
    names: dict[str, PathNode] = field(default_factory=dict)
    places: dict[int, PathNode] = field(default_factory=dict)
    each: PathNode | None = None
    wheres: list[tuple[FilterStep, PathNode]] = field(default_factory=list)

    @property
    def in_list(self) -> bool:
        return bool(self.places or self.each or self.wheres)

    def child(self, step: Step) -> PathNode:
        match step:
            case NameStep(key):
                return self.names.setdefault(key, PathNode())
            case IndexStep(position):
                return self.places.setdefault(position, PathNode())
            case EachStep():
                self.each = self.each or PathNode()
                return self.each
            case FilterStep():
                return self._matching(step)

    def element(self, place: int, matching: Iterable[FilterStep]) -> Iterator[PathNode]:
        """The ways on to a list's element."""
        chosen = list(matching)
        found = (self.each, self.places.get(place), *(way for where, way in self.wheres if where in chosen))
        yield from (way for way in found if way is not None)

    def _matching(self, step: FilterStep) -> PathNode:
        for where, way in self.wheres:
            if where == step:
                return way
        self.wheres.append((step, PathNode()))
        return self.wheres[-1][1]


def roles_of(plan: Plan, *, controls: bool) -> list[Role]:
    """Every path that reads a record; ``controls``: noise key and alpha too."""
    roles = []
    for number, attribute in enumerate(plan.attributes):
        roles.append(Role(attribute.path, CODE_ROLE, number))
        roles += [] if attribute.label is None else [Role(attribute.label, LABEL_ROLE, number)]
        roles += [Role(path, COPY_ROLE, number) for path in attribute.copies]
    roles += [
        Role(one.path, NUMBER_ROLE, number) for number, one in enumerate(plan.numeric, start=len(plan.attributes))
    ]
    if controls and plan.noise_key is not None:
        roles.append(Role(plan.noise_key, NOISE_KEY_ROLE))
    if controls and plan.alpha is not None and plan.alpha.path is not None:
        roles.append(Role(plan.alpha.path, ALPHA_ROLE))
    return roles


def path_trie(roles: Iterable[Role]) -> PathNode:
    """The paths of roles as a tree; roles are numbered in their order."""
    root = PathNode()
    for number, role in enumerate(roles):
        way = root
        for step in role.path.steps:
            if isinstance(step, EachStep):
                way.lists.append(number)
            way = way.child(step)
        way.ends.append(number)
    return root
