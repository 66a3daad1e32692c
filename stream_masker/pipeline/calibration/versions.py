"""The next statistics version, with its drift, utility and risk; without I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeAlias

from stream_masker.core.anonymity import unique_share_of_counts
from stream_masker.core.distance import Distance
from stream_masker.core.drift import Drift
from stream_masker.core.mechanisms.base import Mechanism
from stream_masker.core.statistics import compute_statistics
from stream_masker.core.statistics.counts import Counts
from stream_masker.core.statistics.summary import Statistics
from stream_masker.core.utility import Utility, utility
from stream_masker.errors import StatisticsError
from stream_masker.pipeline.calibration.blocks import Sampling, next_sampling_level
from stream_masker.pipeline.calibration.errors import standard_errors
from stream_masker.pipeline.calibration.history import History, Subject
from stream_masker.pipeline.calibration.publication import LabelledConcept, Publication, PublicationSettings
from stream_masker.pipeline.calibration.risk import RiskLimits, VersionRisk, assess_version, check_floor, unknown_risk
from stream_masker.pipeline.calibration.window import CalibrationSettings, MaskingEffect, Window
from stream_masker.pipeline.style import Style, StyleCounts, learned_styles
from stream_masker.pipeline.wire.chunks import Chunk
from stream_masker.pipeline.wire.reports import DriftReport
from stream_masker.pipeline.wire.statistics import BlockRange, StatisticsMessage, StatisticsSource, fingerprints

UNKNOWN_RISK = "the risk of the changed settings is not known before the next window"

DataKind: TypeAlias = Literal["original", "masked"]

EXACT: Final = PublicationSettings(min_records=1)
"""Publish everything, exactly."""


@dataclass(frozen=True, slots=True)
class Publish:
    """The next version, to be published together with its report.

    statistics, report, previous, baseline, utility, masked, means, effect: what people may see, as ``Publication``
    derives it; means: sMean by attribute, of the original and of the masked window; effect: that of masking, None for a
    version that is not from a window of masked records.
    expired: versions to remove at the same time; removal: the messages that remove them. risk: None if it does not
    decide whether the version is published; ``VersionPlanner.assess`` computes it then.
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
    means: Mapping[DataKind, Mapping[str, LabelledConcept]]
    effect: MaskingEffect | None = None
    risk: VersionRisk | None = None


class VersionPlanner:
    """Computes the next version from a window, a sample or a snapshot. Call ``published`` once it is published.

    The result depends only on the arguments and the versions in ``history``. The planner owns ``mechanism``, which must
    be new. If the mechanism cannot restore the latest version, for instance one of another release, that version is
    discarded.
    """

    def __init__(
        self,
        subject: Subject,
        mechanism: Mechanism,
        history: History,
        settings: CalibrationSettings,
        limits: PublicationSettings = EXACT,
        risk_limits: RiskLimits | None = None,
    ) -> None:
        """``limits``: of what is published to people. ``risk_limits``: of disclosure; None computes no risk."""
        self.subject = subject
        self._risk_limits = risk_limits
        self._computed: Statistics | None = None
        self._counts: tuple[Counts | None, Counts | None] = (None, None)
        self._publication = Publication(limits, subject.taxonomies, settings.rollup_depth)
        self.history = history
        self._worker_secret_id: str | None = None
        self.settings = settings
        self._mechanism = mechanism
        if not self._is_usable(history.baseline):
            history.baseline = None
        if not self._is_usable(history.latest):
            history.refuse_latest()
        self._restore()

    def _is_usable(self, message: StatisticsMessage | None) -> bool:
        """Whether the mechanism and the drift can use a version; one with a defect must not end every calibrator."""
        if message is None:
            return True
        try:
            self._mechanism.restore(message.snapshot)
            self._drift(self.shown(message.statistics), message)
        except Exception:  # noqa: BLE001 - of any defect
            return False
        return True

    def on_window(self, window: Window, now: int) -> Publish:
        """Return the next version, from a window of blocks. now: milliseconds since the epoch.

        Raises StatisticsError if an attribute has no value in the window.
        """
        original = self._compute(window.original)
        masked = self._masked(window.masked)
        alpha = self.subject.alpha
        kept = None if masked is None else utility(original, masked, window.distortions, alpha, self._distances)
        sampling = self._sampling(window, original)
        publish = self._publish(
            original,
            now,
            "blocks",
            self._learned(window.styles),
            blocks=window.range,
            kept=kept,
            masked=masked,
            sampling=sampling,
        )
        effect = self._publication.effect(window.effect(self.subject.attributes), window.records)
        return self._assessed(replace(publish, effect=effect), original, window.original, window.masked)

    def on_sample(self, counts: Counts, now: int, styles: Sequence[StyleCounts] = ()) -> Publish:
        """Return the first version, from a sample of the input. Raises StatisticsError as ``on_window`` does."""
        statistics = self._compute(counts)
        publish = self._publish(statistics, now, "bootstrap", self._learned(styles), sampling=self._last_sampling)
        return self._assessed(publish, statistics, counts)

    def on_snapshot(
        self,
        snapshot: Mapping[str, Any],
        now: int,
        source: StatisticsSource = "file",
        styles: Mapping[str, Style] | None = None,
    ) -> Publish:
        """Return the next version, from a mechanism's snapshot and its styles.

        Raises StatisticsError for another mechanism's snapshot.
        """
        self._mechanism.restore(snapshot)
        statistics = self._mechanism.statistics.with_version(self.history.newest + 1)
        return self._publish(statistics, now, source, styles or {}, sampling=self._last_sampling)

    @property
    def settings_differ(self) -> bool:
        """Whether the latest version has other settings than the subject."""
        latest, subject = self.history.latest, self.subject
        if latest is None or subject.settings is None:
            return False
        same = latest.configuration == subject.configuration
        return not same if latest.settings is None else latest.settings != subject.settings

    def on_settings(self, now: int) -> Publish:
        """Return the latest statistics as the next version, with the subject's settings.

        Raises StatisticsError if there are no statistics.
        """
        latest = self.history.latest
        if latest is None:
            raise StatisticsError("there are no statistics yet that could be published with other settings")
        statistics, publish = self._repeated(latest, now)
        return self._assessed(publish, statistics, *self._counts)

    def on_sampling(self, window: Window, now: int) -> Publish:
        """Return the latest statistics as the next version, by which workers count samples instead of all records.

        It keeps the settings of that version. This takes far less time than the statistics of the window.

        ``window``: one for which ``begins_sampling``.
        """
        latest = self.history.latest
        assert latest is not None, "sampling begins after the first version"
        return self._again(replace(latest, sampling=Sampling(self._next_level(window), span=window.span)), now)

    def _repeated(self, latest: StatisticsMessage, now: int) -> tuple[Statistics, Publish]:
        """Return the latest statistics as the next version, and that version with the subject's settings."""
        statistics = latest.statistics.with_version(self.history.newest + 1)
        source, styles = latest.source, latest.styles
        return statistics, self._publish(
            statistics, now, source, styles, blocks=latest.blocks, sampling=latest.sampling
        )

    def _again(self, latest: StatisticsMessage, now: int) -> Publish:
        """Return the latest statistics as the next version, with their settings."""
        _, publish = self._repeated(latest, now)
        kept = replace(publish.message, configuration=latest.configuration, settings=latest.settings)
        return replace(publish, message=kept)

    @property
    def secret_id(self) -> str | None:
        """The id of the masking secret that workers must have: the subject's, that in force, or that of a worker."""
        latest = self.history.latest
        return self.subject.secret_id or (latest and latest.secret_id) or self._worker_secret_id

    def on_worker(self, secret_id: str | None) -> None:
        """Note the id of the secret with which a worker masks; the first one counts if no other is known."""
        self._worker_secret_id = self._worker_secret_id or secret_id

    @property
    def secret_differs(self) -> bool:
        """Whether the latest version does not have the id of the secret that workers must have."""
        latest = self.history.latest
        return latest is not None and latest.secret_id != self.secret_id

    def on_secret(self, now: int) -> Publish:
        """Return the latest statistics as the next version, with the id of the secret that workers must have."""
        latest = self.history.latest
        assert latest is not None, "there is a version if its secret differs"
        return self._again(latest, now)

    def reconfigure(self, subject: Subject, mechanism: Mechanism) -> None:
        """Continue with other settings; ``mechanism``: a new one, with these settings."""
        self.subject, self._mechanism = subject, mechanism
        self._restore()

    def _assessed(
        self, publish: Publish, statistics: Statistics, counts: Counts | None, masked: Counts | None = None
    ) -> Publish:
        """Return the version, with its risk if that may withhold it.

        ``counts``, ``masked``: those of its window before and after masking, None if they are not known.
        """
        self._computed, self._counts = statistics, (counts, masked)
        if not self.withholds:
            return publish
        risk = self.assess()
        return replace(publish, risk=unknown_risk(UNKNOWN_RISK) if risk is None else risk)

    def assess(self) -> VersionRisk | None:
        """Return the rounded risk of the last version that was computed; None without limits or without its counts.

        It takes several times as long as the statistics do.
        """
        counts, masked = self._counts
        if self._risk_limits is None or counts is None or self._computed is None:
            return None
        assessed = assess_version(self._mechanism, self._computed, counts, self._distances, self._risk_limits)
        unique = {"original": unique_share_of_counts(counts)}
        if masked is not None:
            unique["masked"] = unique_share_of_counts(masked)
        return self._publication.risk(replace(assessed, unique=unique), self._computed.records)

    @property
    def withholds(self) -> bool:
        """Whether a version that crosses a limit of the risk must not be published."""
        return self._risk_limits is not None and self._risk_limits.hold

    def published(self, publish: Publish, *, chunks: int = 0) -> None:
        """Adds a version that has been published to the history, and removes those that have expired with it."""
        self.history.add(publish.message, chunks=chunks)
        self.history.forget(publish.expired)
        self._restore()

    def _restore(self) -> None:
        """Restores the latest version, so that the concepts observed before stay observed."""
        if self.history.latest is not None:
            self._mechanism.restore(self.history.latest.snapshot)

    def _learned(self, counts: Sequence[StyleCounts]) -> Mapping[str, Style]:
        latest = self.history.latest
        return learned_styles(self.subject.attributes, counts, {} if latest is None else latest.styles)

    @property
    def _last_sampling(self) -> Sampling | None:
        latest = self.history.latest
        return None if latest is None or latest.sampling is None else Sampling(latest.sampling.level)

    def _sampling(self, window: Window, original: Statistics) -> Sampling | None:
        """Return which records are counted from now on, and the errors of a window that is a sample; None: all are."""
        settings, level, last = self.settings, window.range.level, self._last_sampling
        if not settings.sampling or (level is None and not window.overflowed):
            return last if settings.sampling else None
        following = self._next_level(window)
        if level is None:
            return Sampling(following, span=window.span)
        errors = standard_errors(window.original, original, self._distances)
        return Sampling(following, 2.0**-level, window.span, errors.variance, errors.correlation)

    def _next_level(self, window: Window) -> int:
        """Return the level from which records should be counted after this window."""
        return next_sampling_level(
            window.records,
            window.range.level,
            window.span,
            window_records=self.settings.window_records,
            window_age=self.settings.window_age,
            period=self.settings.every_seconds,
        )

    def begins_sampling(self, window: Window) -> bool:
        """Whether workers should count samples, because of this window, and the latest version has them count all."""
        if self.history.latest is None or self._last_sampling is not None:
            return False
        return self.settings.sampling and window.overflowed

    def _compute(self, counts: Counts) -> Statistics:
        """Compute the statistics of counts. Raises StatisticsError, also if their variances are below the floor."""
        statistics = self._mechanism.compute(counts, version=self.history.newest + 1)
        if self._risk_limits is not None:
            baseline = self.history.baseline
            check_floor(statistics, None if baseline is None else baseline.statistics, self._risk_limits)
        return statistics

    def _masked(self, counts: Counts) -> Statistics | None:
        """Return the statistics after masking; None if an attribute has no masked value."""
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
        )

    @property
    def _distances(self) -> tuple[Distance, ...]:
        return tuple(self.subject.distances.values())

    def _publish(
        self,
        statistics: Statistics,
        now: int,
        source: StatisticsSource,
        styles: Mapping[str, Style],
        *,
        blocks: BlockRange | None = None,
        kept: Utility | None = None,
        masked: Statistics | None = None,
        sampling: Sampling | None,
    ) -> Publish:
        shown = self.shown(statistics)
        previous = self._drift(shown, self.history.latest)
        baseline = self._drift(shown, self.history.baseline)
        utility = None if kept is None else self._publication.utility(kept, statistics.records)
        expired = self.history.expired(self.settings.keep_versions - 1)
        return Publish(
            message=StatisticsMessage(
                version=statistics.version,
                mechanism=self.subject.mechanism,
                configuration=self.subject.configuration,
                published=now,
                source=source,
                blocks=blocks,
                taxonomies=fingerprints(self.subject.taxonomies),
                baseline=statistics.version if self.history.baseline is None else self.history.baseline.version,
                snapshot=self._mechanism.snapshot_of(statistics),
                settings=self.subject.settings,
                sampling=sampling,
                styles=styles,
                secret_id=self.secret_id,
            ),
            statistics=shown,
            report=DriftReport(
                version=statistics.version,
                published=now,
                previous=None if previous is None else previous.to_dict(),
                baseline=None if baseline is None else baseline.to_dict(),
                utility=None if utility is None else utility.to_dict(),
                records=statistics.records,
                blocks=0 if blocks is None else blocks.count,
            ),
            previous=previous,
            baseline=baseline,
            utility=utility,
            masked=None if masked is None else self.shown(masked),
            expired=expired,
            removal=self.history.removal(expired),
            means={"original": self.means(statistics), "masked": {} if masked is None else self.means(masked)},
        )

    def shown(self, statistics: Statistics) -> Statistics:
        """Return the statistics that may be published to people."""
        return self._publication.statistics(statistics)

    def means(self, statistics: Statistics) -> Mapping[str, LabelledConcept]:
        """sMean of the attributes for which it may be published to people."""
        return self._publication.means(statistics)

    def _drift(self, shown: Statistics, other: StatisticsMessage | None) -> Drift | None:
        if other is None:
            return None
        return self._publication.drift(shown, self.shown(other.statistics), self._distances)
