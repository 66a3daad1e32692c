"""One assignment of the active calibrator: its window, its versions and metrics, and what is to be computed next."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from functools import partial
from itertools import combinations
from typing import Final

from stream_masker.core.statistics.drift import VERDICTS, Drift, Utility
from stream_masker.core.statistics.statistics import Statistics
from stream_masker.errors import StatisticsError
from stream_masker.pipeline.messages import REFUSAL_CAUSES, SealError, Taxonomies, decode_block
from stream_masker.pipeline.risk import VersionRisk
from stream_masker.pipeline.versions import DataKind, History, Publish, VersionPlanner
from stream_masker.pipeline.window import Window, WindowLog
from stream_masker.service.calibrator.bootstrap import (
    PATIENCE_SECONDS,
    CalibratorComponents,
    Sample,
    read_history,
    resume_from,
)
from stream_masker.service.kafka.reader import connect_reader, read_to_end
from stream_masker.service.observability.logs import describe
from stream_masker.service.observability.metrics import Health, Metrics
from stream_masker.summary import three_sentences, unchanged_warning

log = logging.getLogger(__name__)

SAMPLE_PAUSE_SECONDS = 0.5
"""The time between two reads of a sample that is not complete."""

OF_A_VERSION: Final = (
    *("svar", "sdcov", "sdcor", "smean"),
    *("drift", "drift_limit", "drift_moved", "drift_verdict", "rmse", "unchanged_share"),
)
"""The labelled metrics of a version. One without masks, or that no other precedes, does not have all of them."""

Task = Callable[[], None]


class Calibration:
    """The calibration of an active calibrator. Its methods may raise ServiceError or KafkaException, which end it.

    The next one rebuilds everything from the topics, so nothing is lost and nothing is counted twice. ``merge`` and
    ``next_task`` are quick and belong to one thread; the tasks compute and publish, one at a time, in any thread.
    """

    def __init__(
        self, components: CalibratorComponents, metrics: Metrics, planner: VersionPlanner, window: WindowLog
    ) -> None:
        self._components, self._metrics = components, metrics
        self._planner, self._window = planner, window
        self._withholds = components.subject.limits.hold
        self._sample_at = self._open_at = self._assess_at = 0.0
        self._sample: Sample | None = None
        self._unassessed: Publish | None = None
        self._computed = 0
        self._statements: tuple[str, ...] = ()
        self._crossed: tuple[str, ...] = ()

    @classmethod
    def open(cls, components: CalibratorComponents, metrics: Metrics, stopped: Callable[[], bool]) -> Calibration:
        """Fence out other publishers, then read the versions, and the blocks from the last version's window on.

        Raises StoppedError as soon as ``stopped`` returns True during the reads; ServiceError or KafkaException.
        """
        components.publisher.open()
        topic = components.configuration.topics.calibration
        with closing(connect_reader(components.configuration)) as consumer:
            history = read_history(consumer, components, stopped)
            start, since = resume_from(consumer, topic, history.windowed)
            baseline, planner = history.baseline, VersionPlanner(components.subject, history)
            if baseline is not None and history.baseline is None:
                log.warning("the baseline, version %d, is unusable: the next version is the baseline", baseline.version)
            window = WindowLog(components.settings, since=since, first=history.latest is None)
            calibration = cls(components, metrics, planner, window)
            for message in read_to_end(consumer, topic, start=start, stopped=stopped, patience=PATIENCE_SECONDS):
                calibration.merge(message.offset(), message.timestamp()[1], message.key(), message.value() or b"")
        calibration._report_recovered()
        return calibration

    def _report_recovered(self) -> None:
        """Set the metrics of the recovered state, and log it.

        The drift is not known before the next version: another process may have published a new baseline.
        """
        latest, history, subject = self.history.latest, self.history, self._components.subject
        forget_version(self._metrics)
        self._metrics.add("statistics_refused_total", history.refused)
        for cause, messages in history.unauthentic.items():
            self._metrics.add("messages_refused_total", messages, topic="statistics", cause=cause)
        if latest is not None:
            figures = self._planner.shown(latest.statistics)
            set_window_metrics(self._metrics, {"original": figures}, subject.mechanism.taxonomies)
        version = "none" if latest is None else latest.version
        log.info("resumed with a window of %d records; statistics version: %s", self._window.records, version)

    @property
    def history(self) -> History:
        return self._planner.history

    @property
    def position(self) -> int:
        """The offset of the last merged block, -1 if there is none."""
        return self._window.position

    def merge(self, offset: int, timestamp: int, key: bytes | None, value: bytes) -> None:
        """Merge the block at an offset of the calibration topic; a block that was merged before is ignored."""
        if offset <= self._window.position:
            return
        subject = self._components.subject
        try:
            opened = self._components.blocks.open(key, value)
            block = decode_block(opened, subject.mechanism.taxonomies, subject.mechanism.context)
            self._window.add(offset, timestamp, block)
        except Exception as error:  # noqa: BLE001 - one block must not end the calibrator at every restart
            log.warning("refused a message on %s: %s", self._components.blocks.topic, describe(error))
            self._metrics.add("blocks_read_total", outcome="refused")
            if isinstance(error, SealError):
                self._metrics.add("messages_refused_total", topic="calibration", cause=error.cause)
        else:
            self._metrics.add("blocks_read_total", outcome="merged")

    def show(self, health: Health, now: float) -> None:
        """Show the version and its age, the sample, and the limits of the risk that the last version crosses.

        ``now``: seconds since the epoch. A version that is withheld for a limit makes the process not ready.
        """
        latest, sample, crossed = self.history.latest, self._sample, "; ".join(self._crossed)
        self._metrics.set("statistics_version", latest.version if latest else 0)
        if latest is not None:
            self._metrics.set("statistics_age_seconds", max(0.0, now - latest.published / 1000))
        needed = self._components.settings.min_records
        sampled = sample and f"no statistics yet: {sample.records} records sampled, {needed} needed"
        health.note("statistics", sampled or None)
        withheld = crossed if self._withholds else ""
        health.reason("risk", f"statistics are withheld: {withheld}" if withheld else None)
        health.note("risk", None if withheld else crossed or None)
        health.statements = self._statements

    def next_task(self, now: float) -> Task | None:
        """Return what is to be computed now, or None; ``now`` in seconds since the epoch.

        A window that is due goes before the risk of the version before it.
        """
        self._components.publisher.poll()
        if self._planner.secret_differs:
            return self._publish_secret
        if now >= self._open_at and (window := self._window.due(now)) is not None:
            return partial(self._publish_window, window)
        if self._unassessed is not None and now >= self._assess_at:
            return self.assess
        if self.history.latest is not None:
            self._sample = None
        elif now >= self._sample_at:
            return self._read_sample
        return None

    def _read_sample(self) -> None:
        """Read on for the first version, and publish it when the sample is complete.

        If it cannot be computed, or is withheld, another sample is taken later.
        """
        if self._sample is None:
            self._sample = Sample(self._components.configuration)
        sample = self._sample.read()
        self._sample_at = time.time() + SAMPLE_PAUSE_SECONDS
        if sample is not None:
            self._sample, self._sample_at = None, time.time() + self._components.settings.every_seconds
            self._compute(lambda now: self._planner.on_sample(sample, now), "the sample")

    def _publish_window(self, window: Window) -> None:
        self._compute(lambda now: self._planner.on_window(window, now), f"the blocks up to offset {window.range.last}")

    def _compute(self, plan: Callable[[int], Publish], what: str) -> None:
        """Compute and publish a version; then pause, so that computing takes at most its share of a core."""
        start = time.process_time()
        try:
            publish = plan(time.time_ns() // 1_000_000)
        except Exception as error:  # noqa: BLE001 - the next window may do without the block that causes it
            log.warning("failed to compute statistics from %s: %s", what, describe(error))
            self._metrics.add("statistics_withheld_total")
            self._crossed = (describe(error),) if isinstance(error, StatisticsError) else ("the computation failed",)
            return
        self._publish(publish)
        self._computed += 1
        self._open_at = self._after_pause(time.process_time() - start)

    def _publish(self, publish: Publish) -> None:
        """Publish a version. Its risk is computed later, except for the first one, which tells workers what an attacker
        can guess before they mask anything, and where a limit that it crosses withholds it."""
        if self._withholds or publish.message.source == "bootstrap":
            self._report_risk(publish)
            if self._withholds and self._crossed:
                self._metrics.add("statistics_withheld_total")
                return
            publish = self._planner.with_chances(publish)
        else:
            self._unassessed = publish
        self._send(publish)

    def assess(self) -> None:
        """Compute the risk of the last version, and report it; then pause, as after statistics."""
        start, publish, self._unassessed = time.process_time(), self._unassessed, None
        if publish is not None:
            self._report_risk(publish)
            self._assess_at = self._after_pause(time.process_time() - start)

    def _after_pause(self, seconds: float) -> float:
        """Return when the share of a core allows a further computation, after one of some seconds of processor time.

        The first version is not charged: it loads the kernels, and the version after it replaces a small sample.
        """
        if self._computed <= 1:
            return 0.0
        return time.time() + seconds * (1 / self._components.configuration.calibration.core_share - 1)

    def _publish_secret(self) -> None:
        """Publish the latest statistics again, with the id of the secret that workers must have."""
        assert self.history.latest is not None, "there is a version if its secret differs"
        publish = self._planner.on_snapshot(self.history.latest, time.time_ns() // 1_000_000)
        self._send(publish)
        log.info("workers must have the secret with the id %s from now on", publish.message.secret_id)

    def _send(self, publish: Publish) -> None:
        self._components.publisher.publish(publish)
        self._planner.published(publish)
        self._window.first = False
        set_version_metrics(self._metrics, publish, self._components.subject.mechanism.taxonomies)
        message, records = publish.message, publish.shown["original"].records
        log.info("published statistics version %d (%s, %d records)", message.version, message.source, records)

    def _report_risk(self, publish: Publish) -> None:
        """Compute the version's risk, set its metrics, and log it; the first version with its three sentences."""
        assessed = self._planner.assess(publish)
        if assessed is None:
            return
        self._crossed = assessed.crossed
        set_risk_metrics(self._metrics, assessed)
        version, what = publish.message.version, "withheld" if self._withholds else "published nevertheless"
        for sentence in self._crossed:
            log.warning("the risk of statistics version %d is too high, %s: %s", version, what, sentence)
        sentences = self._sentences(publish, assessed)
        if not self._statements:
            log.info("statistics version %d: %s", version, " ".join(sentences))
        self._statements = (f"statistics version {version}:", *(f"  {one}" for one in sentences))
        unchanged = assessed.risk.unchanged_records if publish.unchanged_records is None else publish.unchanged_records
        if warning := unchanged_warning(unchanged or 0.0, self._components.subject.mechanism.name):
            log.warning("statistics version %d: %s", version, warning)

    def _sentences(self, publish: Publish, version: VersionRisk) -> tuple[str, str, str]:
        """Return what an attacker learns, what stays as it was, and what is kept.

        The last one is what the mechanism preserves in expectation, unless the means of the window may be shown.
        """
        before, after = publish.shown["original"], publish.shown.get("masked")
        is_shown = after is not None and all([*before.mean.values(), *after.mean.values()])
        return three_sentences(
            version.risk,
            promise=self._components.subject.mechanism.promise,
            unchanged=publish.unchanged,
            unchanged_records=publish.unchanged_records,
            before=before if is_shown else None,
            after=after if is_shown else None,
            preserves=self._components.subject.mechanism.preserves,
        )


def forget_version(metrics: Metrics) -> None:
    """Remove all figures of an earlier version."""
    for name in OF_A_VERSION:
        metrics.forget(name)


def set_version_metrics(metrics: Metrics, publish: Publish, taxonomies: Taxonomies) -> None:
    """Set the metrics of a version that was just published."""
    forget_version(metrics)
    set_window_metrics(metrics, publish.shown, taxonomies)
    for attribute, share in (publish.unchanged or {}).items():
        metrics.set("unchanged_share", share, attribute=attribute)
    if publish.utility is not None:
        set_utility_metrics(metrics, publish.utility)
    for against, drift in {"previous": publish.previous, "baseline": publish.baseline}.items():
        if drift is not None:
            set_drift_metrics(metrics, drift, against)


def set_window_metrics(metrics: Metrics, windows: Mapping[DataKind, Statistics], taxonomies: Taxonomies) -> None:
    """Set sVar, sdCov with sdVar, sdCor and sMean of the original and the masked window of a published version."""
    for data, statistics in windows.items():
        for i, attribute in enumerate(statistics.attributes):
            metrics.set("svar", statistics.variance[attribute], attribute=attribute, data=data)
            variance = float(statistics.covariance[i, i])
            metrics.set("sdcov", variance, first=attribute, second=attribute, data=data)
            if mean := statistics.mean[attribute]:
                label = taxonomies[attribute].label(mean)
                metrics.set("smean", 1, attribute=attribute, data=data, concept=mean, label=label)
        for (i, first), (j, second) in combinations(enumerate(statistics.attributes), 2):
            metrics.set("sdcov", float(statistics.covariance[i, j]), first=first, second=second, data=data)
            metrics.set("sdcor", float(statistics.correlation[i, j]), first=first, second=second, data=data)
    original = windows["original"]
    metrics.set("statistics_version", original.version)
    metrics.set("window_records", original.records)


def set_drift_metrics(metrics: Metrics, drift: Drift, against: str) -> None:
    """Set the figures of the drift from the previous version, the baseline or the expected masks, and their limits."""
    figures = {(name, kind): figure for name, each in drift.attributes.items() for kind, figure in each.figures.items()}
    figures |= {(", ".join(pair), "correlation"): each for pair, each in drift.pairs.items()}
    metrics.set("drift_verdict", VERDICTS.index(drift.verdict), against=against)
    for (attribute, kind), figure in figures.items():
        metrics.set("drift", figure.value, attribute=attribute, figure=kind, against=against)
        metrics.set("drift_limit", figure.limit, attribute=attribute, figure=kind, against=against)
    for attribute, each in drift.attributes.items() if against == "baseline" else ():
        for one in each.moved:
            labels = {"attribute": attribute, "level": one.level, "concept": one.concept, "label": one.label}
            metrics.set("drift_moved", one.now - one.before, **labels)


def set_utility_metrics(metrics: Metrics, utility: Utility) -> None:
    """Set the metrics of the masked data's utility (2017: section 5); without a verdict, RMSE alone."""
    for attribute, own in utility.attributes.items():
        metrics.set("rmse", own.rmse_actual, attribute=attribute, kind="actual")
        metrics.set("rmse", own.rmse_target, attribute=attribute, kind="target")
    if utility.expected is not None:
        set_drift_metrics(metrics, utility.expected, "expected")


def set_risk_metrics(metrics: Metrics, version: VersionRisk) -> None:
    """Set the metrics of a version's disclosure risk. A figure that is not known is left out."""
    metrics.set("risk_limits_crossed", len(version.crossed))
    for attribute, value in version.risk.value.items():
        metrics.set("risk_prior", value.prior, attribute=attribute)
    for given, disclosures in {"value": version.risk.value, "record": version.risk.record or {}}.items():
        for attribute, learned in disclosures.items():
            metrics.set("risk_vulnerability", learned.vulnerability, attribute=attribute, given=given)
            metrics.set("risk_certain_share", learned.certain, attribute=attribute, given=given)


def initialise_counters(metrics: Metrics) -> None:
    """Initialise the calibrator's counters to 0, so that they are exported from the start."""
    for outcome in ("merged", "refused"):
        metrics.add("blocks_read_total", 0, outcome=outcome)
    metrics.add("statistics_withheld_total", 0)
    metrics.add("statistics_refused_total", 0)
    for topic in ("calibration", "statistics"):
        for cause in REFUSAL_CAUSES:
            metrics.add("messages_refused_total", 0, topic=topic, cause=cause)
