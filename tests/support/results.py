"""Single records as the columns that a record masker takes, and its results as outcomes of single records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

from stream_masker.pipeline.records import COLUMNS, Block, Header, Inputs, Rejected, Result


class InputRecord(NamedTuple):
    """One record, before or after masking. value: None for a tombstone; -1 is no timestamp."""

    offset: int
    value: bytes | None
    key: bytes | None = None
    headers: Sequence[Header] = ()
    timestamp: int = -1


def inputs(records: Sequence[InputRecord]) -> Inputs:
    offsets, values, keys, headers, timestamps = zip(*records, strict=True) if records else [()] * 5
    return Inputs(offsets=offsets, values=values, keys=keys, headers=headers, timestamps=timestamps)


class Refused(NamedTuple):
    """A rejected record."""

    offset: int
    reason: str
    field: str | None = None


Masked: TypeAlias = InputRecord
Outcome: TypeAlias = Masked | Refused


def outcomes(result: Result) -> list[Outcome]:
    """One outcome for each record of a result, in order."""
    masked = map(Masked, result.offsets, result.values, result.keys, map(list, result.headers), result.timestamps)
    refused = {offset: Refused(offset, *one) for offset, one in result.rejected.items()}
    return [refused.get(one.offset, one) for one in masked]


def result_of(given: Sequence[Outcome], blocks: Sequence[Block] = ()) -> Result:
    """Return the result with these outcomes."""
    columns = inputs([one if isinstance(one, Masked) else Masked(one.offset, None, None, []) for one in given])
    rejected = {one.offset: Rejected(one.reason, one.field) for one in given if isinstance(one, Refused)}
    return Result(**{name: getattr(columns, name) for name in COLUMNS}, rejected=rejected, blocks=blocks)


def same_counts(first: Any, second: Any) -> bool:
    """Whether both hold the same keys with the same counts."""
    return all(getattr(first, of).tolist() == getattr(second, of).tolist() for of in ("keys", "counts"))
