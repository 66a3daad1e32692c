"""The statistics versions on their topic: the newest, the baseline, those that expire, and the numbers in use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from stream_masker.core.context import NO_CONTEXT, Context
from stream_masker.core.distance import Distance
from stream_masker.pipeline.wire.chunks import Chunk, tombstones
from stream_masker.pipeline.wire.fields import Taxonomies
from stream_masker.pipeline.wire.statistics import BlockRange, StatisticsMessage, StatisticsSource

SAMPLED: tuple[StatisticsSource, ...] = ("bootstrap",)
"""Sources of versions that do not become the baseline."""


MAX_VERSION_JUMP: Final = 1_000_000
"""The maximum distance of a version above the newest one.

Without this limit, a wrong, very high number would make all later versions older, and the calibrator would remove the
versions before it.
"""


def is_jump(version: int, newest: int, baseline: int | None = None) -> bool:
    """Return whether a version is too far above the newest known one (0: none is known, and any number is allowed).

    The baseline stays on the topic forever. A version may be far above it if nothing else is left.
    """
    return newest > 0 and version - newest > MAX_VERSION_JUMP and newest != baseline


@dataclass(frozen=True, slots=True)
class Subject:
    """What is calibrated: a mechanism by name, and each attribute's taxonomy, distance and noise level.

    All mappings have the same attributes in the same order. configuration: the hash in published versions; settings:
    the mutable part of that configuration, None if it is not published and each worker keeps its own; numeric: the
    names of the numeric attributes; secret_id: of the masking secret that workers must have, None if the calibrator
    does not know it; context: that of the records.
    """

    mechanism: str
    configuration: str
    taxonomies: Taxonomies
    distances: Mapping[str, Distance]
    alpha: Mapping[str, float]
    settings: Mapping[str, Any] | None = None
    numeric: tuple[str, ...] = ()
    secret_id: str | None = None
    context: Context = NO_CONTEXT

    @property
    def attributes(self) -> tuple[str, ...]:
        return tuple(self.taxonomies)


@dataclass
class History:
    """The versions on the statistics topic. Versions that do not fit the subject are ignored, but keep their numbers.

    newest: the highest version number; latest: the newest version that fits; windowed: the blocks of the newest version
    that fits and was computed from blocks; baseline: the pinned version, or the first one that fits and was not
    computed from a sample; versions: all numbers on the topic; chunks: the number of chunks of versions that have
    several; refused: how many versions did not fit; unauthentic: how many messages were not authentic, by cause.
    """

    subject: Subject
    pinned: int | None = None
    newest: int = 0
    latest: StatisticsMessage | None = None
    windowed: BlockRange | None = None
    baseline: StatisticsMessage | None = None
    versions: set[int] = field(default_factory=set)
    chunks: dict[int, int] = field(default_factory=dict)
    refused: int = 0
    unauthentic: Counter[str] = field(default_factory=Counter)

    def add(self, message: StatisticsMessage, *, chunks: int = 0) -> None:
        """Add the next version. A version that is not newer than all others, or is a jump, changes nothing."""
        if message.version <= self.newest:
            return
        if is_jump(message.version, self.newest, message.baseline):
            self.refused += 1
            return
        if not message.fits(self.subject.mechanism, self.subject.taxonomies):
            self.refuse(message.version, chunks=chunks)
            return
        self._reserve(message.version, chunks)
        self.latest = message
        self.windowed = message.blocks or self.windowed
        if self._is_baseline(message):
            self.baseline = message

    def _is_baseline(self, message: StatisticsMessage) -> bool:
        if self.pinned is not None:
            return message.version == self.pinned
        return self.baseline is None and message.source not in SAMPLED

    def refuse(self, version: int, *, chunks: int = 0) -> None:
        """Add the number of a version that cannot be used, unless it is a jump."""
        self.refused += 1
        if not is_jump(version, self.newest):
            self._reserve(version, chunks)

    def _reserve(self, version: int, chunks: int) -> None:
        self.versions.add(version)
        self.newest = max(self.newest, version)
        if chunks:
            self.chunks[version] = chunks

    def refuse_latest(self) -> None:
        """Discard the latest version, because it cannot be used after all."""
        self.latest = None
        self.refused += 1

    def expired(self, keep: int) -> tuple[int, ...]:
        """Return the versions that are older than the newest ``keep``, except for the baseline and the latest that
        fits."""
        kept = {m.version for m in (self.baseline, self.latest) if m is not None} | {self.pinned}
        return tuple(sorted(v for v in self.versions if v <= self.newest - keep and v not in kept))

    def forget(self, versions: Iterable[int]) -> None:
        """Remove versions that are no longer on the topic."""
        for version in versions:
            self.versions.discard(version)
            self.chunks.pop(version, None)

    def removal(self, versions: Iterable[int]) -> tuple[Chunk, ...]:
        """Return the messages that remove versions, with all their chunks, from the topic."""
        return tuple(chunk for version in versions for chunk in tombstones(version, self.chunks.get(version, 0)))
