"""Statistics versions: the history of the published ones, and the next one, with its drift and risk; without I/O."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

from stream_masker.core.context import NO_CONTEXT, Context
from stream_masker.core.distance import Distance
from stream_masker.core.mechanisms.base import Mechanism
from stream_masker.core.risk.law import expected_masks
from stream_masker.core.statistics import compute_statistics
from stream_masker.core.statistics.counts import Counts
from stream_masker.core.statistics.drift import Drift
from stream_masker.core.statistics.summary import Statistics
from stream_masker.core.statistics.utility import Utility, utility
from stream_masker.pipeline.messages import (
    BlockRange,
    DriftReport,
    StatisticsMessage,
    StatisticsSource,
    Taxonomies,
    fingerprints,
)
from stream_masker.pipeline.publication import COMPARISONS, LabelledConcept, Publication
from stream_masker.pipeline.risk import (
    RiskLimits,
    VersionRisk,
    assess_version,
    best_guess,
    check_floor,
    guess_chances,
)
from stream_masker.pipeline.style import Style, StyleCounts, learned_styles
from stream_masker.pipeline.window import CalibrationSettings, MaskingEffect, Window

DataKind: TypeAlias = Literal["original", "masked"]


@dataclass(frozen=True, slots=True)
class Subject:
    """What is calibrated: a mechanism by name, and each attribute's taxonomy, distance and noise level.

    All mappings have the same attributes in the same order. configuration: the hash in published versions; secret_id:
    of the masking secret that workers must have, None if the calibrator does not know it; context: that of the records.
    """

    mechanism: str
    configuration: str
    taxonomies: Taxonomies
    distances: Mapping[str, Distance]
    alpha: Mapping[str, float]
    secret_id: str | None = None
    context: Context = NO_CONTEXT

    @property
    def attributes(self) -> tuple[str, ...]:
        return tuple(self.taxonomies)


@dataclass
class History:
    """The versions on the statistics topic. Versions that do not fit the subject are ignored, but keep their numbers.

    newest: the highest version number; latest: the newest version that fits; windowed: the blocks of the newest version
    that fits and was computed from blocks; baseline: the newest version that is its own baseline, or the first one that
    fits and was not computed from a sample; versions: all numbers on the topic; refused: how many versions did not fit;
    unauthentic: how many messages were not authentic, by cause.
    """

    subject: Subject
    newest: int = 0
    latest: StatisticsMessage | None = None
    windowed: BlockRange | None = None
    baseline: StatisticsMessage | None = None
    versions: set[int] = field(default_factory=set)
    refused: int = 0
    unauthentic: Counter[str] = field(default_factory=Counter)

    def add(self, message: StatisticsMessage) -> None:
        """Add the next version. A version that is not newer than all others changes nothing."""
        if message.version <= self.newest:
            return
        if not message.fits(self.subject.mechanism, self.subject.taxonomies):
            self.refuse(message.version)
            return
        self._reserve(message.version)
        self.latest = message
        self.windowed = message.blocks or self.windowed
        if message.source != "bootstrap" and (self.baseline is None or message.baseline == message.version):
            self.baseline = message

    def refuse(self, version: int) -> None:
        """Add the number of a version that cannot be used."""
        self.refused += 1
        self._reserve(version)

    def _reserve(self, version: int) -> None:
        self.versions.add(version)
        self.newest = max(self.newest, version)

    def expired(self, keep: int) -> tuple[int, ...]:
        """Return the versions that are older than the newest ``keep``, except for the baseline and the latest that
        fits."""
        kept = {m.version for m in (self.baseline, self.latest) if m is not None}
        return tuple(sorted(v for v in self.versions if v <= self.newest - keep and v not in kept))

    def forget(self, versions: Iterable[int]) -> None:
        """Remove versions that are no longer on the topic."""
        self.versions.difference_update(versions)


@dataclass(frozen=True, slots=True)
class Publish:
    """The next version, to be published together with its report.

    statistics, report, previous, baseline, utility, masked, means, effect: what people may see, as ``Publication``
    derives it; means: sMean by attribute, of the original and of the masked window; effect: that of masking, None for a
    version that is not from a window of masked records. expired: versions to remove at the same time.
    """

    message: StatisticsMessage
    statistics: Statistics
    report: DriftReport
    previous: Drift | None
    baseline: Drift | None
    utility: Utility | None
    masked: Statistics | None
    expired: tuple[int, ...]
    means: Mapping[DataKind, Mapping[str, LabelledConcept]]
    effect: MaskingEffect | None = None


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
        *,
        min_records: int = 1,
        limits: RiskLimits | None = None,
    ) -> None:
        """``min_records``: of ``Publication``. ``limits``: of the risk; None computes no risk."""
        self.subject = subject
        self.history = history
        self._limits = limits
        self._settings = settings
        self._publication = Publication(subject.taxonomies, min_records)
        self._mechanism = mechanism
        self._computed: tuple[Statistics, Counts] | None = None
        self._worker_secret_id: str | None = None
        self._guessed: Mapping[str, float] | None = None if history.latest is None else history.latest.guessed
        if not self._is_usable(history.baseline):
            history.baseline = None
        if not self._is_usable(history.latest):
            history.latest, history.refused = None, history.refused + 1
        self._restore()

    def _is_usable(self, message: StatisticsMessage | None) -> bool:
        """Whether the mechanism and the drift can use a version. A defective version must not end every calibrator."""
        if message is None:
            return True
        try:
            self._mechanism.restore(message.snapshot)
            self._drift(message.statistics, message)
        except Exception:  # noqa: BLE001 - of any defect
            return False
        return True

    def on_window(self, window: Window, now: int) -> Publish:
        """Return the next version, from a window of blocks. now: milliseconds since the epoch.

        Raises StatisticsError if an attribute has no value in the window, or if the variances are below the floor.
        """
        original, masked = self._compute(window.original), self._masked(window.masked)
        kept = None
        if masked is not None:
            kept = utility(
                original,
                masked,
                window.distortions,
                self.subject.alpha,
                self._distances,
                expected=self._expected(original, window.original),
                counts=window.masked,
                comparisons=COMPARISONS,
            )
        styles = self._learned(window.styles)
        publish = self._publish(original, now, "blocks", styles, window.original, window.range, kept, masked)
        return replace(publish, effect=window.effect(self.subject.attributes))

    def on_sample(self, counts: Counts, now: int, styles: Sequence[StyleCounts] = ()) -> Publish:
        """Return the first version, from a sample of the input. Raises StatisticsError as ``on_window`` does."""
        return self._publish(self._compute(counts), now, "bootstrap", self._learned(styles), counts)

    def on_snapshot(
        self,
        snapshot: Mapping[str, Any],
        now: int,
        source: StatisticsSource = "file",
        styles: Mapping[str, Style] | None = None,
        *,
        guessed: Mapping[str, float] | None = None,
        baseline: bool = False,
    ) -> Publish:
        """Return the next version, from a mechanism's snapshot and its styles; ``baseline``: whether it is a new one.
        ``guessed``: see ``StatisticsMessage``.

        Raises StatisticsError for another mechanism's snapshot.
        """
        self._mechanism.restore(snapshot)
        self._guessed = guessed
        statistics = self._mechanism.statistics.with_version(self._next)
        return self._publish(statistics, now, source, styles or {}, renewed=baseline)

    def on_secret(self, now: int) -> Publish:
        """Return the latest statistics as the next version, with the id of the secret that workers must have."""
        latest = self.history.latest
        assert latest is not None, "there is a version if its secret differs"
        statistics = latest.statistics.with_version(self._next)
        return self._publish(statistics, now, latest.source, latest.styles, None, latest.blocks)

    @property
    def secret_id(self) -> str | None:
        """The id of the masking secret that workers must have: of the subject, the version in force, or a worker."""
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

    def assess(self) -> VersionRisk | None:
        """Return the risk of the last version that was computed; None without limits or without its counts.

        It takes several times as long as the statistics do.
        """
        if self._limits is None or self._computed is None:
            return None
        statistics, counts = self._computed
        assessed = assess_version(self._mechanism, statistics, counts, self._distances, self._limits)
        shown = self._publication.risk(assessed, statistics.records)
        if shown.risk is not None:
            known = self._guessed or guess_chances(self._mechanism, counts, shown.risk, quick=True)[0]
            self._guessed = {**known, self._mechanism.name: best_guess(shown.risk)}
        return shown

    @property
    def withholds(self) -> bool:
        """Whether a version that crosses a limit of the risk must not be published."""
        return self._limits is not None and self._limits.hold

    def published(self, publish: Publish) -> None:
        """Add a version that has been published to the history, and remove those that have expired with it."""
        self.history.add(publish.message)
        self.history.forget(publish.expired)
        self._restore()

    def shown(self, statistics: Statistics) -> Statistics:
        """Return the statistics that may be published to people."""
        return self._publication.statistics(statistics)

    def means(self, statistics: Statistics) -> Mapping[str, LabelledConcept]:
        """Return sMean of the attributes for which it may be published to people."""
        return self._publication.means(statistics)

    def _restore(self) -> None:
        """Restore the latest version, so that the concepts observed before stay observed."""
        if self.history.latest is not None:
            self._mechanism.restore(self.history.latest.snapshot)

    def _learned(self, counts: Sequence[StyleCounts]) -> Mapping[str, Style]:
        latest = self.history.latest
        return learned_styles(self.subject.attributes, counts, {} if latest is None else latest.styles)

    def _compute(self, counts: Counts) -> Statistics:
        """Compute the statistics of counts. Raises StatisticsError, also if their variances are below the floor."""
        statistics = self._mechanism.compute(counts, version=self._next)
        if self._limits is not None:
            baseline = self.history.baseline
            check_floor(statistics, None if baseline is None else baseline.statistics)
        self._computed = statistics, counts
        return statistics

    def _masked(self, counts: Counts) -> Statistics | None:
        """Return the statistics after masking; None if an attribute has no masked value."""
        if not all(column.rows for column in counts.values):
            return None
        return compute_statistics(
            counts,
            self.subject.attributes,
            self._distances,
            version=self._next,
        )

    def _expected(self, original: Statistics, counts: Counts) -> Statistics | None:
        """Return the statistics that the window's masks are expected to have; None if they are not known."""
        mechanism = self._mechanism.with_statistics(original, counts)
        masks = expected_masks(mechanism, counts, [len(tau) for tau in self.subject.taxonomies.values()])
        return None if masks is None else self._masked(masks)

    @property
    def _next(self) -> int:
        return self.history.newest + 1

    @property
    def _distances(self) -> tuple[Distance, ...]:
        return tuple(self.subject.distances.values())

    def _publish(
        self,
        statistics: Statistics,
        now: int,
        source: StatisticsSource,
        styles: Mapping[str, Style],
        counts: Counts | None = None,
        blocks: BlockRange | None = None,
        kept: Utility | None = None,
        masked: Statistics | None = None,
        *,
        renewed: bool = False,
    ) -> Publish:
        """Return a version; ``renewed``: whether it is the baseline from now on."""
        history = self.history
        baseline = previous = self._drift(statistics, history.latest, counts)
        if history.baseline is not history.latest:
            baseline = self._drift(statistics, history.baseline, counts)
        message = StatisticsMessage(
            version=statistics.version,
            mechanism=self.subject.mechanism,
            configuration=self.subject.configuration,
            published=now,
            source=source,
            blocks=blocks,
            taxonomies=fingerprints(self.subject.taxonomies),
            baseline=statistics.version if renewed or history.baseline is None else history.baseline.version,
            snapshot=self._mechanism.snapshot_of(statistics),
            styles=styles,
            secret_id=self.secret_id,
            guessed=self._guessed,
        )
        report = DriftReport(
            version=statistics.version,
            published=now,
            previous=None if previous is None else previous.to_dict(),
            baseline=None if baseline is None else baseline.to_dict(),
            utility=None if kept is None else kept.to_dict(),
            records=statistics.records,
            blocks=0 if blocks is None else blocks.count,
        )
        return Publish(
            message=message,
            statistics=self.shown(statistics),
            report=report,
            previous=previous,
            baseline=baseline,
            utility=kept,
            masked=None if masked is None else self.shown(masked),
            expired=history.expired(self._settings.keep_versions - 1),
            means={"original": self.means(statistics), "masked": {} if masked is None else self.means(masked)},
        )

    def _drift(
        self, statistics: Statistics, other: StatisticsMessage | None, counts: Counts | None = None
    ) -> Drift | None:
        if other is None:
            return None
        return self._publication.drift(other.statistics, statistics, self._distances, counts)
