"""The records of the pipeline: its input, and the outcomes of masking.

Batches are columnar, so that few Python objects are created for each record.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from stream_masker.core.batch import Distortion
from stream_masker.core.statistics.counts import Counts
from stream_masker.pipeline.reasons import Rejected

Header: TypeAlias = tuple[str, bytes | None]

OWN_HEADERS: Final = "stream-masker-"
"""The prefix of the names of this service's own headers. Other headers with it are never kept."""

VERSION_HEADER: Final = OWN_HEADERS + "version"
MECHANISM_HEADER: Final = OWN_HEADERS + "mechanism"
CONFIGURATION_HEADER: Final = OWN_HEADERS + "configuration"
GROUP_HEADER: Final = OWN_HEADERS + "group"
"""Names a group by its first and last offset; the group has no gaps in its partition."""


COLUMNS: Final = ("offsets", "values", "keys", "timestamps", "headers")
"""The columns of ``Inputs`` and ``Result``."""

Tally: TypeAlias = Counter[tuple[str, str]]
"""What is counted beside blocks: the number of values that a transform could not treat and removed, by ``("emptied",
configured path)``; of unknown codes that were removed, by ``("suppressed", attribute)``, or masked as the concept of
their prefix, by ``("generalized", attribute)``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """n records as columns: those of one partition in the order of their offsets.

    values: None for tombstones; timestamps: milliseconds since the epoch, -1 for none; headers: may be empty if the
    plan does not use them (``RecordMasker.reads_headers``).
    """

    offsets: Sequence[int]
    values: Sequence[bytes | None]
    keys: Sequence[bytes | None]
    timestamps: Sequence[int]
    headers: Sequence[Sequence[Header]] = ()


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
class Result(Inputs):
    """The outcomes of n records as the columns of the input after masking, and their counts as blocks.

    rejected: by offset; the columns of rejected records have no meaning; headers: records with equal headers may share
    one list, which must not be modified.
    """

    rejected: Mapping[int, Rejected]
    blocks: Sequence[Block]
    tally: Tally = field(default_factory=Counter)
