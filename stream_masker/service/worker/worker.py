"""The mask worker: sessions of one consumer and one transactional producer.

A turn of a session reads a batch, masks it, waits until the batch before is committed, and starts to write it on the
transactions' thread. So one batch commits while the next one is read and masked. There are two recoveries:

* A transaction that was aborted: every partition is read again from its committed offset.
* Anything else that the clients cannot go on after: a new session with new clients, which finds out from the committed
  offsets what the last one has done.

Before partitions are revoked, the commit in progress is settled. A batch that loses a partition is read again.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, wait
from contextlib import closing
from dataclasses import dataclass

from stream_masker.pipeline.formats import FormatUnavailableError
from stream_masker.pipeline.records import Result
from stream_masker.service.observability.health import Health
from stream_masker.service.process import in_background
from stream_masker.service.worker.groups import Batch, MicroWindows, mask_batch
from stream_masker.service.worker.report import TransactionOutcome, WorkerReport
from stream_masker.service.worker.source import Source
from stream_masker.service.worker.statistics import ActiveStatistics
from stream_masker.service.worker.transactions import (
    AbortedError,
    SessionLostError,
    Transactions,
    Written,
)

log = logging.getLogger(__name__)

HOLD_SECONDS = 0.2
"""Seconds between two looks for statistics while there are none."""

FORMAT_RETRY_SECONDS = 2.0
"""Seconds between two attempts to mask a batch while its format is unavailable."""

WAIT_SECONDS = 0.5
"""Seconds after which a wait for a commit records a heartbeat; after the second one it polls the group."""

CLOSE_SECONDS = 10.0
"""Seconds that the clients of a session have to close."""

FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 5.0
"""The pause after a failure doubles with each further one in a row, from the first to the longest."""


class Liveness:
    """Combines the stop flag ``stop`` with the heartbeat in ``health``."""

    def __init__(self, health: Health, stop: threading.Event) -> None:
        self._health, self._stop = health, stop

    def running(self) -> bool:
        """Return False when the process stops."""
        return not self._stop.is_set()

    def beat(self) -> bool:
        """Record a heartbeat. Return False when the process stops."""
        self._health.beat()
        return self.running()

    def pause(self, seconds: float) -> bool:
        """Wait for this time or until the process stops; then ``beat``."""
        self._stop.wait(seconds)
        return self.beat()


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerParts:
    """The parts of a worker.

    ``connect``, ``transactions`` and ``windows`` make those of a session: ``connect`` the source, from the functions
    ``before_revoke`` and ``forget`` that it calls; ``windows`` None if the mechanism masks no groups.
    """

    connect: Callable[[Callable[[], None], Callable[[Iterable[int]], None]], Source]
    transactions: Callable[[], Transactions]
    windows: Callable[[], MicroWindows | None]
    statistics: ActiveStatistics
    liveness: Liveness
    health: Health
    report: WorkerReport


class Worker:
    """One mask worker. It writes only in transactions, and nothing without statistics."""

    def __init__(self, parts: WorkerParts) -> None:
        self._parts = parts
        self._failures = 0

    def run(self) -> None:
        """Work until the process stops; then leave the group with no open transaction.

        Raises ServiceError if Kafka refuses the worker.
        """
        parts = self._parts
        with closing(parts.statistics):
            while parts.liveness.beat():
                session = Session(parts, self.failed, self.succeeded)
                try:
                    session.run()
                except SessionLostError as lost:
                    log.warning("a new session begins: %s", lost)
                    session.close()
                    self.failed()
                finally:
                    if not parts.liveness.running():
                        parts.health.reason("stop", "stopping")
                    session.close()
        log.info("left the group")

    def failed(self) -> None:
        """Count a failure, and wait: longer with each failure in a row."""
        self._failures += 1
        self._parts.report.failures(self._failures)
        pause = FIRST_PAUSE_SECONDS * 2 ** min(self._failures - 1, 10)
        self._parts.liveness.pause(min(LONGEST_PAUSE_SECONDS, pause))

    def succeeded(self) -> None:
        """Note that a transaction is committed."""
        if self._failures:
            self._failures = 0
            self._parts.report.failures(0)


@dataclass(frozen=True, slots=True)
class _Pending:
    """A batch that is being written: where it began in seconds of the clock, and the offsets that it commits."""

    future: Future[Written]
    offsets: dict[int, int]
    start: float


class Session:
    """One consumer, one producer, and the batch between them."""

    def __init__(self, parts: WorkerParts, failed: Callable[[], None], succeeded: Callable[[], None]) -> None:
        self._parts, self._failed, self._succeeded = parts, failed, succeeded
        self._windows = parts.windows()
        self._transactions = parts.transactions()
        self._source = parts.connect(self._finish, self._forget)
        self._batch = Batch()
        self._pending: _Pending | None = None
        self._failure: Exception | None = None
        self._closed = False

    def run(self) -> None:
        """Work until the process stops. Raises SessionLostError if the clients must be replaced."""
        self._transactions.open()
        self._parts.health.reason("start", None)
        while self._parts.liveness.beat():
            try:
                self._turn()
            except AbortedError:
                self._failed()
                self._source.roll_back()

    def close(self) -> None:
        """Settle the commit in progress and leave the group, in a limited time."""
        if not self._closed:
            self._closed = True
            self._finish()
            wait([in_background(self._source.close, name="closing")], CLOSE_SECONDS)
            self._transactions.close()

    def _turn(self) -> None:
        parts, source = self._parts, self._source
        parts.statistics.poll()
        parts.report.statistics(parts.statistics)
        parts.report.partitions(source)
        if not parts.statistics.version:
            self._settle()
            source.poll(HOLD_SECONDS)
            return
        source.join()
        start, batch = time.monotonic(), source.read(self._is_committing)
        if self._windows is not None:
            self._windows.add(batch, time.monotonic())
            batch = self._windows.take(time.monotonic())
        self._batch = batch
        results = self._mask(batch) if batch.groups and parts.liveness.beat() else {}
        self._settle()
        if not parts.liveness.running() or not (results or batch.revoked):
            return
        group = None if batch.revoked else source.group()
        if group is None:
            source.give_back(batch)
        else:
            self._pending = _Pending(self._transactions.write(results, group), batch.next_offsets(), start)

    def _is_committing(self) -> bool:
        return self._pending is not None and not self._pending.future.done()

    def _mask(self, batch: Batch) -> dict[int, Result]:
        """Mask a batch. If the format of the records is not available, the batch is read again after a while."""
        report, active, topic = self._parts.report, self._parts.statistics, self._source.topic
        masker = active.masking.masker
        try:
            if self._windows is None:
                results = mask_batch(masker, topic, batch, active.version)
            else:
                results = self._windows.mask(masker, topic, batch, active.version, time.monotonic())
        except FormatUnavailableError as error:
            report.format_unavailable(str(error))
            self._settle()
            self._source.give_back(batch)
            batch.groups.clear()
            for _ in range(round(FORMAT_RETRY_SECONDS / HOLD_SECONDS)):
                if self._parts.liveness.beat():
                    self._source.poll(HOLD_SECONDS)
            return {}
        report.format_unavailable(None)
        return results

    def _settle(self) -> None:
        """Wait until the batch before is committed, and poll the group meanwhile. Raises the error that ended it."""
        waits = 0
        while not self._has_ended():
            waits += 1
            if waits > 1:
                self._source.poll()
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def _finish(self) -> None:
        """Settle the commit in progress without polling: a rebalance callback must not poll."""
        while not self._has_ended():
            pass

    def _forget(self, partitions: Iterable[int]) -> None:
        """Forget the records of partitions that have gone or are read again."""
        self._batch.revoke(partitions)
        if self._windows is not None:
            self._windows.drop(partitions)

    def _has_ended(self) -> bool:
        """Wait for the commit for a short time; return whether there is none any more. Raises nothing: rebalance
        callbacks call it, and the next ``_settle`` raises the error."""
        pending = self._pending
        if pending is None:
            return True
        if not wait([pending.future], WAIT_SECONDS).done:
            self._parts.liveness.beat()
            if not self._transactions.is_stuck():
                return False
            self._failure = SessionLostError("a transaction has been neither committed nor aborted in time")
        elif (failure := pending.future.exception()) is None:
            self._source.commit(pending.offsets)
            self._parts.report.committed(pending.future.result(), time.monotonic() - pending.start)
            self._succeeded()
        else:
            aborted = isinstance(failure, AbortedError)
            self._parts.report.ended(TransactionOutcome.ABORTED if aborted else TransactionOutcome.UNKNOWN)
            self._failure = failure if isinstance(failure, Exception) else SessionLostError("the process ends")
        self._pending = None
        return True
