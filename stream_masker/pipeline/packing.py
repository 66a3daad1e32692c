"""Packing: runs of several partitions are masked in one call, which saves the fixed costs of a call.

Every record keeps the noise of its own partition and offset.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Protocol, TypeVar

import numpy as np

from stream_masker.core.dtypes import Int64Array, UInt64Array
from stream_masker.core.random.keys import Keys
from stream_masker.pipeline.records import Inputs


class HasRecords(Protocol):
    """A run of records."""

    @property
    def records(self) -> Inputs: ...


T = TypeVar("T", bound=HasRecords)


def pack_runs(runs: Iterable[T], limit: int) -> Iterator[list[T]]:
    """Yield packs of consecutive runs with at most ``limit`` records in total; a larger run is a pack of its own."""
    pack: list[T] = []
    size = 0
    for run in runs:
        if pack and size + len(run.records) > limit:
            yield pack
            pack, size = [], 0
        pack.append(run)
        size += len(run.records)
    if pack:
        yield pack


class ConcatenatedKeys(Keys):
    """The keys of several sources, one source after another."""

    def __init__(self, sources: Sequence[Keys]) -> None:
        self._sources = sources
        self._starts = list(accumulate(map(len, sources), initial=0))

    def __len__(self) -> int:
        return self._starts[-1]

    def words(self, lane: int, rows: Int64Array | None = None) -> UInt64Array:
        if rows is None:
            return np.concatenate([source.words(lane) for source in self._sources])
        words = np.empty((len(rows), 8), np.uint64)
        owners = np.searchsorted(self._starts, rows, side="right") - 1
        for number, (source, start) in enumerate(zip(self._sources, self._starts, strict=False)):
            own = np.flatnonzero(owners == number)
            words[own] = source.words(lane, rows[own] - start)
        return words
