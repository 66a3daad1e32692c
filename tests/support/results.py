"""Single records as the columns that a record masker takes, and its results as outcomes of single records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from stream_masker.pipeline.records import Block, Header, Inputs, Rejected, Result


class InputRecord(NamedTuple):
    """One record; -1 is no timestamp."""

    offset: int
    value: bytes | None
    key: bytes | None = None
    headers: Sequence[Header] = ()
    timestamp: int = -1


def inputs(records: Sequence[InputRecord]) -> Inputs:
    offsets, values, keys, headers, timestamps = zip(*records, strict=True) if records else [()] * 5
    return Inputs(offsets=offsets, values=values, keys=keys, headers=headers, timestamps=timestamps)


class Masked(NamedTuple):
    """A masked record. value: None for a tombstone."""

    offset: int
    value: bytes | None
    key: bytes | None
    headers: list[Header]
    timestamp: int


Outcome: TypeAlias = Masked | Rejected


def outcomes(result: Result) -> list[Outcome]:
    """One outcome for each record of a result, in order."""
    masked = map(Masked, result.offsets, result.values, result.keys, map(list, result.headers), result.timestamps)
    return [result.rejected.get(one.offset, one) for one in masked]


def result_of(given: Sequence[Outcome], blocks: Sequence[Block] = ()) -> Result:
    """Return the result with these outcomes."""
    masked = [one if isinstance(one, Masked) else Masked(one.offset, None, None, [], -1) for one in given]
    return Result(
        offsets=[one.offset for one in masked],
        values=[one.value for one in masked],
        keys=[one.key for one in masked],
        headers=[one.headers for one in masked],
        timestamps=[one.timestamp for one in masked],
        rejected={one.offset: one for one in given if isinstance(one, Rejected)},
        blocks=blocks,
    )
