"""Runs: consecutive records of one partition that are masked together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, islice, pairwise
from typing import Final

from stream_masker.pipeline.records import Header, Inputs, Rejected

BLOCK_RECORDS: Final = 5_000
"""The maximum number of records in a block; a block with large arrays has fewer, so that it fits into a message."""


@dataclass(frozen=True, slots=True)
class Run:
    """Consecutive records of one partition that are masked together and counted in one block.

    unwritable: rejections of records that did not fit their schema once they were masked, by index.
    """

    topic: str
    partition: int
    records: Inputs
    statistics_version: int
    stamp: list[Header]
    unwritable: Mapping[int, Rejected] = field(default_factory=dict)

    def without(self, rejected: Mapping[int, Rejected]) -> Run:
        """Return the run, with further records that are rejected as unwritable."""
        return replace(self, unwritable={**self.unwritable, **rejected})

    def split(self) -> Iterator[Run]:
        """Yield the run as runs of at most ``BLOCK_RECORDS`` records."""
        size = len(self.records)
        for start in range(0, size, BLOCK_RECORDS):
            part = self.records.part(start, start + BLOCK_RECORDS) if size > BLOCK_RECORDS else self.records
            yield replace(self, records=part)


def run_spans(runs: Sequence[Run]) -> Iterator[tuple[Run, tuple[int, int]]]:
    """Yield each run, with the start and end of its records among those of all runs."""
    return zip(runs, pairwise(accumulate((len(run.records) for run in runs), initial=0)), strict=True)


def split_values(values: Iterable[bytes | None]) -> Iterator[Inputs]:
    """Values as records, at most ``BLOCK_RECORDS`` at a time."""
    rest = iter(values)
    while run := list(islice(rest, BLOCK_RECORDS)):
        size = len(run)
        yield Inputs(offsets=range(size), values=run, keys=[None] * size, timestamps=[-1] * size)
