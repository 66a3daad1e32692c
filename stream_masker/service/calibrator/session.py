"""The active calibrator, from taking over to giving up: the window, the cuts that wait, and what gets published."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable

from confluent_kafka import Consumer

from stream_masker.core.statistics.counts import Counts
from stream_masker.errors import StatisticsError
from stream_masker.pipeline.calibration.versions import History, Publish, VersionPlanner
from stream_masker.pipeline.calibration.window import Window, WindowLog
from stream_masker.pipeline.wire.messages import decode_block
from stream_masker.service.calibrator.components import CalibratorComponents, now_milliseconds
from stream_masker.service.calibrator.metrics import show_drift, show_statistics, show_utility, show_window
from stream_masker.service.calibrator.recovery import read_history, resume_from
from stream_masker.service.kafka.topic_reader import SINGLE_PARTITION, connect_reader, read_to_end
from stream_masker.service.observability.metrics import Metrics

log = logging.getLogger(__name__)

PENDING_CUTS = 8
"""Windows that may wait for computation. Beyond that the oldest is given up: the process cannot keep up."""

LOGGED_BLOCKS = 10
"""Refused blocks that are logged one by one; later ones are only counted."""


class CalibrationSession:
    """An open session. Its methods may raise ServiceError or KafkaException, which ends it: the next session rebuilds
    everything from the topics, so that nothing is lost and nothing is counted twice.
    """

    def __init__(
        self, parts: CalibratorComponents, metrics: Metrics, calibration: VersionPlanner, window_log: WindowLog
    ) -> None:
        self._parts = parts
        self._metrics = metrics
        self._calibration = calibration
        self._log = window_log
        self._cuts: deque[Window] = deque(maxlen=PENDING_CUTS)
        self._refused = 0
        self._left_out = 0

    @classmethod
    def open(cls, parts: CalibratorComponents, metrics: Metrics, stopped: Callable[[], bool]) -> CalibrationSession:
        """Shuts out other publishers, then reads the versions, and the blocks from the last one's window on.

        Raises StoppedError once ``stopped``, asked all the while, says so; ServiceError or KafkaException.
        """
        parts.publisher.open()
        with connect_reader(parts.configuration) as consumer:
            session = cls.begun(parts, metrics, consumer, stopped)
        session.show_recovered()
        return session

    @classmethod
    def begun(
        cls, parts: CalibratorComponents, metrics: Metrics, consumer: Consumer, stopped: Callable[[], bool]
    ) -> CalibrationSession:
        """A session that has read all there is by now."""
        topics = parts.configuration.topics
        history = read_history(consumer, parts, stopped)
        metrics.add("statistics_refused_total", history.refused)
        start, since = resume_from(consumer, topics.calibration, history.windowed)
        calibration = VersionPlanner(parts.subject, parts.new_mechanism(), history, parts.settings)
        session = cls(parts, metrics, calibration, WindowLog(parts.settings, since=since, first=history.latest is None))
        for message in read_to_end(consumer, topics.calibration, start=start, stopped=stopped):
            session.deliver(message.offset(), message.timestamp()[1], message.value() or b"")
        return session

    def show_recovered(self) -> None:
        """Shows what was found."""
        latest, window = self.history.latest, self._log.window()
        if latest is not None:
            show_window(self._metrics, latest.statistics)
        version = "none" if latest is None else latest.version
        log.info("window of %d records resumed; statistics version: %s", window.records if window else 0, version)

    @property
    def history(self) -> History:
        return self._calibration.history

    @property
    def waiting(self) -> int:
        """Windows that wait for ``publish_next``."""
        return len(self._cuts)

    def deliver(self, offset: int, written: int, raw: bytes) -> None:
        """Merges the block at an offset of the calibration topic; one that was merged before changes nothing."""
        if offset <= self._log.position:
            return
        try:
            block = decode_block(raw, self._parts.subject.taxonomies, self._parts.subject.numeric)
        except StatisticsError as error:
            self._refuse(offset, error)
        else:
            self._metrics.add("blocks_read_total", outcome="merged")
            self._cut(self._log.on_block(offset, written, block))

    def _refuse(self, offset: int, error: StatisticsError) -> None:
        self._refused += 1
        self._metrics.add("blocks_read_total", outcome="refused")
        if self._refused <= LOGGED_BLOCKS:
            topic = self._parts.configuration.topics.calibration
            log.warning("block refused at %s, partition %d, offset %d: %s", topic, SINGLE_PARTITION, offset, error)

    def tick(self, now: float) -> None:
        """Takes the time, in seconds since the epoch."""
        self._parts.publisher.poll()
        self._cut(self._log.on_tick(now))
        latest = self.history.latest
        self._metrics.set("statistics_version", latest.version if latest else 0)
        if latest is not None:
            self._metrics.set("statistics_age_seconds", max(0.0, now - latest.published / 1000))

    def _cut(self, window: Window | None) -> None:
        if window is not None:
            self._left_out += len(self._cuts) == PENDING_CUTS
            self._cuts.append(window)

    def _tell_left_out(self) -> None:
        if self._left_out:
            what = "computing statistics cannot keep up with calibration.every_records"
            log.warning("%s: versions left out: %d", what, self._left_out)
        self._left_out = 0

    def publish_next(self) -> None:
        """Computes and publishes the version of the oldest window that waits."""
        self._tell_left_out()
        window = self._cuts.popleft()
        start = time.perf_counter()
        try:
            publish = self._calibration.on_window(window, now_milliseconds())
        except StatisticsError as error:
            log.warning("no statistics from the blocks up to offset %d: %s", window.range.last, error)
            return
        self._metrics.observe("calibration_duration_seconds", time.perf_counter() - start)
        self._publish(publish)

    def reconfigure(self, parts: CalibratorComponents) -> None:
        """Goes on under another configuration, which differs in its settings alone."""
        self._parts = parts
        self._calibration.subject = parts.subject

    @property
    def unsettled(self) -> bool:
        """Whether workers mask under other settings than the configuration's."""
        return self._calibration.settings_differ

    def publish_settings(self) -> None:
        """Publishes the latest statistics again, under the configuration's settings."""
        self._publish(self._calibration.on_settings(now_milliseconds()))

    def publish_sample(self, counts: Counts) -> None:
        """Publishes the first version, from a sample, unless there is a version by now.

        Raises StatisticsError when some attribute has no value in the sample.
        """
        if self.history.latest is None:
            self._publish(self._calibration.on_sample(counts, now_milliseconds()))

    def _publish(self, publish: Publish) -> None:
        parts = self._parts.publisher.publish(publish)
        self._calibration.published(publish, chunks=parts)
        self._log.first = False
        show_version(self._metrics, publish)
        told = publish.message.version, publish.message.source, publish.report.records
        log.info("published statistics version %d (%s, %d records)", *told)


def prepare_session(metrics: Metrics) -> None:
    """Makes the counters of a calibrator appear at 0."""
    for outcome in ("merged", "refused"):
        metrics.add("blocks_read_total", 0, outcome=outcome)
    metrics.add("configuration_refused_total", 0)
    for source in ("bootstrap", "blocks"):
        metrics.add("statistics_published_total", 0, source=source)


def show_version(metrics: Metrics, publish: Publish) -> None:
    """Every figure of a version that was just published."""
    metrics.add("statistics_published_total", source=publish.message.source)
    metrics.set("window_blocks", publish.report.blocks)
    show_window(metrics, publish.statistics)
    if publish.masked is not None and publish.utility is not None:
        show_statistics(metrics, publish.masked, data="masked")
        show_utility(metrics, publish.utility)
    if publish.previous is not None:
        show_drift(metrics, publish.previous, against="previous")
    if publish.baseline is not None:
        show_drift(metrics, publish.baseline, against="baseline")
