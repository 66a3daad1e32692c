"""Records of several partitions masked at once: what a call costs is paid once, and each record's noise is its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Protocol, TypeVar

import numpy as np

from stream_masker.core.dtypes import Int64Array, UInt64Array
from stream_masker.core.random.keys import Keys
from stream_masker.pipeline.records import Inputs


class Sized(Protocol):
    """What has records."""

    @property
    def records(self) -> Inputs: ...


T = TypeVar("T", bound=Sized)


def pack_runs(runs: Iterable[T], most: int) -> Iterator[list[T]]:
    """Runs in their order, as many at a time as have no more than ``most`` records together; one at least."""
    pack: list[T] = []
    size = 0
    for run in runs:
        if pack and size + len(run.records) > most:
            yield pack
            pack, size = [], 0
        pack.append(run)
        size += len(run.records)
    if pack:
        yield pack


class SeveralKeys(Keys):
    """The keys of several sources' records, one source after the other."""

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
            mine = np.flatnonzero(owners == number)
            words[mine] = source.words(lane, rows[mine] - start)
        return words
