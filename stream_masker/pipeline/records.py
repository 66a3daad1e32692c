"""The records of the pipeline: its input, and the outcomes of masking.

Batches are columnar, so that few Python objects are created for each record. Single records are named tuples.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain
from typing import Any, Final, NamedTuple, TypeAlias

from stream_masker.core.batch import Distortion
from stream_masker.core.statistics.counts import Counts

Header: TypeAlias = tuple[str, bytes | None]

OWN_HEADERS: Final = "stream-masker-"
"""The prefix of the names of this service's own headers. Other headers with it are never kept."""

VERSION_HEADER: Final = OWN_HEADERS + "version"
MECHANISM_HEADER: Final = OWN_HEADERS + "mechanism"
CONFIGURATION_HEADER: Final = OWN_HEADERS + "configuration"
GROUP_HEADER: Final = OWN_HEADERS + "group"
"""Names a group by its first and last offset; the group has no gaps in its partition."""


def stamp(statistics_version: int, mechanism: str, configuration: str) -> list[Header]:
    """Return the headers that state how a record was masked; ``configuration``: the configuration's hash."""
    values = (str(statistics_version), mechanism, configuration)
    names = (VERSION_HEADER, MECHANISM_HEADER, CONFIGURATION_HEADER)
    return [(name, value.encode()) for name, value in zip(names, values, strict=True)]


COLUMNS: Final = ("offsets", "values", "keys", "timestamps", "headers")
"""The columns of ``Inputs`` and ``Result``."""

TALLIES: Final = ("emptied", "suppressed", "generalized")
"""What is counted beside blocks: the number of values that a transform could not treat and removed, by configured path;
of unknown codes that were removed, or masked as the concept of their prefix, by attribute."""


def tallies(parts: Sequence[Any]) -> dict[str, Any]:
    """Return the sum of each of ``TALLIES`` over parts that have them."""
    return {name: sum((Counter(getattr(part, name)) for part in parts), Counter()) for name in TALLIES}


def rejections(parts: Sequence[Any], sizes: Sequence[int]) -> dict[int, Rejected]:
    """Return the rejections of consecutive parts of these sizes, by the index from the first record on."""
    starts = accumulate(sizes, initial=0)
    return {s + k: one for s, part in zip(starts, parts, strict=False) for k, one in part.rejected.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """n records of one partition as columns, in the order of their offsets.

    values: None for tombstones; timestamps: milliseconds since the epoch, -1 for none; headers: may be empty if the
    plan does not use them (``RecordMasker.reads_headers``).
    """

    offsets: Sequence[int]
    values: Sequence[bytes | None]
    keys: Sequence[bytes | None]
    timestamps: Sequence[int]
    headers: Sequence[Sequence[Header]] = ()

    def __len__(self) -> int:
        return len(self.offsets)

    def part(self, start: int, end: int) -> Inputs:
        """Return the records ``start`` to ``end`` (exclusive)."""
        return Inputs(**{name: getattr(self, name)[start:end] for name in COLUMNS})


class Masked(NamedTuple):
    """A masked record. value: None for a tombstone."""

    offset: int
    value: bytes | None
    key: bytes | None
    headers: list[Header]
    timestamp: int


class Rejected(NamedTuple):
    """A record that cannot be masked: reason and place, never a value. field: the configured path of the cause."""

    offset: int
    reason: str
    field: str | None = None


def rejected_part(rejected: Mapping[int, Rejected], start: int, end: int) -> dict[int, Rejected]:
    """Return the rejections of the records ``start`` to ``end`` (exclusive), by their index from ``start`` on."""
    return {index - start: one for index, one in rejected.items() if start <= index < end}


RecordOutcome: TypeAlias = Masked | Rejected


@dataclass(frozen=True, slots=True)
class Block:
    """The counts of consecutive records of one partition. They do not show which value replaced which.

    original, masked: the counts before and after masking; distortions: one for each attribute; timestamp: of the latest
    record, in milliseconds since the epoch; unchanged: the number of counted records that have a value, none of which
    masking changed.
    """

    topic: str
    partition: int
    first_offset: int
    last_offset: int
    timestamp: int
    original: Counts
    masked: Counts
    distortions: tuple[Distortion, ...]
    unchanged: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The outcomes of n records as columns, in the order of the input, and their counts as blocks.

    rejected: by index; the other columns of rejected records have no meaning; values: None for a tombstone; headers:
    records with equal headers may share one list, which must not be modified; the rest: see ``TALLIES``.
    """

    offsets: Sequence[int]
    values: Sequence[bytes | None]
    keys: Sequence[bytes | None]
    headers: Sequence[list[Header]]
    timestamps: Sequence[int]
    rejected: Mapping[int, Rejected]
    blocks: Sequence[Block]
    emptied: Mapping[str, int] = field(default_factory=dict)
    suppressed: Mapping[str, int] = field(default_factory=dict)
    generalized: Mapping[str, int] = field(default_factory=dict)

    @property
    def outcomes(self) -> list[RecordOutcome]:
        """One outcome for each record."""
        masked = map(Masked, self.offsets, self.values, self.keys, map(list, self.headers), self.timestamps)
        return [self.rejected.get(index, outcome) for index, outcome in enumerate(masked)]

    @classmethod
    def joined(cls, parts: Sequence[Result]) -> Result:
        """Return the result of consecutive records that were masked separately."""
        if len(parts) == 1:
            return parts[0]
        columns: dict[str, Any] = {name: _all(getattr(part, name) for part in parts) for name in COLUMNS}
        return cls(
            **columns,
            rejected=rejections(parts, [len(part.offsets) for part in parts]),
            blocks=_all(part.blocks for part in parts),
            **tallies(parts),
        )


def _all(columns: Iterable[Sequence[Any]]) -> list[Any]:
    return list(chain.from_iterable(columns))
