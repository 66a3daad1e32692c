"""A session of the active calibrator: the window, the windows that wait for computation, and the publications."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from confluent_kafka import Consumer

from stream_masker.errors import StatisticsError
from stream_masker.pipeline.calibration.counting import SampleCounts
from stream_masker.pipeline.calibration.history import History
from stream_masker.pipeline.calibration.pace import divergence
from stream_masker.pipeline.calibration.versions import Publish, VersionPlanner
from stream_masker.pipeline.calibration.window import Window, WindowLog
from stream_masker.pipeline.wire.blocks import decode_block
from stream_masker.pipeline.wire.sealing import SealError
from stream_masker.pipeline.wire.statistics import StatisticsMessage
from stream_masker.service.calibrator.bootstrap import read_history, resume_from
from stream_masker.service.calibrator.components import CalibratorComponents, now_milliseconds
from stream_masker.service.calibrator.metrics import (
    describe_risk,
    set_mean_metrics,
    set_risk_metrics,
    set_version_metrics,
    set_window_metrics,
)
from stream_masker.service.calibrator.page import published_figures, recovered_figures
from stream_masker.service.calibrator.page.figures import sentences_of, unchanged_share
from stream_masker.service.kafka.topic_reader import SINGLE_PARTITION, connect_reader, read_to_end
from stream_masker.service.observability.logs import describe
from stream_masker.service.observability.metrics import Metrics
from stream_masker.summary import unchanged_warning

log = logging.getLogger(__name__)

MAX_PENDING_WINDOWS = 8
"""The maximum number of windows that wait to be computed; beyond it the oldest one is skipped."""

MAX_LOGGED_BLOCKS = 10
"""The number of refused blocks that are logged individually; further ones are only counted."""


class CalibrationSession:
    """An open session. Its methods may raise ServiceError or KafkaException, which end it.

    The next session rebuilds everything from the topics, so nothing is lost and nothing is counted twice.
    """

    def __init__(
        self, components: CalibratorComponents, metrics: Metrics, planner: VersionPlanner, window_log: WindowLog
    ) -> None:
        self._components = components
        self._metrics = metrics
        self._planner = planner
        self._window_log = window_log
        self._pending: deque[Window] = deque(maxlen=MAX_PENDING_WINDOWS)
        self._refused_blocks = 0
        self._urgency: tuple[Window | None, bool] = None, False
        self._hurried_from = 0
        self._withheld_settings = ""
        self._unassessed: Publish | None = None
        self.crossed: tuple[str, ...] = ()
        self._said = False

    @classmethod
    def open(
        cls, components: CalibratorComponents, metrics: Metrics, stopped: Callable[[], bool]
    ) -> CalibrationSession:
        """Fence out other publishers, then read the versions and the blocks from the last version's window on.

        Raises StoppedError as soon as ``stopped`` returns True during the reads; ServiceError or KafkaException.
        """
        components.publisher.open()
        with connect_reader(components.configuration) as consumer:
            session = cls.recover(components, metrics, consumer, stopped)
        session.report_recovered()
        return session

    @classmethod
    def recover(
        cls, components: CalibratorComponents, metrics: Metrics, consumer: Consumer, stopped: Callable[[], bool]
    ) -> CalibrationSession:
        """Return a session that has read the topics up to their present ends."""
        topics = components.configuration.topics
        history = read_history(consumer, components, stopped)
        metrics.add("statistics_refused_total", history.refused)
        for cause, messages in history.unauthentic.items():
            metrics.add("messages_refused_total", messages, topic="statistics", cause=cause)
        start, since = resume_from(consumer, topics.calibration, history.windowed)
        planner = VersionPlanner(
            components.subject,
            components.new_mechanism(),
            history,
            components.settings,
            components.publication,
            components.risk_limits,
        )
        session = cls(
            components, metrics, planner, WindowLog(components.settings, since=since, first=history.latest is None)
        )
        for message in read_to_end(consumer, topics.calibration, start=start, stopped=stopped):
            session.deliver(message.offset(), message.timestamp()[1], message.key(), message.value() or b"")
        return session

    def report_recovered(self) -> None:
        """Set the metrics of the recovered state, and log it."""
        latest, window = self.history.latest, self._window_log.window()
        if latest is not None:
            shown, means = self._planner.shown(latest.statistics), self._planner.means(latest.statistics)
            set_window_metrics(self._metrics, shown)
            set_mean_metrics(self._metrics, {"original": means})
            self._components.page.show(recovered_figures(latest, shown, means))
        version = "none" if latest is None else latest.version
        log.info(
            "resumed with a window of %d records; statistics version: %s", window.records if window else 0, version
        )

    @property
    def history(self) -> History:
        return self._planner.history

    @property
    def pending_windows(self) -> int:
        """The number of windows that wait for ``publish_next``."""
        return len(self._pending)

    def deliver(self, offset: int, timestamp: int, key: bytes | None, value: bytes) -> None:
        """Merge the block at an offset of the calibration topic; a block that was merged before is ignored."""
        if offset <= self._window_log.position:
            return
        subject = self._components.subject
        try:
            opened = self._components.blocks.open(key, value)
            block = decode_block(opened, subject.taxonomies, subject.numeric, subject.context)
            window = self._window_log.on_block(offset, timestamp, block)
            self._planner.on_worker(block.secret_id)
        except SealError as error:
            self._metrics.add("messages_refused_total", topic="calibration", cause=error.cause)
            self._metrics.add("blocks_read_total", outcome="refused")
        except Exception as error:  # noqa: BLE001 - one block must not end the calibrator at every restart
            self._refuse_block(offset, error)
        else:
            self._metrics.add("blocks_read_total", outcome="merged")
            self._components.page.count(block.last_offset - block.first_offset + 1)
            self._enqueue(window)

    def _refuse_block(self, offset: int, error: Exception) -> None:
        self._refused_blocks += 1
        self._metrics.add("blocks_read_total", outcome="refused")
        if self._refused_blocks <= MAX_LOGGED_BLOCKS:
            topic = self._components.configuration.topics.calibration
            place = f"{topic}, partition {SINGLE_PARTITION}, offset {offset}"
            log.warning("refused the block at %s: %s", place, describe(error))

    def tick(self, now: float) -> None:
        """Advance the time; ``now`` in seconds since the epoch."""
        self._components.publisher.poll()
        self._enqueue(self._window_log.on_tick(now))
        latest = self.history.latest
        self._metrics.set("statistics_version", latest.version if latest else 0)
        self.show_age(now)

    def show_age(self, now: float) -> None:
        """Set the age of the latest version."""
        if (latest := self.history.latest) is not None:
            self._metrics.set("statistics_age_seconds", max(0.0, now - latest.published / 1000))

    def _enqueue(self, window: Window | None) -> None:
        if window is not None:
            self.skip_windows(keep=MAX_PENDING_WINDOWS - 1)
            self._pending.append(window)

    def skip_windows(self, *, keep: int) -> None:
        """Skip waiting windows except the latest ``keep``: later statistics include their records."""
        while len(self._pending) > keep:
            self._pending.popleft()
            self._metrics.add("calibration_windows_total", outcome="skipped")

    @property
    def is_urgent(self) -> bool:
        """Whether the latest waiting window may not wait: it differs much from the published statistics.

        Once for each published version: if what was computed at once is withheld, later windows wait.
        """
        latest, window = self.history.latest, self._pending[-1] if self._pending else None
        if latest is not None and latest.version == self._hurried_from:
            return False
        if window is not self._urgency[0]:
            self._urgency = window, latest is not None and window is not None and self._may_not_wait(window, latest)
        return self._urgency[1]

    def _may_not_wait(self, window: Window, latest: StatisticsMessage) -> bool:
        settings, taxonomies = self._components.settings, self._components.subject.taxonomies
        return divergence(window, latest.statistics, taxonomies, settings.rollup_depth) >= settings.urgent_divergence

    @property
    def begins_sampling(self) -> bool:
        """Whether there are more records than the window holds, and workers still count all of them."""
        return bool(self._pending) and self._planner.begins_sampling(self._pending[-1])

    def publish_sampling(self) -> None:
        """Publish the latest statistics again, with the level from which workers count records from now on."""
        with self._measured():
            publish = self._planner.on_sampling(self._pending[-1], now_milliseconds())
            self._unassessed = None if self._unassessed is None else publish
            self._send(publish)

    def publish_next(self, *, urgent: bool = False) -> None:
        """Compute and publish the version of the oldest waiting window; ``urgent``: before the pace allows it."""
        self._metrics.add("calibration_windows_total", outcome="urgent" if urgent else "computed")
        if urgent and self.history.latest is not None:
            self._hurried_from = self.history.latest.version
        with self._measured():
            self._publish_window(self._pending.popleft())

    @contextmanager
    def _measured(self) -> Iterator[None]:
        """Add the processor time of the block to the metric."""
        start = time.process_time()
        try:
            yield
        finally:
            self._metrics.add("calibration_processor_seconds_total", time.process_time() - start)

    def _publish_window(self, window: Window) -> None:
        start = time.perf_counter()
        try:
            publish = self._planner.on_window(window, now_milliseconds())
        except Exception as error:  # noqa: BLE001 - the next window may do without the block that causes it
            text = describe(error)
            log.warning("failed to compute statistics from the blocks up to offset %d: %s", window.range.last, text)
            self._metrics.add("statistics_withheld_total")
            self.crossed = (text,)
            return
        self._metrics.observe("calibration_duration_seconds", time.perf_counter() - start)
        self._publish(publish)

    def reconfigure(self, components: CalibratorComponents) -> None:
        """Continue with a configuration that differs only in its settings."""
        self._components = components
        self._planner.reconfigure(components.subject, components.new_mechanism())

    @property
    def settings_differ(self) -> bool:
        """Whether the published settings differ from the configuration's, which have not been withheld."""
        return self._planner.settings_differ and self._withheld_settings != self._components.subject.configuration

    def publish_settings(self) -> None:
        """Publish the latest statistics again, with the configuration's settings.

        If their risk is beyond a limit, they are withheld until the next window.
        """
        self._withheld_settings = self._components.subject.configuration
        with self._measured():
            self._publish(self._planner.on_settings(now_milliseconds()))

    @property
    def secret_differs(self) -> bool:
        """Whether the latest version does not have the id of the masking secret that workers must have."""
        return self._planner.secret_differs

    def publish_secret(self) -> None:
        """Publish the latest statistics again, with the id of the masking secret that workers must have."""
        with self._measured():
            publish = self._planner.on_secret(now_milliseconds())
            self._unassessed = None if self._unassessed is None else publish
            self._send(publish)
        log.info("workers must have the secret with the id %s from now on", publish.message.secret_id)

    def publish_sample(self, sample: SampleCounts) -> None:
        """Publish the first version, from a sample, if there is still none.

        Raises StatisticsError if an attribute has no value in the sample, or if its risk is beyond a limit.
        """
        if self.history.latest is None:
            with self._measured():
                self._publish(self._planner.on_sample(sample.counts, now_milliseconds(), sample.styles))
        if self.history.latest is None:
            raise StatisticsError("; ".join(self.crossed))

    @property
    def withholds(self) -> bool:
        """Whether versions with a risk beyond a limit are withheld."""
        return self._planner.withholds

    def _publish(self, publish: Publish) -> None:
        """Publish a version, unless its risk crosses a limit and withholds it.

        Where the risk cannot withhold it, the version is published before its risk is computed.
        """
        if self.withholds:
            self._report_risk(publish)
            if self.crossed:
                self._metrics.add("statistics_withheld_total")
                return
        self._unassessed = None if self.withholds else publish
        self._send(publish)

    def _send(self, publish: Publish) -> None:
        """Publish a version."""
        chunks = self._components.publisher.publish(publish)
        self._planner.published(publish, chunks=chunks)
        self._window_log.first = False
        set_version_metrics(self._metrics, publish)
        self._components.page.show(published_figures(publish, incomplete=self._is_incomplete))
        self._metrics.add("publication_epsilon_total", self._components.publication.epsilon or 0)
        described = publish.message.version, publish.message.source, publish.report.records
        log.info("published statistics version %d (%s, %d records)", *described)

    @property
    def _is_incomplete(self) -> bool:
        return self._components.configuration.may_lack_codes

    def assess_risk(self) -> None:
        """Compute and report the risk of the last published version, unless that has been done."""
        publish, self._unassessed = self._unassessed, None
        if publish is None:
            return
        with self._measured():
            publish = replace(publish, risk=self._planner.assess())
        self._report_risk(publish)
        self._components.page.replace_last(published_figures(publish, incomplete=self._is_incomplete))

    def _report_risk(self, publish: Publish) -> None:
        """Set the metrics of the version's risk, and log it."""
        if publish.risk is None:
            return
        self.crossed = publish.risk.crossed
        set_risk_metrics(self._metrics, publish.risk)
        version, what = publish.message.version, "withheld" if self.withholds else "published nevertheless"
        for sentence in self.crossed:
            log.warning("the risk of statistics version %d is too high, %s: %s", version, what, sentence)
        if publish.risk.risk is not None:
            self._say(publish)
            log.info("risk of statistics version %d: %s", version, describe_risk(publish.risk.risk))

    def _say(self, publish: Publish) -> None:
        """Log the three sentences of the first version, and a warning if masking leaves most records as they were."""
        version, unchanged = publish.message.version, unchanged_share(publish)
        if not self._said:
            log.info(
                "statistics version %d: %s", version, " ".join(sentences_of(publish, incomplete=self._is_incomplete))
            )
        self._said = True
        warning = unchanged_warning(unchanged or 0.0, publish.message.mechanism)
        if warning is not None:
            log.warning("statistics version %d: %s", version, warning)
