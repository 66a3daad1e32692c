"""A plan compiled to tables: what a scanner needs to know about every place of a record that the plan tells apart.

A *state* is a place's spot in the field policy together with the ways that go on from there. States are numbered from
0, the record itself; what follows from a state (by a member's name, an element's place and the filters that select
it, the kind of the value) is another state, looked up in arrays.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.dtypes import Float64Matrix, Int32Array, Int32Matrix, UInt8Array, UInt64Array
from stream_masker.core.numeric import LARGEST_NUMBER
from stream_masker.errors import StreamMaskerError
from stream_masker.pipeline.codec.path_trie import ALPHA_ROLE, NOISE_KEY_ROLE, PathNode, Role, path_trie, roles_of
from stream_masker.pipeline.codec.scanner.policy_states import PolicyState, is_settled
from stream_masker.pipeline.codec.scanner.tokens import PADDING, hash_of
from stream_masker.pipeline.fields import Action, policy_tree
from stream_masker.pipeline.paths import FilterStep, NameStep, Path
from stream_masker.pipeline.plan import Plan

KEEP, PSEUDONYMIZE, DROP, NEVER = range(4)
"""What happens to a value; NEVER: the record is left to others."""

KEYED: Final = 1
OWN_ALPHA: Final = 2
"""Flags of a state whose value is the noise key, or the record's own alpha."""

MOST_STATES: Final = 20_000
MOST_FILTERS: Final = 6

SEED: Final = np.uint64(secrets.randbits(64))
"""What hashes start from, so that nobody can look for texts that collide. Kernels must be handed it: what is compiled
is kept for other processes."""

_OF_ACTION: Final = {Action.KEEP: KEEP, Action.PSEUDONYMIZE: PSEUDONYMIZE, Action.DROP: DROP}


class NotCompilableError(StreamMaskerError):
    """A plan that tables do not express; it is done without them."""


(
    OBJECTS,
    LISTS,
    SCALARS,
    NULLS,
    ROLE,
    CONTROLS,
    MUTED,
    OTHERS,
    HELD,
    STRICT,
    FIRST_PLACE,
    PLACES,
    FIRST_FILTER,
    FILTERS,
    FIRST_MARK,
    MARKS,
    FIRST_ELEMENT,
) = range(17)
"""Columns of ``Program.states``."""

OWNER, STATE, START, SIZE = range(4)
"""Columns of ``Program.names``."""


class Program(NamedTuple):
    """The tables. ``states``: a row for each state.

    OBJECTS and LISTS: the state that decides about its members or elements (-1: the record is left to others);
    SCALARS and NULLS: what happens to such values; ROLE: the role that ends there (-1: none); CONTROLS: flags; MUTED:
    whether nothing of it is written; OTHERS: the state of members without a name of their own; HELD: whether null
    holds a dropped element's place; STRICT: whether its elements must be objects or null; FIRST_PLACE and PLACES,
    FIRST_FILTER and FILTERS, FIRST_MARK and MARKS: slices of ``places``, ``filters`` and ``marks``; FIRST_ELEMENT:
    where its (places + 1) · 2^filters states begin in ``elements``.

    Members' names: an open hash table of ``name_hashes`` and ``names`` (OWNER: the state, -1: empty; STATE; START and
    SIZE of the name). Filters: ``filter_fields`` (first, number) of ``field_texts`` (start, size), ``filter_values``
    (start, size, quoted). All texts stand in ``texts``. Roles: ``role_kinds``, ``role_attributes``, ``role_arrays``.
    Attributes: ``kept_missing``; of the nominal ones, which come first, ``arrays``; of the numeric ones
    ``number_bounds`` (lower, upper, whether whole numbers only). ``seed``: what hashes start from.
    """

    states: Int32Matrix
    places: Int32Array
    filters: Int32Array
    marks: Int32Array
    elements: Int32Array
    name_hashes: UInt64Array
    names: Int32Matrix
    filter_fields: Int32Matrix
    field_texts: Int32Matrix
    filter_values: Int32Matrix
    texts: UInt8Array
    role_kinds: Int32Array
    role_attributes: Int32Array
    role_arrays: Int32Array
    kept_missing: Int32Array
    arrays: Int32Array
    number_bounds: Float64Matrix
    seed: np.uint64


def compile_plan(plan: Plan, *, controls: bool = True) -> Program:
    """A plan's tables; ``controls``: with the noise key and alphas that records give. Raises NotCompilableError."""
    roles = roles_of(plan, controls=controls)
    _check_filters(plan, roles)
    states = _States(roles)
    inherited = Action.KEEP if plan.fields.unlisted == "keep" else Action.DROP
    states.number(PolicyState((policy_tree(plan),), inherited), (path_trie(roles),))
    states.describe_all()
    return _program(states, plan)


StateKey: TypeAlias = tuple[PolicyState, tuple[PathNode, ...]]


@dataclass(slots=True)
class _State:
    """One state. ``row``: by column of ``Program.states``, but for slices."""

    row: dict[int, int]
    names: dict[str, int]
    places: list[int]
    filters: list[int]
    marks: list[int]
    elements: list[int]


class _States:
    """Numbers the states that a plan can lead to, and describes them."""

    def __init__(self, roles: Sequence[Role]) -> None:
        self.roles = roles
        self.found: list[_State] = []
        self.wheres: list[FilterStep] = []
        self._keys: list[StateKey] = []
        self._numbers: dict[StateKey, int] = {}

    def number(self, spot: PolicyState, ways: Sequence[PathNode]) -> int:
        key = spot, tuple(ways)
        if key not in self._numbers:
            self._numbers[key] = len(self._keys)
            self._keys.append(key)
        return self._numbers[key]

    def describe_all(self) -> None:
        while len(self.found) < len(self._keys):
            self.found.append(self._describe(*self._keys[len(self.found)]))
            if len(self._keys) > MOST_STATES:
                raise NotCompilableError("its paths tell too many places apart")

    def _describe(self, spot: PolicyState, ways: tuple[PathNode, ...]) -> _State:
        ends = [role for way in ways for role in way.ends]
        named, listed = any(way.names for way in ways), any(way.in_list for way in ways)
        places = sorted(spot.places.union(*(way.places for way in ways)))
        wheres = list(dict.fromkeys([*spot.wheres, *(where for way in ways for where, _ in way.wheres)]))
        row = {
            OBJECTS: -1 if ends or listed else self.number(spot.as_object(), ways),
            LISTS: -1 if ends or named else self.number(spot.as_list(), ways),
            SCALARS: NEVER if named or listed else _OF_ACTION[spot.astray],
            NULLS: DROP if spot.is_leaf and spot.own is Action.DROP else KEEP,
            ROLE: self._role(spot, ends),
            CONTROLS: sum(_flag(self.roles[role]) for role in set(ends)),
            MUTED: int(spot.is_leaf and spot.own is Action.DROP),
            OTHERS: self.number(is_settled((), spot.own), ()),
            HELD: int(spot.holds_places),
            STRICT: int(any(way.wheres for way in ways)),
        }
        return _State(
            row=row,
            names={name: self._member(spot, ways, name) for name in sorted(_names(spot, ways))},
            places=places,
            filters=[self._where(where) for where in wheres],
            marks=[role for way in ways for role in way.lists],
            elements=self._elements(spot, ways, places, wheres),
        )

    def _role(self, spot: PolicyState, ends: Sequence[int]) -> int:
        written = [role for role in ends if self.roles[role].is_written]
        if len(written) > 1 or (written and spot.astray is not Action.KEEP):
            raise NotCompilableError("several of its paths meet in one place")
        return written[0] if written else -1

    def _member(self, spot: PolicyState, ways: Sequence[PathNode], name: str) -> int:
        return self.number(spot.member(name), [way.names[name] for way in ways if name in way.names])

    def _elements(
        self, spot: PolicyState, ways: Sequence[PathNode], places: Sequence[int], wheres: Sequence[FilterStep]
    ) -> list[int]:
        if len(wheres) > MOST_FILTERS:
            raise NotCompilableError("too many filters select elements of one list")
        states = []
        for place, mask in product([-1, *places], range(1 << len(wheres))):
            matching = [where for bit, where in enumerate(wheres) if mask >> bit & 1]
            on = [further for way in ways for further in way.element(place, matching)]
            states.append(self.number(spot.element(place, matching), on))
        return states

    def _where(self, where: FilterStep) -> int:
        if where not in self.wheres:
            self.wheres.append(where)
        return self.wheres.index(where)


def _names(spot: PolicyState, ways: Sequence[PathNode]) -> set[str]:
    return spot.names.union(*(way.names for way in ways))


def _flag(role: Role) -> int:
    return KEYED if role.kind == NOISE_KEY_ROLE else OWN_ALPHA if role.kind == ALPHA_ROLE else 0


def _check_filters(plan: Plan, roles: Sequence[Role]) -> None:
    """A filter is asked twice, before and after masking; what masking rewrites must not change its answer."""
    written = [path for _, path in plan.written]
    policy = plan.fields
    for path in {*written, *policy.keep, *policy.drop, *policy.pseudonymize, *(role.path for role in roles)}:
        for at, step in enumerate(path.steps):
            if isinstance(step, FilterStep):
                asked = Path(path.text, (*path.steps[: at + 1], *map(NameStep, step.field)))
                if any(asked.may_meet(one) for one in written):
                    raise NotCompilableError("a filter asks for what masking rewrites")


class _Texts:
    """Texts one after another in one array of bytes."""

    def __init__(self) -> None:
        self._all = bytearray()

    def add(self, text: str) -> tuple[int, int]:
        """(start, size) of a text."""
        start, data = len(self._all), text.encode("utf-8", "surrogatepass")
        self._all += data
        return start, len(data)

    def array(self) -> UInt8Array:
        return np.frombuffer(bytes(self._all) + bytes(PADDING), np.uint8)


def _program(states: _States, plan: Plan) -> Program:
    found, texts, roles, wheres = states.found, _Texts(), states.roles, states.wheres
    hashes, names = _name_table(found, texts)
    return Program(
        states=_rows(found),
        places=_ints([place for state in found for place in state.places]),
        filters=_ints([where for state in found for where in state.filters]),
        marks=_ints([mark for state in found for mark in state.marks]),
        elements=_ints([element for state in found for element in state.elements]),
        name_hashes=hashes,
        names=names,
        filter_fields=_spans([len(where.field) for where in wheres]),
        field_texts=_table([texts.add(name) for where in wheres for name in where.field], 2),
        filter_values=_table([(*texts.add(where.value), int(where.quoted)) for where in wheres], 3),
        texts=texts.array(),
        role_kinds=_ints([role.kind for role in roles]),
        role_attributes=_ints([role.attribute for role in roles]),
        role_arrays=_ints([role.path.arrays for role in roles]),
        kept_missing=_ints([missing == "keep" for missing in _missing(plan)]),
        arrays=_ints([attribute.is_array for attribute in plan.attributes]),
        number_bounds=_bounds(plan),
        seed=SEED,
    )


def _missing(plan: Plan) -> list[str]:
    return [*(one.missing for one in plan.attributes), *(one.missing for one in plan.numeric)]


def _bounds(plan: Plan) -> NDArray[np.float64]:
    kinds = [one.kind for one in plan.numeric]
    rows = [(max(kind.lower, -LARGEST_NUMBER), min(kind.upper, LARGEST_NUMBER), kind.integer) for kind in kinds]
    return np.array(rows, dtype=np.float64).reshape(len(rows), 3)


def _rows(found: Sequence[_State]) -> Int32Array:
    rows = np.zeros((len(found), FIRST_ELEMENT + 1), np.int32)
    for number, state in enumerate(found):
        for column, value in state.row.items():
            rows[number, column] = value
    rows[:, FIRST_PLACE : PLACES + 1] = _spans([len(state.places) for state in found])
    rows[:, FIRST_FILTER : FILTERS + 1] = _spans([len(state.filters) for state in found])
    rows[:, FIRST_MARK : MARKS + 1] = _spans([len(state.marks) for state in found])
    rows[:, FIRST_ELEMENT] = _spans([len(state.elements) for state in found])[:, 0]
    return rows


def _name_table(found: Sequence[_State], texts: _Texts) -> tuple[NDArray[np.uint64], Int32Array]:
    """An open hash table, at most a quarter full, of (state, name)."""
    entries = [(owner, name, state) for owner, one in enumerate(found) for name, state in one.names.items()]
    slots = 1 << (4 * len(entries) + 4).bit_length()
    hashes, names = np.zeros(slots, np.uint64), np.full((slots, 4), -1, np.int32)
    for owner, name, state in entries:
        start, size = texts.add(name)
        key = int(hash_of(texts.array()[start:], size, SEED))
        slot = (key ^ owner) & (slots - 1)
        while names[slot, OWNER] >= 0:
            slot = (slot + 1) & (slots - 1)
        hashes[slot], names[slot] = key, (owner, state, start, size)
    return hashes, names


def _ints(values: Sequence[int]) -> Int32Array:
    return np.array(values, dtype=np.int32)


def _table(rows: Sequence[tuple[int, ...]], width: int) -> Int32Array:
    return np.array(rows, dtype=np.int32).reshape(len(rows), width)


def _spans(lengths: Sequence[int]) -> Int32Array:
    """(n, 2): where each of n pieces of these lengths begins, and its length."""
    ends = np.cumsum(lengths, dtype=np.int32) if lengths else np.zeros(0, np.int32)
    return np.stack([ends - np.array(lengths, dtype=np.int32), np.array(lengths, dtype=np.int32)], axis=1)
