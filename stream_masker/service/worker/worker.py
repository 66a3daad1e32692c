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
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, wait
from contextlib import closing
from dataclasses import dataclass

from stream_masker.errors import ServiceError
from stream_masker.pipeline.formats import FormatUnavailableError
from stream_masker.pipeline.records import Result
from stream_masker.service.kafka.messages import Partition
from stream_masker.service.observability.health import Health
from stream_masker.service.runtime.process import SerialExecutor
from stream_masker.service.worker.groups import Batch, MicroWindows, mask_batch
from stream_masker.service.worker.outcomes import TransactionCounts
from stream_masker.service.worker.report import TransactionOutcome, WorkerReport
from stream_masker.service.worker.source import Source
from stream_masker.service.worker.statistics import StatisticsSource
from stream_masker.service.worker.transactions import AbortedError, SessionLostError, Transactions

log = logging.getLogger(__name__)

HOLD_SECONDS = 0.2
"""Seconds between two looks for statistics while there are none."""

FORMAT_RETRY_SECONDS = 2.0
"""Seconds between two attempts to mask a batch while its format is unavailable."""

WAIT_SECONDS = 0.5
"""Seconds after which a wait for a commit records a heartbeat; after the second one it polls the group."""

STUCK_SECONDS = 20.0
"""Seconds without a new step of a transaction after which its thread is given up. A call to librdkafka may never
return, despite its timeout, when brokers restart: ``send_offsets_to_transaction`` has done so."""

CLOSE_SECONDS = 10.0
"""Seconds that the clients of a session have to close."""

FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 5.0
"""The pause after a failure doubles with each further one in a row, from the first to the longest."""

MAX_FENCINGS = 3
"""This many fencings within ``FENCING_SECONDS`` mean that another process uses the same transactional id."""

FENCING_SECONDS = 60.0


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


class Failures:
    """Counts failures in a row, with growing pauses between them, and fencings by another process."""

    def __init__(self, liveness: Liveness, report: WorkerReport, clock: Callable[[], float] = time.monotonic) -> None:
        self._liveness, self._report, self._clock = liveness, report, clock
        self._in_a_row = 0
        self._fencings: deque[float] = deque(maxlen=MAX_FENCINGS)

    def add(self, failure: Exception) -> None:
        """Count a failure, and wait. Raises ServiceError if other processes fence this one again and again."""
        if isinstance(failure, SessionLostError) and failure.fenced:
            self._fencings.append(self._clock())
            if len(self._fencings) == MAX_FENCINGS and self._fencings[-1] - self._fencings[0] < FENCING_SECONDS:
                raise ServiceError("another process uses the same worker.instance: give each worker its own")
        self._in_a_row += 1
        self._report.failures(self._in_a_row)
        self._liveness.pause(min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2 ** min(self._in_a_row - 1, 10)))

    def end(self) -> None:
        """Note that a transaction is committed."""
        if self._in_a_row:
            self._in_a_row = 0
            self._report.failures(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerParts:
    """The parts of a worker.

    ``connect``, ``transactions`` and ``windows`` make those of a session: ``connect`` the source, from the functions
    ``before_revoke`` and ``forget`` that it calls; ``windows`` None if the mechanism masks no groups.
    """

    connect: Callable[[Callable[[], None], Callable[[Iterable[Partition]], None]], Source]
    transactions: Callable[[], Transactions]
    windows: Callable[[], MicroWindows | None]
    statistics: StatisticsSource
    liveness: Liveness
    health: Health
    report: WorkerReport


@dataclass(frozen=True, slots=True)
class _Pending:
    """A batch that is being written: where it began in seconds of the clock, and the offsets that it commits."""

    future: Future[TransactionCounts]
    offsets: dict[Partition, int]
    start: float


class Worker:
    """One mask worker. It writes only in transactions, and nothing without statistics."""

    def __init__(self, parts: WorkerParts) -> None:
        self._parts = parts
        self._failures = Failures(parts.liveness, parts.report)

    def run(self) -> None:
        """Work until the process stops; then leave the group with no open transaction.

        Raises ServiceError if Kafka refuses the worker, or another process uses its transactional id.
        """
        parts = self._parts
        with closing(parts.statistics):
            while parts.liveness.beat():
                session = Session(parts, self._failures)
                try:
                    session.run()
                except SessionLostError as lost:
                    log.warning("a new session begins: %s", lost)
                    session.close()
                    self._failures.add(lost)
                finally:
                    if not parts.liveness.running():
                        parts.health.reason("stop", "stopping")
                    session.close()
        log.info("left the group")


class Session:
    """One consumer, one producer, and the batch between them."""

    def __init__(self, parts: WorkerParts, failures: Failures, clock: Callable[[], float] = time.monotonic) -> None:
        self._parts, self._failures, self._clock = parts, failures, clock
        self._windows = parts.windows()
        self._transactions = parts.transactions()
        self._source = parts.connect(self._before_revoke, self._forget)
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
            except AbortedError as failure:
                self._failures.add(failure)
                self._source.roll_back()

    def close(self) -> None:
        """Settle the commit in progress and leave the group, in a limited time."""
        if not self._closed:
            self._closed = True
            self._before_revoke()
            closing = SerialExecutor("closing")
            wait([closing.submit(self._source.close), closing.submit(self._transactions.close)], CLOSE_SECONDS)

    def _turn(self) -> None:
        parts = self._parts
        parts.statistics.poll()
        parts.report.statistics(parts.statistics)
        parts.report.partitions(self._source)
        if not parts.statistics.active.version:
            self._settle()
            self._source.poll(HOLD_SECONDS)
            return
        self._source.join()
        start, batch = self._clock(), self._source.read(self._is_committing)
        if self._windows is not None:
            self._windows.add(batch, self._clock())
            batch = self._windows.take(self._clock())
        self._batch = batch
        results = self._mask(batch) if batch.groups and parts.liveness.beat() else {}
        self._settle()
        if batch.revoked:
            self._source.give_back(batch)
        elif results and parts.liveness.running():
            self._write(batch, results, start)

    def _mask(self, batch: Batch) -> dict[Partition, Result]:
        """Mask a batch. If the format of the records is not available, the batch is read again after a while."""
        report, statistics = self._parts.report, self._parts.statistics.active
        masker, version = statistics.masking.masker, statistics.version
        try:
            if self._windows is None:
                results = mask_batch(masker, batch, version)
            else:
                results = self._windows.mask(masker, batch, version, self._clock())
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

    def _write(self, batch: Batch, results: dict[Partition, Result], start: float) -> None:
        """Start to write a batch, if this worker is still the member that its partitions were assigned to."""
        group = self._source.group()
        if group is None:
            self._source.give_back(batch)
        else:
            self._pending = _Pending(self._transactions.write(results, group), batch.next_offsets(), start)

    def _is_committing(self) -> bool:
        return self._pending is not None and not self._pending.future.done()

    def _settle(self) -> None:
        """Wait until the batch before is committed, and poll the group meanwhile. Raises the error that ended it."""
        waits = 0
        while self._pending is not None and not self._await_commit():
            waits += 1
            if waits > 1:
                self._source.poll()
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def _forget(self, partitions: Iterable[Partition]) -> None:
        """Forget the records of partitions that have gone or are read again."""
        self._batch.revoke(partitions)
        if self._windows is not None:
            self._windows.drop(partitions)

    def _before_revoke(self) -> None:
        """Settle the commit in progress without polling: a rebalance callback must not poll."""
        self._transactions.hurry()
        while self._pending is not None and not self._await_commit():
            pass

    def _await_commit(self) -> bool:
        """Wait for the commit for a short time; return whether it has ended or is given up."""
        pending = self._pending
        if pending is None:
            return True
        if wait([pending.future], WAIT_SECONDS).done:
            self._conclude(pending)
            return True
        self._parts.liveness.beat()
        if self._transactions.is_stuck(WAIT_SECONDS, STUCK_SECONDS):
            self._pending = None
            self._failure = SessionLostError("a transaction has been neither committed nor aborted in time")
            return True
        return False

    def _conclude(self, pending: _Pending) -> None:
        """Note how a transaction has ended. Rebalance callbacks call it, so it raises nothing."""
        self._pending = None
        report, failure = self._parts.report, pending.future.exception()
        if failure is None:
            self._source.commit(pending.offsets)
            report.committed(pending.future.result(), self._clock() - pending.start)
            self._failures.end()
            return
        report.ended(TransactionOutcome.ABORTED if isinstance(failure, AbortedError) else TransactionOutcome.UNKNOWN)
        self._failure = failure if isinstance(failure, Exception) else SessionLostError("the process ends")
