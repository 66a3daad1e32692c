"""A second reader of JSON: it reads only what the plan names, and makes no dictionaries.

If unlisted fields are dropped, the paths of fields are of names and ``[*]``, and none enters a kept object, each object
in a record gets a type with the members that the paths name (``Members``). msgspec decodes these, and skips all others.
A walk treats such objects as it treats dictionaries. The names of a record are written in the order of the plan.

No record is rejected here. What ``formats.record_form`` may reject, and what has another shape than the paths require,
is left to that.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from types import GenericAlias
from typing import Any, ClassVar, Final, TypeAlias

import msgspec
import numpy as np
from msgspec import UNSET, UnsetType

from stream_masker.core.arrays import BoolArray
from stream_masker.pipeline.formats import LONG, MAX_DEPTH
from stream_masker.pipeline.paths import Document, EachStep, JsonValue, NameStep, Step
from stream_masker.pipeline.plan import Action, Plan
from stream_masker.pipeline.walk import Branch

ReadStructs: TypeAlias = Callable[[Sequence[bytes]], list[Document | None]]
"""Returns the documents of JSON texts; None for each that is left to ``formats.record_form``."""

BLOCK: Final = 64
"""The characters whose openings are counted at once."""

_FOUR_DIGITS: Final = np.uint32(0x01_01_01_01)
_EXPONENT: Final = re.compile(rb"[eE]\+?[0-9]{3,}[\s,\]}]")
"""The end of a number that can be beyond 64-bit floats, if its mantissa has no more digits than is usual."""


class Members(msgspec.Struct, gc=False, eq=False):
    """The members of an object that a plan reads; ``UNSET`` for one that the object does not have.

    fields: the field of each name.
    """

    fields: ClassVar[dict[str, str]]

    def __delitem__(self, field: str) -> None:
        setattr(self, field, UNSET)

    def get(self, name: str) -> JsonValue:
        """Return the member with a name; None for none."""
        value = getattr(self, self.fields[name]) if name in self.fields else UNSET
        return None if value is UNSET else value


class _NotExpressibleError(Exception):
    """The plan reads what the types of objects do not show."""


def struct_reader(plan: Plan, branch: Branch) -> ReadStructs | None:
    """Return what reads the records of a plan; None if types do not suffice. branch: the paths of the plan."""
    keys = [way.steps for key in (*plan.keys, *plan.context) for way in key.ways]
    try:
        root = _type_of_objects(branch, Action.KEEP if plan.fields.unlisted == "keep" else Action.DROP, keys)
    except _NotExpressibleError:
        return None
    decode, most_bytes = msgspec.json.Decoder(root).decode, plan.record_bytes

    def read(texts: Sequence[bytes]) -> list[Document | None]:
        documents: list[Document | None] = []
        for text, is_usual in zip(texts, usual(texts, most_bytes).tolist(), strict=True):
            try:
                documents.append(decode(text) if is_usual else None)
            except msgspec.MsgspecError:
                documents.append(None)
        return documents

    return read


def _type_of_objects(branch: Branch, action: Action, keys: Sequence[tuple[Step, ...]]) -> type[Members]:
    """Return the type of the objects that a branch selects.

    action: what happens to members that no path names; keys: the steps that are left of the paths of keys in these
    objects. Raises _NotExpressibleError.
    """
    first = [step for key in keys for step in key[:1] if isinstance(step, NameStep)]
    if branch.lists or action is Action.KEEP or len(first) < len(keys):
        raise _NotExpressibleError
    types = {}
    for step in dict.fromkeys([*map(NameStep, branch.names), *first]):
        inside = [key[1:] for key in keys if key[0] == step]
        if (kind := _type_of_values(branch.entered(frozenset({step})), action, inside)) is not None:
            types[step.key] = kind
    fields = {name: f"member_{number}" for number, name in enumerate(types)}
    try:
        made: type[Any] = msgspec.defstruct(
            "Members",
            [(fields[name], kind | UnsetType, UNSET) for name, kind in types.items()],
            bases=(Members,),
            namespace={"fields": fields},
            rename={field: name for name, field in fields.items()},
            gc=False,
            eq=False,
        )
    except ValueError:  # msgspec does not write names that JSON escapes
        raise _NotExpressibleError from None
    return made


def _type_of_values(branch: Branch, inherited: Action, keys: Sequence[tuple[Step, ...]]) -> Any:
    """Return the type of the values that a branch selects, None if it is skipped. Raises _NotExpressibleError."""
    action = branch.action or inherited
    if action is Action.MASKED or not branch.further:
        return Any if keys or action is not Action.DROP else None
    if not branch.lists:
        return _type_of_objects(branch, action, keys) | None
    element = _type_of_values(branch.entered(frozenset(branch.lists)), action, ())
    if branch.names or branch.lists != [EachStep()] or action is Action.KEEP or keys or element is None:
        raise _NotExpressibleError
    return GenericAlias(list, element | None) | None


def usual(texts: Sequence[bytes], most_bytes: int) -> BoolArray:
    """Return (n,) bool: whether ``formats.record_form`` accepts texts if msgspec decodes them.

    msgspec does not look closely at what it skips. So a text is not usual if it is not UTF-8, is larger than
    ``most_bytes``, has more than ``MAX_DEPTH`` objects and lists, an integer of so many digits that it may be beyond 64
    bits, or an exponent that may be beyond 64-bit floats.
    """
    sizes = np.fromiter(map(len, texts), np.int64, len(texts))
    are_usual: BoolArray = sizes <= most_bytes
    read = texts if are_usual.all() else [text if len(text) <= most_bytes else b"" for text in texts]
    ends = np.cumsum(sizes * are_usual + 1)
    starts, joined = np.append(0, ends[:-1]), b"\n".join([*read, b" " * BLOCK])
    characters = np.frombuffer(joined, np.uint8, len(joined) // BLOCK * BLOCK)
    lower, is_digit = characters | np.uint8(0x20), (characters - np.uint8(ord("0"))) < 10
    in_blocks = np.bitwise_count(np.packbits(lower == ord("{")).view(np.uint64))  # 0x20 makes [ a {, and E an e
    openings = np.append(0, np.cumsum(in_blocks, dtype=np.int64))
    most = openings[ends // BLOCK + 1] - openings[starts // BLOCK]
    deep = [k for k in np.flatnonzero(most > MAX_DEPTH).tolist() if sum(map(texts[k].count, b"[{")) > MAX_DEPTH]
    are_usual[deep] = False
    exponents = np.flatnonzero(is_digit[:-4] & (lower[1:-3] == ord("e")) & is_digit[3:-1]) + 1  # of three digits
    unusual = [at for at in exponents.tolist() if _EXPONENT.match(joined, at)]
    fours = is_digit.view(np.uint32) == _FOUR_DIGITS
    if (fours[:-3] & fours[1:-2] & fours[2:-1] & fours[3:]).any():  # 16 of any 19
        for more in (1, 2, 4, 8, LONG - 16):
            is_digit = is_digit[more:] & is_digit[:-more]
        is_digit[1:] &= ~is_digit[:-1]  # the first of each run
        unusual += np.flatnonzero(is_digit).tolist()
    are_usual[np.searchsorted(ends, unusual, "right")] = False
    if not _is_utf8(joined):
        are_usual &= list(map(_is_utf8, read))
    return are_usual


def _is_utf8(text: bytes) -> bool:
    try:
        return text.isascii() or text.decode() is not None
    except UnicodeDecodeError:
        return False
