"""The mask worker: sessions of one consumer and one transactional producer, and what is reported of them.

A turn of a session reads a batch, masks it, waits until the batch before is committed, and starts to write it on the
transactions' thread. So one batch commits while the next one is read and masked. There are two recoveries:

* A transaction that was aborted, or records that may not be committed: all is read again from the committed offsets.
* Anything else that the clients cannot go on after: a new session with new clients, which finds out from the committed
  offsets what the last one has done.

Before partitions are revoked, the commit in progress is settled. A batch that loses a partition is read again.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, wait
from contextlib import closing
from dataclasses import dataclass
from enum import StrEnum

from confluent_kafka import Message

from stream_masker.pipeline.formats import FormatUnavailableError
from stream_masker.pipeline.messages import REFUSAL_CAUSES
from stream_masker.pipeline.records import Reason, Result
from stream_masker.service.observability.metrics import Health, Metrics
from stream_masker.service.process import in_background
from stream_masker.service.worker.groups import MicroWindows
from stream_masker.service.worker.source import Source, to_inputs
from stream_masker.service.worker.statistics import ActiveStatistics
from stream_masker.service.worker.transactions import AbortedError, SessionLostError, Transactions

log = logging.getLogger(__name__)

HOLD_SECONDS = 0.5
"""Seconds between two looks for statistics while there are none, or for the format of a batch while that is away."""

CHECK_SECONDS = 3_600.0
"""Seconds without statistics after which the group's offsets are checked: those of an empty group expire."""

WAIT_SECONDS = 1.0
"""Seconds after which a wait for a commit records a heartbeat and polls the group."""

CLOSE_SECONDS = 10.0
"""Seconds that the clients of a session have to close."""

FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 5.0
"""The pause after a failure doubles with each further one in a row, from the first to the longest."""

UNREADY_FAILURES = 3
"""The worker is not ready after this many failed transactions in a row."""

UNREADABLE = (
    "partition {} of {} cannot be read {}; to pass it, stop all workers and move the offset of their group with "
    "kafka-consumer-groups.sh --reset-offsets"
)

Clients = tuple[Source, Transactions, MicroWindows | None]
"""The clients of a session, and its micro-windows; None if the mechanism masks no groups."""


class TransactionOutcome(StrEnum):
    """The end of a transaction. If it is not ``COMMITTED``, the input is read again from the committed offsets."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


class WorkerReport:
    """Keeps ``metrics`` and ``health`` up to date."""

    def __init__(self, metrics: Metrics, health: Health) -> None:
        """Initialise the counters of every reason and outcome to 0, so that rates include the first increment."""
        self._metrics, self.health = metrics, health
        self._refusals = self._failures = 0
        self._count_by("records_rejected_total", "reason", dict.fromkeys(Reason, 0))
        self._count_by("transactions_total", "outcome", dict.fromkeys(TransactionOutcome, 0))
        for cause in REFUSAL_CAUSES:
            metrics.add("messages_refused_total", 0, topic="statistics", cause=cause)

    def refused_message(self, cause: str) -> None:
        """Count a message of the statistics topic that is not authentic."""
        self._metrics.add("messages_refused_total", topic="statistics", cause=cause)

    def statistics(self, statistics: ActiveStatistics) -> None:
        """Report the active statistics, or why there are none. To wait for the first ones is no reason."""
        held, problem = not statistics.version, statistics.problem
        self._metrics.set("statistics_version", statistics.version)
        self._metrics.set("statistics_age_seconds", statistics.age)
        self._metrics.add("statistics_refused_total", statistics.refusals - self._refusals)
        self._refusals = statistics.refusals
        self.health.reason("statistics", f"no statistics: {problem}" if held and problem else None)
        waits = "no statistics yet: none are published" if held and not problem else None
        self.health.note("statistics", waits if held else problem)

    def format_unavailable(self, text: str | None) -> None:
        """Report why the records' format is unavailable; None if it is available."""
        self.health.reason("format", text)
        if text is not None:
            log.warning("%s; holding the input", text)

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
        rejected, values = result.rejected, [*result.values]
        if rejected:
            values = [value for offset, value in zip(result.offsets, values, strict=True) if offset not in rejected]
        self._metrics.add("records_masked_total", len(values) - values.count(None))
        for (outcome, where), number in result.tally.items():
            if outcome == "emptied":
                self._metrics.add("values_emptied_total", number)
            else:
                self._metrics.add("codes_unknown_total", number, attribute=where, outcome=outcome)
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
        """Report the number of partitions, their lag, and what is wrong with them."""
        unreadable = [UNREADABLE.format(partition, source.topic, why) for partition, why in source.unreadable.items()]
        self.health.reason("reading", "; ".join(unreadable) or None)
        self._metrics.set("assigned_partitions", len(source.assigned))
        self._metrics.set("consumer_lag", source.lag())
        self._metrics.add("records_skipped_total", source.take_skipped())

    def _count_by(self, name: str, label: str, amounts: Mapping[str, int]) -> None:
        for value, amount in amounts.items():
            self._metrics.add(name, amount, **{label: value})


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """One mask worker. It writes only in transactions, and nothing without statistics.

    ``connect`` makes the clients of a session. The source calls the function that it is given with partitions before
    they are revoked or lost. ``running`` waits for a time in seconds, if one is given, or until the process stops; it
    records a heartbeat, and returns False when the process stops. ``check`` raises ServiceError if records would be
    masked again, and SessionLostError if no broker answers. It is called before the first session, and before the
    worker joins a group that may have been empty for long.
    """

    connect: Callable[[Callable[[set[int]], None]], Clients]
    statistics: ActiveStatistics
    running: Callable[..., bool]
    report: WorkerReport
    check: Callable[[], object]

    def run(self) -> None:
        """Work until the process stops; then leave the group with no open transaction.

        Raises ServiceError if Kafka refuses the worker.
        """
        is_checked = False
        with closing(self.statistics):
            while self.running():
                try:
                    if not is_checked:
                        self.check()
                        is_checked = True
                    self._run_session()
                except SessionLostError as lost:
                    log.warning("a new session begins: %s", lost)
                    self._pause(self.report.failed() if is_checked else UNREADY_FAILURES)
        log.info("left the group")

    def _run_session(self) -> None:
        with closing(_Session(self)) as session:
            session.open()
            while self.running():
                try:
                    session.turn()
                except AbortedError:
                    self._pause(self.report.failed())
                    session.roll_back()

    def _pause(self, failures: int) -> None:
        """Wait: longer with each failure in a row."""
        self.running(min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2 ** min(failures - 1, 10)))


@dataclass(frozen=True, slots=True)
class _Pending:
    """A batch that is being written, and when it began in seconds of the clock."""

    future: Future[list[Result]]
    results: Mapping[int, Result]
    start: float


class _Session:
    """One consumer, one producer, and at most two batches: one that is written, and one that is read and masked."""

    def __init__(self, worker: Worker) -> None:
        self._worker, self._running, self._report = worker, worker.running, worker.report
        self._source, self._transactions, self._windows = worker.connect(self._revoke)
        self._results: dict[int, Result] = {}
        self._is_stale = False
        self._pending: _Pending | None = None
        self._failure: Exception | None = None
        self._begun = time.monotonic()

    def open(self) -> None:
        """Initialise the transactions, while the process runs."""
        self._transactions.open()
        self._report.health.reason("start", None)

    def close(self) -> None:
        """Settle the commit in progress and leave the group, in a limited time."""
        if not self._running():
            self._report.health.reason("stop", "stopping")
        self._settle()
        wait([in_background(self._source.close, name="closing")], CLOSE_SECONDS)

    def turn(self) -> None:
        """Read and mask a batch, and begin to write it as soon as the one before is committed.

        Raises AbortedError if that was aborted, and SessionLostError if the clients must be replaced.
        """
        statistics, source = self._worker.statistics, self._source
        statistics.poll()
        self._report.statistics(statistics)
        self._report.partitions(source)
        if not statistics.version:
            if source.has_joined:
                raise SessionLostError("there are no statistics to mask with")
            self._running(HOLD_SECONDS)
            return
        if not source.has_joined and time.monotonic() - self._begun >= CHECK_SECONDS:
            self._worker.check()
        self._is_stale = False
        start = time.monotonic()
        messages = source.read(self._is_committing)
        self._results = self._mask(messages) if self._running() else {}
        self._settle(source.poll)
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure
        results, self._results = self._results, {}
        group = source.group() if results else None
        if self._is_stale or (results and group is None):
            self.roll_back()
        elif results:
            self._pending = _Pending(self._transactions.write(results, group), results, start)

    def _is_committing(self) -> bool:
        """Return whether the batch before may still be committed."""
        return self._pending is not None and not self._pending.future.done() and not self._transactions.is_stuck()

    def roll_back(self) -> None:
        """Read all again from the offsets that were committed last."""
        if self._windows is not None:
            self._windows.drop(self._source.assigned)
        self._source.roll_back()

    def _mask(self, messages: Mapping[int, list[Message]]) -> dict[int, Result]:
        """Mask messages by partition; nothing after a pause if the format of the records is not available.

        With micro-windows, the results are those of the groups that are complete.
        """
        active, topic = self._worker.statistics, self._source.topic
        masker, version = active.masking.masker, active.version
        try:
            if self._windows is not None:
                results = self._windows.mask(masker, topic, messages, version, time.monotonic())
            else:
                inputs = {partition: to_inputs(some, masker) for partition, some in messages.items()}
                results = masker.mask_all(topic, inputs, statistics_version=version) if inputs else {}
        except FormatUnavailableError as error:
            self._report.format_unavailable(str(error))
            self._is_stale = True
            self._running(HOLD_SECONDS)
            return {}
        if results:
            self._report.format_unavailable(None)
        return results

    def _settle(self, poll: Callable[[], None] = lambda: None) -> None:
        """Wait until the commit in progress has ended, and note its error: rebalance callbacks must not raise it.

        ``poll`` keeps the membership meanwhile. A rebalance callback, which may settle the commit itself, has none.
        """
        while (pending := self._pending) is not None:
            if wait([pending.future], WAIT_SECONDS).done or self._transactions.is_stuck():
                self._pending = None
                self._end(pending)
            else:
                self._running()
                poll()

    def _end(self, pending: _Pending) -> None:
        """Note the end of a commit, or that it has none."""
        future = pending.future
        failure = future.exception() if future.done() else SessionLostError("a transaction does not end in time")
        if failure is None:
            self._source.commit({partition: one.offsets[-1] + 1 for partition, one in pending.results.items()})
            self._report.committed(future.result(), time.monotonic() - pending.start)
            return
        aborted = isinstance(failure, AbortedError)
        self._report.ended(TransactionOutcome.ABORTED if aborted else TransactionOutcome.UNKNOWN)
        self._failure = failure if isinstance(failure, Exception) else SessionLostError("the process ends")

    def _revoke(self, partitions: set[int]) -> None:
        """Settle the commit in progress, and forget the records of partitions that go."""
        self._settle()
        self._is_stale |= not partitions.isdisjoint(self._results)
        if self._windows is not None:
            self._windows.drop(partitions)
