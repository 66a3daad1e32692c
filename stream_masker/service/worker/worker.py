"""The mask worker: sessions of one consumer and one transactional producer.

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
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from contextlib import closing
from dataclasses import dataclass

from confluent_kafka import Message

from stream_masker.pipeline.formats import FormatUnavailableError
from stream_masker.pipeline.records import Result
from stream_masker.service.observability.health import STARTING
from stream_masker.service.process import in_background
from stream_masker.service.worker.groups import MicroWindows, to_inputs
from stream_masker.service.worker.report import TransactionOutcome, WorkerReport
from stream_masker.service.worker.source import Source
from stream_masker.service.worker.statistics import ActiveStatistics
from stream_masker.service.worker.transactions import AbortedError, SessionLostError, Transactions

log = logging.getLogger(__name__)

HOLD_SECONDS = 0.2
"""Seconds between two looks for statistics while there are none."""

FORMAT_RETRY_SECONDS = 2.0
"""Seconds between two attempts to mask a batch while its format is unavailable."""

WAIT_SECONDS = 1.0
"""Seconds after which a wait for a commit records a heartbeat and polls the group."""

CLOSE_SECONDS = 10.0
"""Seconds that the clients of a session have to close."""

FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 5.0
"""The pause after a failure doubles with each further one in a row, from the first to the longest."""

Clients = tuple[Source, Transactions, MicroWindows | None]
"""The clients of a session, and its micro-windows; None if the mechanism masks no groups."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """One mask worker. It writes only in transactions, and nothing without statistics.

    ``connect`` makes the clients of a session. The source calls the function that it is given with partitions before
    they are revoked or lost. ``running`` waits for a time in seconds, if one is given, or until the process stops; it
    records a heartbeat, and returns False when the process stops.
    """

    connect: Callable[[Callable[[set[int]], None]], Clients]
    statistics: ActiveStatistics
    running: Callable[..., bool]
    report: WorkerReport

    def run(self) -> None:
        """Work until the process stops; then leave the group with no open transaction.

        Raises ServiceError if Kafka refuses the worker.
        """
        with closing(self.statistics):
            while self.running():
                try:
                    self._run_session()
                except SessionLostError as lost:
                    log.warning("a new session begins: %s", lost)
                    self._fail()
        log.info("left the group")

    def _run_session(self) -> None:
        with closing(_Session(self)) as session:
            session.open()
            while self.running():
                try:
                    session.turn()
                except AbortedError:
                    self._fail()
                    session.roll_back()

    def _fail(self) -> None:
        """Count a failure, and wait: longer with each failure in a row."""
        pause = FIRST_PAUSE_SECONDS * 2 ** min(self.report.failed() - 1, 10)
        self.running(min(LONGEST_PAUSE_SECONDS, pause))


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

    def open(self) -> None:
        """Initialise the transactions, while the process runs."""
        self._transactions.open()
        self._report.health.reason(STARTING, None)

    def close(self) -> None:
        """Settle the commit in progress and leave the group, in a limited time."""
        if not self._running():
            self._report.health.reason("stop", "stopping")
        self._finish()
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
            self._settle()
            source.poll(HOLD_SECONDS)
            return
        self._is_stale = False
        start, messages = time.monotonic(), source.read(self._is_committing)
        self._results = self._mask(messages) if self._running() else {}
        self._settle()
        results, self._results = self._results, {}
        if not self._running():
            return
        group = source.group() if results else None
        if self._is_stale or (results and group is None):
            self.roll_back()
        elif results:
            self._pending = _Pending(self._transactions.write(results, group), results, start)

    def roll_back(self) -> None:
        """Read all again from the offsets that were committed last."""
        if self._windows is not None:
            self._windows.drop(self._source.assigned)
        self._source.roll_back()

    def _is_committing(self) -> bool:
        return self._pending is not None and not self._pending.future.done()

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
                results = {p: masker.mask(topic, p, one, statistics_version=version) for p, one in inputs.items()}
        except FormatUnavailableError as error:
            self._report.format_unavailable(str(error))
            self._is_stale = True
            self._running(FORMAT_RETRY_SECONDS)
            return {}
        if results:
            self._report.format_unavailable(None)
        return results

    def _settle(self) -> None:
        """Wait until the batch before is committed, and poll the group meanwhile. Raises the error that ended it."""
        while not self._has_ended():
            self._source.poll()
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def _finish(self) -> None:
        """Settle the commit in progress without polling: a rebalance callback must not poll."""
        while not self._has_ended():
            pass

    def _revoke(self, partitions: set[int]) -> None:
        """Settle the commit in progress, and forget the records of partitions that go."""
        self._finish()
        self._is_stale |= not partitions.isdisjoint(self._results)
        if self._windows is not None:
            self._windows.drop(partitions)

    def _has_ended(self) -> bool:
        """Wait for the commit for a short time; return whether there is none any more. Raises nothing: rebalance
        callbacks call it, and the next ``_settle`` raises the error."""
        pending = self._pending
        if pending is None:
            return True
        if not wait([pending.future], WAIT_SECONDS).done:
            self._running()
            if not self._transactions.is_stuck():
                return False
            self._failure = SessionLostError("a transaction has been neither committed nor aborted in time")
        elif (failure := pending.future.exception()) is None:
            self._source.commit({partition: one.offsets[-1] + 1 for partition, one in pending.results.items()})
            self._report.committed(pending.future.result(), time.monotonic() - pending.start)
        else:
            aborted = isinstance(failure, AbortedError)
            self._report.ended(TransactionOutcome.ABORTED if aborted else TransactionOutcome.UNKNOWN)
            self._failure = failure if isinstance(failure, Exception) else SessionLostError("the process ends")
        self._pending = None
        return True
