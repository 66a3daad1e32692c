"""Single records of an input partition, as the columns that a record masker takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from stream_masker.pipeline.records import Header, Inputs


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
