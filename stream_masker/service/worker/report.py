"""The worker's metrics and the reasons why it is not ready."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum

from stream_masker.pipeline.reasons import Reason
from stream_masker.pipeline.records import Result
from stream_masker.pipeline.seal import RefusalCause
from stream_masker.service.observability.health import Health
from stream_masker.service.observability.metrics import Metrics
from stream_masker.service.worker.source import Source
from stream_masker.service.worker.statistics import ActiveStatistics, HoldReason

log = logging.getLogger(__name__)

LAG_EVERY_SECONDS = 2.0
"""Seconds between two updates of the lag."""

UNREADY_FAILURES = 3
"""The worker is not ready after this many failed transactions in a row."""

UNREADABLE = (
    "partition {} of {} cannot be read {}; to pass it, stop all workers and move the offset of their group with "
    "kafka-consumer-groups.sh --reset-offsets"
)


class TransactionOutcome(StrEnum):
    """The end of a transaction. If it is not ``COMMITTED``, the input is read again from the committed offsets."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


class WorkerReport:
    """Keeps ``metrics`` and ``health`` up to date."""

    def __init__(self, metrics: Metrics, health: Health, clock: Callable[[], float] = time.monotonic) -> None:
        """Initialise the counters of every reason and outcome to 0, so that rates include the first increment."""
        self._metrics, self.health, self._clock = metrics, health, clock
        self._updated, self._refusals, self._failures = -LAG_EVERY_SECONDS, 0, 0
        self._count_by("records_rejected_total", "reason", dict.fromkeys(Reason, 0))
        self._count_by("transactions_total", "outcome", dict.fromkeys(TransactionOutcome, 0))
        for cause in RefusalCause:
            metrics.add("messages_refused_total", 0, topic="statistics", cause=cause)

    def refused_message(self, cause: RefusalCause) -> None:
        """Count a message of the statistics topic that is not authentic."""
        self._metrics.add("messages_refused_total", topic="statistics", cause=cause)

    def statistics(self, statistics: ActiveStatistics) -> None:
        """Report the active statistics, or why there are none. To wait for the first ones is no reason."""
        because, text = statistics.held or (None, None)
        self._hold(because)
        self._metrics.set("statistics_version", statistics.version)
        self._metrics.set("statistics_age_seconds", statistics.age)
        self._metrics.add("statistics_refused_total", statistics.refusals - self._refusals)
        self._refusals = statistics.refusals
        waits = because is HoldReason.NONE_PUBLISHED
        self.health.reason("statistics", None if waits else text)
        self.health.note("statistics", text if waits else None if because else statistics.refused)

    def format_unavailable(self, text: str | None) -> None:
        """Report why the records' format is unavailable; None if it is available."""
        self.health.reason("format", text)
        if text is not None:
            log.warning("%s; holding the input", text)
            self._hold(HoldReason.FORMAT_UNAVAILABLE)

    def committed(self, written: Iterable[Result], seconds: float) -> None:
        """Count a batch that is committed, as it was written. No metric depends on the masks of a record."""
        self.ended(TransactionOutcome.COMMITTED)
        self._failures = 0
        self.health.reason("transactions", None)
        self._metrics.observe("batch_duration_seconds", seconds)
        for result in written:
            self._count(result)

    def _count(self, result: Result) -> None:
        """Count the outcomes of records; their total is incremented last. Tombstones are not among the masked ones."""
        rejected = result.rejected
        masked = sum(value is not None for index, value in enumerate(result.values) if index not in rejected)
        self._metrics.add("records_masked_total", masked)
        self._metrics.add("values_emptied_total", sum(result.emptied.values()))
        for outcome, counts in (("suppressed", result.suppressed), ("generalized", result.generalized)):
            for attribute, codes in counts.items():
                self._metrics.add("codes_unknown_total", codes, attribute=attribute, outcome=outcome)
        self._count_by("records_rejected_total", "reason", Counter(one.reason for one in rejected.values()))
        self._metrics.add("records_in_total", len(result.offsets))

    def ended(self, outcome: TransactionOutcome) -> None:
        """Count a transaction."""
        self._metrics.add("transactions_total", outcome=outcome)

    def failed(self) -> int:
        """Count a failed transaction or session; return the number of those since the last commit."""
        self._failures += 1
        text = f"the last {self._failures} transactions failed; the log says why"
        self.health.reason("transactions", text if self._failures >= UNREADY_FAILURES else None)
        return self._failures

    def partitions(self, source: Source) -> None:
        """Report the number of partitions; at most every ``LAG_EVERY_SECONDS``, also their lag and problems."""
        self._metrics.set("assigned_partitions", len(source.assigned))
        if self._clock() - self._updated < LAG_EVERY_SECONDS:
            return
        self._updated = self._clock()
        lag, errors = source.lag(), source.unreadable.items()
        unreadable = [UNREADABLE.format(partition, source.topic, error) for partition, error in errors]
        self.health.reason("reading", "; ".join(unreadable) or None)
        self._metrics.add("records_skipped_total", source.take_skipped())
        self._metrics.forget("consumer_lag")
        for partition, records in lag.items():
            self._metrics.set("consumer_lag", records, topic=source.topic, partition=str(partition))

    def _hold(self, because: HoldReason | None) -> None:
        for reason in HoldReason:
            self._metrics.set("held_because", because is reason, reason=reason)

    def _count_by(self, name: str, label: str, amounts: Mapping[str, int]) -> None:
        for value, amount in amounts.items():
            self._metrics.add(name, amount, **{label: value})
