"""A plan compiled to tables, which tell the scanner what to do with every value of a record.

A *state* combines the field policy for a value (``PolicyState``) with the paths of roles that lead to it or continue
below it. States have numbers; the record itself has number 0. The state of a member follows from its name, that of an
element from its position and the filters that select it, and that of a container from its kind. All of this is looked
up in arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.dtypes import Float64Matrix, Int64Array, Int64Matrix, UInt8Array, UInt64Array
from stream_masker.core.numeric import LARGEST_NUMBER
from stream_masker.errors import StreamMaskerError
from stream_masker.pipeline.codec.roles import ALPHA_ROLE, COUNTED_ROLE, NOISE_KEY_ROLE, Role, role_trie, roles_of
from stream_masker.pipeline.codec.scanner.policy_states import PolicyState, policy_state
from stream_masker.pipeline.codec.scanner.text_hash import HashKey, hash_of, random_key
from stream_masker.pipeline.codec.scanner.tokens import PADDING
from stream_masker.pipeline.fields import Action, PolicyTrie, policy_trie
from stream_masker.pipeline.paths import FilterStep, PathTrie
from stream_masker.pipeline.plan import Plan

KEEP_VALUE, PSEUDONYMIZE_VALUE, DROP_VALUE, UNSUPPORTED, FIRST_TRANSFORM = range(5)
"""What happens to a value. UNSUPPORTED: the record is left undecided. From FIRST_TRANSFORM on: a transform."""

NOISE_KEY_FLAG: Final = 1
ALPHA_FLAG: Final = 2
COUNTED_SHIFT: Final = 2
"""Flags of a state: its value is the noise key, or the record's alpha. Above them, from bit COUNTED_SHIFT on, stands
1 + the number of the counted field that the value is, or 0."""

MAX_STATES: Final = 20_000
MAX_FILTERS: Final = 6

_ACTIONS: Final = {
    Action.KEEP: KEEP_VALUE,
    Action.PSEUDONYMIZE: PSEUDONYMIZE_VALUE,
    Action.DROP: DROP_VALUE,
}


class NotCompilableError(StreamMaskerError):
    """The tables cannot express a plan; the reference codec decodes all its records."""


(
    OBJECT_STATE,
    LIST_STATE,
    SCALAR_ACTION,
    NULL_ACTION,
    MASKED_ROLE,
    CONTROL_FLAGS,
    IS_DROPPED,
    OTHER_MEMBER,
    NULLS_DROPPED,
    OBJECTS_ONLY,
    FIRST_POSITION,
    POSITION_COUNT,
    FIRST_FILTER,
    FILTER_COUNT,
    FIRST_ENTERED,
    ENTERED_COUNT,
    HIDES_NAMES,
    FIRST_ELEMENT,
) = range(18)
"""Columns of ``Program.states``."""

NAME_OWNER, NAME_STATE, NAME_START, NAME_SIZE = range(4)
"""Columns of ``Program.names``."""


class Program(NamedTuple):
    """The tables of a plan.

    All integers have 64 bits, so that kernels need not extend them. LLVM 22 generates wrong code for some extensions:
    it moves a ``zext nneg`` to the load of its operand (CodeGenPrepare), above the condition that the operand is not
    negative, and keeps the flag.

    ``states``, by state: OBJECT_STATE and LIST_STATE, the states that decide about the value's members or elements, -1
    if such a value leaves the record undecided; SCALAR_ACTION and NULL_ACTION, what happens to such a value;
    MASKED_ROLE, the role of the masked value here, -1 for none; CONTROL_FLAGS; IS_DROPPED, whether nothing of the value
    is written; OTHER_MEMBER, the state of members that no path names; NULLS_DROPPED, whether null takes the place of a
    dropped element; OBJECTS_ONLY, whether elements must be objects or null; HIDES_NAMES, whether pseudonyms replace the
    names of members that the field policy does not name. The other columns locate slices: of ``positions``, of
    ``filters``, and of ``entered``, the roles whose paths continue into every element. From FIRST_ELEMENT on,
    ``elements`` has the (positions + 1) · 2^filters states of elements.

    Names of members: an open hash table of ``name_hashes`` and ``names`` (NAME_OWNER: the state of the object, -1 for
    an empty slot; NAME_STATE: that of the member, or -1 - state if the field policy does not name it; NAME_START and
    NAME_SIZE). Filters: ``filter_fields``, (first, number) of ``field_texts``, (start, size); ``filter_values``,
    (start, size, quoted). All texts are in ``texts``. Roles: ``role_kinds``, ``role_attributes``, ``role_in_list``.
    Attributes, the nominal ones first: ``keeps_missing``; for the nominal ones ``is_array``; for the numeric ones
    ``number_bounds``, (q, 3): lower, upper, and whether only whole numbers are admitted. ``hash_key``: of all hashes,
    drawn for each program.
    """

    states: Int64Matrix
    positions: Int64Array
    filters: Int64Array
    entered: Int64Array
    elements: Int64Array
    name_hashes: UInt64Array
    names: Int64Matrix
    filter_fields: Int64Matrix
    field_texts: Int64Matrix
    filter_values: Int64Matrix
    texts: UInt8Array
    role_kinds: Int64Array
    role_attributes: Int64Array
    role_in_list: Int64Array
    keeps_missing: Int64Array
    is_array: Int64Array
    number_bounds: Float64Matrix
    hash_key: HashKey


def compile_plan(plan: Plan, *, writes: bool = True) -> Program:
    """Return the tables of a plan; ``writes``: see ``ReferenceCodec``. Raises NotCompilableError."""
    _check_lists(plan)
    _check_keys(plan, writes)
    roles = roles_of(plan, alpha=writes)
    _check_filters(plan, roles)
    trie = policy_trie(plan)
    states = _StateTable(roles, [trie.at(path) for path in plan.fields.transformed] if writes else [])
    inherited = Action.KEEP if plan.fields.unlisted == "keep" else Action.DROP
    states.number(PolicyState((trie,), inherited), (role_trie(roles),))
    states.describe_all()
    return _program(states, plan)


RoleNodes: TypeAlias = tuple[PathTrie[int], ...]
StateKey: TypeAlias = tuple[PolicyState, RoleNodes]


@dataclass(slots=True)
class _State:
    """One state. ``row``: the fields of ``Program.states``, without those that locate slices; ``names``: the states of
    members; ``listed``: the names that the field policy has."""

    row: dict[int, int]
    names: dict[str, int]
    listed: set[str]
    positions: list[int]
    filters: list[int]
    entered: list[int]
    elements: list[int]


class _StateTable:
    """Numbers and describes the states that the paths of a plan lead to. transforms: the policy's node of each."""

    def __init__(self, roles: Sequence[Role], transforms: Sequence[PolicyTrie]) -> None:
        self.roles = roles
        self._transforms = {id(node): number for number, node in enumerate(transforms)}
        self.states: list[_State] = []
        self.filters: list[FilterStep] = []
        self._keys: list[StateKey] = []
        self._numbers: dict[StateKey, int] = {}

    def number(self, policy: PolicyState, nodes: Sequence[PathTrie[int]]) -> int:
        """Return the number of a state; a new state gets the next one."""
        key = policy, tuple(nodes)
        if key not in self._numbers:
            self._numbers[key] = len(self._keys)
            self._keys.append(key)
        return self._numbers[key]

    def describe_all(self) -> None:
        """Describe every state that has a number, and those that their descriptions add."""
        while len(self.states) < len(self._keys):
            self.states.append(self._describe(*self._keys[len(self.states)]))
            if len(self._keys) > MAX_STATES:
                raise NotCompilableError("their paths lead to too many states")

    def _describe(self, policy: PolicyState, nodes: RoleNodes) -> _State:
        positions = sorted(policy.indices.union(*(node.indices for node in nodes)))
        filters = list(dict.fromkeys([*policy.filters, *(step for node in nodes for step in node.filters)]))
        return _State(
            row=self._row(policy, nodes),
            names={name: self._member(policy, nodes, name) for name in sorted(_names(policy, nodes))},
            listed=policy.members,
            positions=positions,
            filters=[self._filter(step) for step in filters],
            entered=[role for node in nodes if node.each for role in node.each.all_items()],
            elements=self._elements(policy, nodes, positions, filters),
        )

    def _row(self, policy: PolicyState, nodes: RoleNodes) -> dict[int, int]:
        ending = [role for node in nodes for role in node.items]
        has_members, has_elements = any(node.members for node in nodes), any(node.enters_lists for node in nodes)
        dropped = policy.is_leaf and policy.action in {Action.DROP, Action.TRANSFORM}
        transform = self._transforms.get(id(policy.nodes[0])) if policy.is_transformed else None
        transformed, action = transform is not None, _action(policy, transform)
        return {
            OBJECT_STATE: -1 if ending or has_elements or transformed else self.number(policy.as_object(), nodes),
            LIST_STATE: -1 if ending or has_members or transformed else self.number(policy.as_list(), nodes),
            SCALAR_ACTION: UNSUPPORTED if has_members or has_elements else action,
            NULL_ACTION: action if dropped else KEEP_VALUE,
            MASKED_ROLE: self._masked_role(policy, ending),
            CONTROL_FLAGS: sum(_control_flag(self.roles[role]) for role in set(ending)),
            IS_DROPPED: int(dropped and not transformed),
            OTHER_MEMBER: self.number(policy_state((), policy.action), ()),
            NULLS_DROPPED: int(policy.nulls_dropped),
            OBJECTS_ONLY: int(any(node.filters for node in nodes)),
            HIDES_NAMES: int(policy.action is Action.PSEUDONYMIZE),
        }

    def _masked_role(self, policy: PolicyState, ending: Sequence[int]) -> int:
        masked = [role for role in ending if self.roles[role].is_masked]
        if len(masked) > 1 or (masked and policy.misshapen is not Action.KEEP):
            raise NotCompilableError("several of their paths end at the same value")
        return masked[0] if masked else -1

    def _member(self, policy: PolicyState, nodes: RoleNodes, name: str) -> int:
        return self.number(policy.member(name), [node.members[name] for node in nodes if name in node.members])

    def _elements(
        self, policy: PolicyState, nodes: RoleNodes, positions: Sequence[int], filters: Sequence[FilterStep]
    ) -> list[int]:
        """Return the states of elements, by position (first: one that no path names) and by the filters that select
        them."""
        if len(filters) > MAX_FILTERS:
            raise NotCompilableError("too many filters select elements of the same list")
        numbers = []
        for position, mask in product([-1, *positions], range(1 << len(filters))):
            matches = {step for bit, step in enumerate(filters) if mask >> bit & 1}.__contains__
            below = [child for node in nodes for child in node.element(position, matches)]
            numbers.append(self.number(policy.element(position, matches), below))
        return numbers

    def _filter(self, step: FilterStep) -> int:
        if step not in self.filters:
            self.filters.append(step)
        return self.filters.index(step)


def _action(policy: PolicyState, transform: int | None) -> int:
    """Return what happens to a scalar. A transform whose values are not written drops them."""
    if transform is not None:
        return FIRST_TRANSFORM + transform
    return DROP_VALUE if policy.misshapen is Action.TRANSFORM else _ACTIONS[policy.misshapen]


def _names(policy: PolicyState, nodes: RoleNodes) -> set[str]:
    return policy.members.union(*(node.members for node in nodes))


def _control_flag(role: Role) -> int:
    if role.kind == COUNTED_ROLE:
        return role.place + 1 << COUNTED_SHIFT
    return NOISE_KEY_FLAG if role.kind == NOISE_KEY_ROLE else ALPHA_FLAG if role.kind == ALPHA_ROLE else 0


def _check_lists(plan: Plan) -> None:
    """Raise NotCompilableError unless each attribute has one place, with at most one ``[*]``."""
    if plan.fhir is not None:
        raise NotCompilableError("each type of resource has paths of its own")
    for attribute in plan.attributes:
        steps = list(attribute.path.array_steps)
        if attribute.also or len(steps) > 1 or any(isinstance(step, FilterStep) for step in steps):
            raise NotCompilableError(f"the codes of {attribute.name} stand in several places, or in lists of lists")


def _check_keys(plan: Plan, writes: bool) -> None:
    """Raise NotCompilableError if a transform needs another key of the record than the noise key."""
    for path, transform in plan.fields.transformed.items() if writes else ():
        if transform.key not in {None, plan.noise_key}:
            raise NotCompilableError(f"the transform of {path.text} needs another key than noise_key")


def _check_filters(plan: Plan, roles: Sequence[Role]) -> None:
    """Raise NotCompilableError if a filter compares a field that masking replaces.

    Filters are evaluated before and after masking, so masking must not change which elements they select.
    """
    masked = [path for _, path in plan.written]
    listed = (path for paths in plan.fields.lists().values() for path in paths)
    for path in {*masked, *listed, *(role.path for role in roles)}:
        if any(compared.may_meet(written) for compared in path.filter_fields() for written in masked):
            raise NotCompilableError("a filter compares a field that masking replaces")


class _Texts:
    """Texts, stored one after another in one array of bytes."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def add(self, text: str) -> tuple[int, int]:
        """Append a text. Return its start and its size in bytes."""
        start, data = len(self._bytes), text.encode("utf-8", "surrogatepass")
        self._bytes += data
        return start, len(data)

    def array(self) -> UInt8Array:
        """Return all texts, followed by ``PADDING``."""
        return np.frombuffer(bytes(self._bytes) + bytes(PADDING), np.uint8)


def _program(table: _StateTable, plan: Plan) -> Program:
    states, texts, roles, filters = table.states, _Texts(), table.roles, table.filters
    key = random_key()
    hashes, names = _name_table(states, texts, key)
    return Program(
        states=_rows(states),
        positions=_ints([position for state in states for position in state.positions]),
        filters=_ints([number for state in states for number in state.filters]),
        entered=_ints([role for state in states for role in state.entered]),
        elements=_ints([element for state in states for element in state.elements]),
        name_hashes=hashes,
        names=names,
        filter_fields=_slices([len(step.field) for step in filters]),
        field_texts=_table([texts.add(name) for step in filters for name in step.field], 2),
        filter_values=_table([(*texts.add(step.value), int(step.quoted)) for step in filters], 3),
        texts=texts.array(),
        role_kinds=_ints([role.kind for role in roles]),
        role_attributes=_ints([role.attribute for role in roles]),
        role_in_list=_ints([role.path.arrays for role in roles]),
        keeps_missing=_ints([missing == "keep" for missing in _missing(plan)]),
        is_array=_ints([attribute.is_array for attribute in plan.attributes]),
        number_bounds=_bounds(plan),
        hash_key=key,
    )


def _missing(plan: Plan) -> list[str]:
    return [*(attribute.missing for attribute in plan.attributes), *(number.missing for number in plan.numeric)]


def _bounds(plan: Plan) -> NDArray[np.float64]:
    kinds = [number.kind for number in plan.numeric]
    rows = [(max(kind.lower, -LARGEST_NUMBER), min(kind.upper, LARGEST_NUMBER), kind.integer) for kind in kinds]
    return np.array(rows, dtype=np.float64).reshape(len(rows), 3)


def _rows(states: Sequence[_State]) -> Int64Array:
    rows = np.zeros((len(states), FIRST_ELEMENT + 1), np.int64)
    for number, state in enumerate(states):
        for column, value in state.row.items():
            rows[number, column] = value
    rows[:, FIRST_POSITION : POSITION_COUNT + 1] = _slices([len(state.positions) for state in states])
    rows[:, FIRST_FILTER : FILTER_COUNT + 1] = _slices([len(state.filters) for state in states])
    rows[:, FIRST_ENTERED : ENTERED_COUNT + 1] = _slices([len(state.entered) for state in states])
    rows[:, FIRST_ELEMENT] = _slices([len(state.elements) for state in states])[:, 0]
    return rows


def _name_table(states: Sequence[_State], texts: _Texts, hash_key: HashKey) -> tuple[NDArray[np.uint64], Int64Array]:
    """Return an open hash table of (state, member's name), at most a quarter full: hashes, and rows of
    ``Program.names``."""
    entries = [
        (owner, name, child if name in state.listed else -1 - child)
        for owner, state in enumerate(states)
        for name, child in state.names.items()
    ]
    slots = 1 << (4 * len(entries) + 4).bit_length()
    hashes, names = np.zeros(slots, np.uint64), np.full((slots, 4), -1, np.int64)
    for owner, name, child in entries:
        start, size = texts.add(name)
        key = int(hash_of(texts.array()[start:], size, hash_key))
        slot = (key ^ owner) & (slots - 1)
        while names[slot, NAME_OWNER] >= 0:
            slot = (slot + 1) & (slots - 1)
        hashes[slot], names[slot] = key, (owner, child, start, size)
    return hashes, names


def _ints(values: Sequence[int]) -> Int64Array:
    return np.array(values, dtype=np.int64)


def _table(rows: Sequence[tuple[int, ...]], width: int) -> Int64Array:
    return np.array(rows, dtype=np.int64).reshape(len(rows), width)


def _slices(lengths: Sequence[int]) -> Int64Array:
    """Return the starts and lengths of n consecutive slices."""
    ends = np.cumsum(lengths, dtype=np.int64) if lengths else np.zeros(0, np.int64)
    return np.stack([ends - np.array(lengths, dtype=np.int64), np.array(lengths, dtype=np.int64)], axis=1)
