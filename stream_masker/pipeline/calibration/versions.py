"""From windows to published statistics versions, their drift and their utility. Pure: decides, never acts.

``History`` is what the statistics topic says; ``VersionPlanner`` adds the next version to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from stream_masker.core.distance import Distance
from stream_masker.core.drift import Drift, drift_between
from stream_masker.core.mechanisms.base import Mechanism
from stream_masker.core.statistics.compute import compute_statistics
from stream_masker.core.statistics.counts import Counts
from stream_masker.core.statistics.summary import Statistics
from stream_masker.core.statistics.window_statistics import IncrementalStatistics
from stream_masker.core.utility import Utility, utility
from stream_masker.errors import StatisticsError
from stream_masker.pipeline.calibration.window import CalibrationSettings, Window
from stream_masker.pipeline.wire.chunks import Chunk, tombstones
from stream_masker.pipeline.wire.messages import (
    BlockRange,
    DriftReport,
    StatisticsMessage,
    StatisticsSource,
    Taxonomies,
    fingerprints,
)

SAMPLED: tuple[StatisticsSource, ...] = ("bootstrap",)
"""Sources that the first baseline is not taken from."""


@dataclass(frozen=True, slots=True)
class Subject:
    """What is calibrated: the mechanism's name, each attribute's taxonomy, distance and noise level.

    configuration: the hash that published versions carry, and settings the mutable part that goes with it (None: it is
    not published, and each worker keeps its own). Every mapping has the same attributes in the same order.
    numeric: the numeric attributes' names.
    """

    mechanism: str
    configuration: str
    taxonomies: Taxonomies
    distances: Mapping[str, Distance]
    alpha: Mapping[str, float]
    settings: Mapping[str, Any] | None = None
    numeric: tuple[str, ...] = ()

    @property
    def attributes(self) -> tuple[str, ...]:
        return tuple(self.taxonomies)


@dataclass
class History:
    """The statistics topic so far; only versions that fit the subject are used, but every number is taken.

    newest: the highest version; versions: those on the topic; refused: how many were of no use to the subject.
    latest: the newest version that fits; windowed: the newest that fits and was computed from blocks; baseline: the
    pinned version (or the first that fits and is no bootstrap). parts: of the versions that travel in parts, how many.
    """

    subject: Subject
    pinned: int | None = None
    newest: int = 0
    latest: StatisticsMessage | None = None
    windowed: BlockRange | None = None
    baseline: StatisticsMessage | None = None
    versions: set[int] = field(default_factory=set)
    parts: dict[int, int] = field(default_factory=dict)
    refused: int = 0

    def add(self, message: StatisticsMessage, *, parts: int = 0) -> None:
        """Takes the next version, in so many parts; one that is not beyond the newest changes nothing."""
        if message.version <= self.newest:
            return
        if not message.fits(self.subject.mechanism, self.subject.taxonomies):
            self.refuse(message.version, parts=parts)
            return
        self._reserve(message.version, parts)
        self.latest = message
        self.windowed = message.blocks or self.windowed
        if self._is_baseline(message):
            self.baseline = message

    def _is_baseline(self, message: StatisticsMessage) -> bool:
        if self.pinned is not None:
            return message.version == self.pinned
        return self.baseline is None and message.source not in SAMPLED

    def refuse(self, version: int, *, parts: int = 0) -> None:
        """Takes note of a version that is of no use: its number is taken."""
        self.refused += 1
        self._reserve(version, parts)

    def _reserve(self, version: int, parts: int) -> None:
        self.versions.add(version)
        self.newest = max(self.newest, version)
        if parts:
            self.parts[version] = parts

    def give_up(self) -> None:
        """Takes note that the latest version is of no use after all."""
        self.latest = None
        self.refused += 1

    def expired(self, keep: int) -> tuple[int, ...]:
        """Versions that need not be kept beside the newest ``keep``; never the baseline or the latest that fits."""
        kept = {m.version for m in (self.baseline, self.latest) if m is not None} | {self.pinned}
        return tuple(sorted(v for v in self.versions if v <= self.newest - keep and v not in kept))

    def forget(self, versions: Iterable[int]) -> None:
        """Takes note that versions are gone from the topic."""
        for version in versions:
            self.versions.discard(version)
            self.parts.pop(version, None)

    def removal(self, versions: Iterable[int]) -> tuple[Chunk, ...]:
        """The messages that remove versions from the topic, with all their parts."""
        return tuple(piece for version in versions for piece in tombstones(version, self.parts.get(version, 0)))


@dataclass(frozen=True, slots=True)
class Publish:
    """The next version, to be published in one piece with its report.

    ``expired``: versions to remove with it; ``removal``: the messages that do.
    """

    message: StatisticsMessage
    statistics: Statistics
    report: DriftReport
    previous: Drift | None
    baseline: Drift | None
    utility: Utility | None
    masked: Statistics | None
    expired: tuple[int, ...]
    removal: tuple[Chunk, ...]


class VersionPlanner:
    """Computes the next version from a window, a sample or a snapshot. ``published`` is called once it is published.

    What is computed depends on the arguments and the versions in ``history`` alone: ``mechanism`` must be a new one,
    and belongs to this object from now on. A latest version that it cannot restore (of another release, say) is
    given up: it is as if there were none.
    """

    def __init__(self, subject: Subject, mechanism: Mechanism, history: History, settings: CalibrationSettings) -> None:
        self.subject = subject
        self.history = history
        self.settings = settings
        self._mechanism = mechanism
        self._incremental = IncrementalStatistics(self._distances)
        try:
            self._restore()
        except StatisticsError:
            history.give_up()

    def on_window(self, window: Window, now: int) -> Publish:
        """The next version, from blocks; ``now`` in milliseconds.

        Raises StatisticsError when some attribute has no value in the window.
        """
        original = self._compute(window.original)
        masked = self._masked(window.masked)
        gained = None if masked is None else self._utility(original, masked, window)
        return self._publish(original, now, "blocks", window.range, gained, masked)

    def on_sample(self, counts: Counts, now: int) -> Publish:
        """The first version, from a sample of the input. Raises StatisticsError like ``on_window``."""
        return self._publish(self._compute(counts), now, "bootstrap")

    def on_snapshot(self, snapshot: Mapping[str, Any], now: int, source: StatisticsSource = "file") -> Publish:
        """The next version, from a mechanism's snapshot. Raises StatisticsError when it is of another mechanism."""
        self._mechanism.restore(snapshot)
        statistics = self._mechanism.statistics.with_version(self.history.newest + 1)
        return self._publish(statistics, now, source)

    @property
    def unsettled(self) -> bool:
        """Whether the latest version brings other settings than the subject's."""
        latest, subject = self.history.latest, self.subject
        if latest is None or subject.settings is None:
            return False
        same = latest.configuration == subject.configuration
        return not same if latest.settings is None else latest.settings != subject.settings

    def on_settings(self, now: int) -> Publish:
        """The latest statistics again, as the next version, under the subject's settings.

        Raises StatisticsError when there are none.
        """
        latest = self.history.latest
        if latest is None:
            raise StatisticsError("there are no statistics yet to publish under other settings")
        statistics = latest.statistics.with_version(self.history.newest + 1)
        return self._publish(statistics, now, latest.source, latest.blocks)

    def published(self, publish: Publish, *, parts: int = 0) -> None:
        """Takes note that a version is on the topic, in so many parts, and those it expired are not."""
        self.history.add(publish.message, parts=parts)
        self.history.forget(publish.expired)
        self._restore()

    def _restore(self) -> None:
        """Concepts of the latest version remain seen."""
        if self.history.latest is not None:
            self._mechanism.restore(self.history.latest.snapshot)

    def _compute(self, counts: Counts) -> Statistics:
        return self._mechanism.compute(counts, version=self.history.newest + 1)

    def _masked(self, counts: Counts) -> Statistics | None:
        """The statistics of the masked side; None where some attribute has no masked value."""
        if not all(column.rows for column in counts.values):
            return None
        subject, depth = self.subject, self.settings.rollup_depth
        return compute_statistics(
            counts,
            subject.attributes,
            self._distances,
            version=self.history.newest + 1,
            rollup_depth=depth,
            numeric=subject.numeric,
            incremental=self._incremental,
        )

    @property
    def _distances(self) -> tuple[Distance, ...]:
        return tuple(self.subject.distances.values())

    def _utility(self, original: Statistics, masked: Statistics, window: Window) -> Utility:
        return utility(original, masked, window.tallies, self.subject.alpha, self._distances)

    def _publish(
        self,
        statistics: Statistics,
        now: int,
        source: StatisticsSource,
        blocks: BlockRange | None = None,
        gained: Utility | None = None,
        masked: Statistics | None = None,
    ) -> Publish:
        message = self._message(statistics, now, source, blocks)
        previous = self._drift(statistics, self.history.latest)
        baseline = self._drift(statistics, self.history.baseline)
        expired = self.history.expired(self.settings.keep_versions - 1)
        return Publish(
            message=message,
            statistics=statistics,
            report=DriftReport(
                version=message.version,
                published=now,
                previous=None if previous is None else previous.to_dict(),
                baseline=None if baseline is None else baseline.to_dict(),
                utility=None if gained is None else gained.to_dict(),
                records=statistics.records,
                blocks=0 if blocks is None else blocks.count,
            ),
            previous=previous,
            baseline=baseline,
            utility=gained,
            masked=masked,
            expired=expired,
            removal=self.history.removal(expired),
        )

    def _message(
        self, statistics: Statistics, now: int, source: StatisticsSource, blocks: BlockRange | None
    ) -> StatisticsMessage:
        baseline = self.history.baseline
        return StatisticsMessage(
            version=statistics.version,
            mechanism=self.subject.mechanism,
            configuration=self.subject.configuration,
            published=now,
            source=source,
            blocks=blocks,
            taxonomies=fingerprints(self.subject.taxonomies),
            baseline=statistics.version if baseline is None else baseline.version,
            snapshot=self._mechanism.snapshot_of(statistics),
            settings=self.subject.settings,
        )

    def _drift(self, statistics: Statistics, other: StatisticsMessage | None) -> Drift | None:
        return None if other is None else drift_between(statistics, other.statistics, self._distances)
