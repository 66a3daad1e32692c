"""Runs: consecutive records of one partition that are masked together, and their noise keys.

Runs of several partitions are masked together, which saves the fixed costs of a call. Every record keeps the noise of
its own partition and offset. Mechanisms that need groups mask a run as a group.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, islice, pairwise
from typing import Final

import numpy as np

from stream_masker.core.dtypes import UInt64Matrix
from stream_masker.core.random import PositionKeys, Secret
from stream_masker.errors import StreamMaskerError
from stream_masker.pipeline.plan import OWN_HEADERS
from stream_masker.pipeline.records import Header, Inputs

BLOCK_RECORDS: Final = 5_000
"""The maximum number of records in a block."""

GROUP_HEADER: Final = OWN_HEADERS + "group"


@dataclass(frozen=True, slots=True)
class Run:
    """Consecutive records of one partition that are counted in one block."""

    topic: str
    partition: int
    records: Inputs
    statistics_version: int
    stamp: list[Header]

    def split(self) -> Iterator[Run]:
        """Yield the run as runs of at most ``BLOCK_RECORDS`` records."""
        size = len(self.records)
        for start in range(0, size, BLOCK_RECORDS):
            part = self.records.part(start, start + BLOCK_RECORDS) if size > BLOCK_RECORDS else self.records
            yield replace(self, records=part)

    def positions(self, secret: Secret) -> UInt64Matrix:
        """Return (n, 2) uint64: the digests of the records' positions, which key noise by position."""
        return PositionKeys(secret, self.topic, self.partition, np.array(self.records.offsets, np.int64)).digests


def run_spans(runs: Sequence[Run]) -> Iterator[tuple[Run, tuple[int, int]]]:
    """Yield each run, with the start and end of its records among those of all runs."""
    return zip(runs, pairwise(accumulate((len(run.records) for run in runs), initial=0)), strict=True)


def split_values(values: Iterable[bytes | None]) -> Iterator[Inputs]:
    """Yield values as records, at most ``BLOCK_RECORDS`` at a time."""
    rest = iter(values)
    while run := list(islice(rest, BLOCK_RECORDS)):
        size = len(run)
        yield Inputs(offsets=range(size), values=run, keys=[None] * size, timestamps=[-1] * size)


def pack_runs(runs: Iterable[Run], limit: int) -> Iterator[list[Run]]:
    """Yield packs of consecutive runs with at most ``limit`` records in total; a larger run is a pack of its own."""
    pack: list[Run] = []
    size = 0
    for run in runs:
        if pack and size + len(run.records) > limit:
            yield pack
            pack, size = [], 0
        pack.append(run)
        size += len(run.records)
    if pack:
        yield pack


def group_header(records: Inputs) -> Header:
    """Return the header that names a group by its first and last offset; the group has no gaps in its partition."""
    return GROUP_HEADER, f"{records.offsets[0]}-{records.offsets[-1]}".encode()


class GroupTooSmallError(StreamMaskerError):
    """A group has too few records to be masked. ``lacking``: the least number of further records that it needs."""

    def __init__(self, lacking: int) -> None:
        super().__init__(f"the group has too few records that can be masked: it needs at least {lacking} more")
        self.lacking = lacking
