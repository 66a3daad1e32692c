"""Statistics versions: the history of the published ones, and the next one, with its drift and risk; without I/O."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, Literal, TypeAlias

from stream_masker.core.mechanisms.base import Mechanism
from stream_masker.core.mechanisms.expected import expected_masks
from stream_masker.core.statistics.counts import Counts
from stream_masker.core.statistics.drift import Drift, Utility, drift_between, utility
from stream_masker.core.statistics.statistics import Statistics, compute_statistics
from stream_masker.errors import StatisticsError
from stream_masker.pipeline.messages import MESSAGE_FORMAT, BlockRange, StatisticsMessage, StatisticsSource, Taxonomies
from stream_masker.pipeline.risk import RiskLimits, VersionRisk, assess_version, best_guess, guess_chances
from stream_masker.pipeline.window import Window

DataKind: TypeAlias = Literal["original", "masked"]

KEPT_VERSIONS: Final = 1_000
"""The number of versions that stay on the topic besides the baseline."""

MIN_VARIANCE, MIN_VARIANCE_SHARE = 0.001, 0.25
"""The least sVar of an attribute, and the least one as a share of the baseline's. Noise of a tiny variance leaves
values as they are, and a window that is full of one event would take the noise from all others."""

COMPARISONS: Final = 3
"""The verdicts of a version: on its drift from the previous one and from the baseline, and on its masks."""


def check_floor(statistics: Statistics, baseline: Statistics | None = None) -> None:
    """Raise StatisticsError if the variance sVar of an attribute is too small, or has collapsed since the baseline."""
    for name, variance in statistics.variance.items():
        if variance < MIN_VARIANCE:
            raise StatisticsError(
                f"{name}: the window's variance is below {MIN_VARIANCE:g}: its noise would hide nothing"
            )
        if baseline is not None and variance < MIN_VARIANCE_SHARE * baseline.variance.get(name, 0.0):
            raise StatisticsError(
                f"{name}: the window's variance is below {MIN_VARIANCE_SHARE:.0%} of the baseline's, version "
                f"{baseline.version}: the window may be full of one event"
            )


def put_in_force(message: StatisticsMessage, mechanism: Mechanism) -> None:
    """Mask with a version from now on. Raises StatisticsError for another mechanism's, or as ``check_floor`` does."""
    check_floor(message.statistics)
    mechanism.restore(message.snapshot)


def shown(exact: Statistics, taxonomies: Taxonomies, least: int) -> Statistics:
    """Return statistics as people may see them: without counts of single concepts, and without shares of few values.

    ``least``: the number of values of which people may know. sMean is an empty text if fewer values are equal to it or
    below it. Figures of a whole window, such as sVar, are exact.
    """
    means = {}
    for name, values in exact.values.items():
        tau, mean = taxonomies[name], exact.mean[name]
        of_mean = sum(rows for code, rows in values.items() if mean in tau.ancestors_of(code))
        means[name] = mean if of_mean >= least else ""
    return replace(exact, mean=means, values={})


@dataclass(frozen=True, slots=True)
class Subject:
    """What is calibrated, and how its versions are published.

    mechanism: a new one, which stays without statistics; alpha: each attribute's noise level; configuration: the hash
    in published versions; secret_id: of the masking secret that workers must have; min_records: the least number of
    values of which people may know; limits: of the risk.
    """

    mechanism: Mechanism
    alpha: Mapping[str, float]
    configuration: str
    secret_id: str | None = None
    min_records: int = 1
    limits: RiskLimits = field(default_factory=RiskLimits)


@dataclass
class History:
    """The versions on the statistics topic. Versions that do not fit the subject are ignored, but keep their numbers.

    newest: the highest version number; latest: the newest version that fits; windowed: the blocks of the newest version
    that fits and was computed from blocks; baseline: the newest version that is its own baseline, or the first one that
    fits and was not computed from a sample; refused: how many versions did not fit; unauthentic: how many messages were
    not authentic, by cause.
    """

    subject: Subject
    newest: int = 0
    latest: StatisticsMessage | None = None
    windowed: BlockRange | None = None
    baseline: StatisticsMessage | None = None
    refused: int = 0
    unauthentic: Counter[str] = field(default_factory=Counter)

    def add(self, version: int, message: StatisticsMessage | None) -> None:
        """Add the next version, None for one that cannot be read. One that is not newer than all others is ignored."""
        if version <= self.newest:
            return
        self.newest = version
        if message is None or not message.fits(self.subject.mechanism):
            self.refused += 1
            return
        self.latest = message
        self.windowed = message.blocks or self.windowed
        if message.source != "bootstrap" and (self.baseline is None or message.baseline == message.version):
            self.baseline = message

    @property
    def expiring(self) -> int | None:
        """The version to remove with the next one, unless it is the baseline or the latest one that fits."""
        version, needed = self.newest + 1 - KEPT_VERSIONS, (self.baseline, self.latest)
        return version if version > 0 and all(one is None or one.version != version for one in needed) else None


@dataclass(frozen=True, slots=True)
class Publish:
    """The next version, to be published together with its report.

    shown: the statistics of the original window, and of the masked one if it has masked values, as people may see them;
    previous, baseline: the drift from these versions; expired: a version to remove at the same time; counts: of the
    original window, None if they are not known; utility: of the masked window; unchanged, unchanged_records: the shares
    of each attribute's values and of records that masking did not change. These are None if they are not of a window.
    """

    message: StatisticsMessage
    shown: Mapping[DataKind, Statistics]
    previous: Drift | None
    baseline: Drift | None
    expired: int | None
    counts: Counts | None = None
    utility: Utility | None = None
    unchanged: Mapping[str, float] | None = None
    unchanged_records: float | None = None

    @property
    def report(self) -> dict[str, Any]:
        """The message on the drift topic, JSON-serialisable: drift and utility are None where there is none."""
        found = {"previous": self.previous, "baseline": self.baseline, "utility": self.utility}
        return {
            "format": MESSAGE_FORMAT,
            "version": self.message.version,
            "published": self.message.published,
            **{name: one and one.to_dict() for name, one in found.items()},
            "window": {"records": self.shown["original"].records},
        }


class VersionPlanner:
    """Computes the next version from a window, a sample or a snapshot. Call ``published`` once it is published.

    The result depends only on the arguments and the versions in ``history``. The latest version and the
    baseline are discarded if they cannot be used, so that a defective one does not end every calibrator.
    """

    def __init__(self, subject: Subject, history: History) -> None:
        self.subject = subject
        self.history = history
        self.shown = partial(shown, taxonomies=subject.mechanism.taxonomies, least=subject.min_records)
        self._guessed: Mapping[str, float] | None = None if history.latest is None else history.latest.guessed
        if history.baseline is not None and self._restored(history.baseline) is None:
            history.baseline = None
        restored = None if history.latest is None else self._restored(history.latest)
        if history.latest is not None and restored is None:
            history.latest, history.refused = None, history.refused + 1
        self._mechanism = restored or copy.copy(subject.mechanism)

    def _restored(self, message: StatisticsMessage) -> Mechanism | None:
        """Return a mechanism with the statistics of a version in force; None if it cannot use them."""
        mechanism = copy.copy(self.subject.mechanism)
        with suppress(Exception):  # of any defect
            mechanism.restore(message.snapshot)
            return mechanism if mechanism.statistics.version == message.version else None
        return None

    def on_window(self, window: Window, now: int) -> Publish:
        """Return the next version, from a window of blocks. now: milliseconds since the epoch.

        Raises StatisticsError if an attribute has no value in the window, or if the variances are below the floor.
        """
        total = window.total
        original, masked = self._compute(total.original), self._masked(total.masked)
        publish = self._publish(original, now, "blocks", total.original, window.range)
        masking = dict(zip(self._mechanism.attributes, total.distortions, strict=True))
        publish = replace(
            publish,
            unchanged={name: each.share(each.unchanged) for name, each in masking.items()},
            unchanged_records=total.unchanged / total.original.records,
        )
        if masked is None:
            return publish
        expected = expected_masks(self._mechanism.with_statistics(original, total.original), total.original)
        kept = utility(
            original,
            masked,
            total.distortions,
            self.subject.alpha,
            self._mechanism.distances,
            expected=None if expected is None else self._masked(expected),
            counts=total.masked,
            comparisons=COMPARISONS,
        )
        return replace(publish, shown={**publish.shown, "masked": self.shown(masked)}, utility=kept)

    def on_sample(self, counts: Counts, now: int) -> Publish:
        """Return the first version, from a sample of the input. Raises StatisticsError as ``on_window`` does."""
        return self._publish(self._compute(counts), now, "bootstrap", counts)

    def on_snapshot(self, snapshot: StatisticsMessage, now: int, *, baseline: bool = False) -> Publish:
        """Return the next version, with the statistics and chances of another message.

        It is one that was not published, or the latest version, which becomes one for the secret that workers must
        have. ``baseline``: whether drift is measured against it from now on. Raises StatisticsError for another
        mechanism's.
        """
        self._mechanism.restore(snapshot.snapshot)
        self._guessed = snapshot.guessed
        statistics = replace(self._mechanism.statistics, version=self._next)
        publish = self._publish(statistics, now, snapshot.source, blocks=snapshot.blocks)
        since = self._next if baseline else publish.message.baseline
        return replace(publish, message=replace(publish.message, baseline=since))

    @property
    def secret_differs(self) -> bool:
        """Whether the latest version does not have the id of the secret that workers must have."""
        latest = self.history.latest
        return latest is not None and latest.secret_id != self.subject.secret_id

    def assess(self, publish: Publish) -> VersionRisk | None:
        """Return the risk of a version; None if the counts of its window are not known.

        It takes several times as long as the statistics do.
        """
        statistics, counts = publish.message.statistics, publish.counts
        if counts is None:
            return None
        version = assess_version(self._mechanism, statistics, counts, self.subject.limits)
        known = self._guessed or guess_chances(self._mechanism, counts, version.risk)
        self._guessed = {**known, self._mechanism.name: best_guess(version.risk)}
        return version

    def with_chances(self, publish: Publish) -> Publish:
        """Return a version whose risk was assessed, with the chance of the best guess of a code."""
        return replace(publish, message=replace(publish.message, guessed=self._guessed))

    def published(self, publish: Publish) -> None:
        """Add a version that has been published to the history. The concepts observed before stay observed."""
        self.history.add(publish.message.version, publish.message)
        self._mechanism.restore(publish.message.snapshot)

    def _compute(self, counts: Counts) -> Statistics:
        """Compute the statistics of counts. Raises StatisticsError, also if their variances are below the floor."""
        statistics, baseline = self._mechanism.compute(counts, version=self._next), self.history.baseline
        check_floor(statistics, None if baseline is None else baseline.statistics)
        return statistics

    def _masked(self, counts: Counts) -> Statistics | None:
        """Return the statistics after masking; None if an attribute has no masked value."""
        if not all(column.rows for column in counts.values):
            return None
        return compute_statistics(counts, self._mechanism.attributes, self._mechanism.distances, version=self._next)

    @property
    def _next(self) -> int:
        return self.history.newest + 1

    def _publish(
        self,
        statistics: Statistics,
        now: int,
        source: StatisticsSource,
        counts: Counts | None = None,
        blocks: BlockRange | None = None,
    ) -> Publish:
        """Return a version; counts: of its window, None if they are not known."""
        history, latest = self.history, self.history.latest
        message = StatisticsMessage(
            version=statistics.version,
            configuration=self.subject.configuration,
            published=now,
            source=source,
            blocks=blocks,
            baseline=statistics.version if history.baseline is None else history.baseline.version,
            snapshot=self._mechanism.snapshot_of(statistics),
            secret_id=self.subject.secret_id,
            guessed=self._guessed,
        )
        baseline = previous = self._drift(statistics, latest, counts)
        if history.baseline is not latest:
            baseline = self._drift(statistics, history.baseline, counts)
        return Publish(message, {"original": self.shown(statistics)}, previous, baseline, history.expiring, counts)

    def _drift(self, statistics: Statistics, other: StatisticsMessage | None, counts: Counts | None) -> Drift | None:
        if other is None:
            return None
        distances, least = self._mechanism.distances, self.subject.min_records
        return drift_between(other.statistics, statistics, distances, counts, comparisons=COMPARISONS, shown=least)
