"""The mask worker's main loop: follow the statistics, gather a batch, mask and write it while the last one commits."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

from stream_masker.pipeline.records import Result
from stream_masker.service.kafka.transactional_producer import TransactionOutcome
from stream_masker.service.observability.health import Health
from stream_masker.service.worker.background import BackgroundRunner
from stream_masker.service.worker.batch import (
    KafkaMessage,
    MessageBatch,
    OutputTopics,
    TransactionCounts,
    TransactionWriter,
    mask_batch,
    never_hold,
)
from stream_masker.service.worker.commit_pipeline import (
    COMMIT_STUCK_SECONDS,
    EXPEDITED_STUCK_SECONDS,
    CommitPipeline,
    PendingCommit,
)
from stream_masker.service.worker.report import WorkerReport
from stream_masker.service.worker.source import PartitionSource
from stream_masker.service.worker.statistics_consumer import ActiveStatistics, StatisticsConsumer

log = logging.getLogger(__name__)

HELD_POLL_SECONDS = 0.2
"""Seconds between two looks for statistics while there are none."""

FIRST_PAUSE = 0.1
LONGEST_PAUSE = 5.0
"""Seconds to wait after a failed transaction; doubled with each further failure in a row."""


class Liveness:
    """Whether to go on. Every turn of the main loop, and of every loop within, asks: so it shows that it is alive."""

    def __init__(self, health: Health, stop: threading.Event) -> None:
        self._health = health
        self._stop = stop

    def going(self) -> bool:
        """False: stopping. For other threads, whose life proves nothing."""
        return not self._stop.is_set()

    def turn(self) -> bool:
        """False: stopping."""
        self._health.beat()
        return self.going()

    def pause(self, seconds: float) -> bool:
        """Waits, but not when stopping; then as ``turn``."""
        self._stop.wait(seconds)
        return self.turn()


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerComponents:
    """What a worker is made of. ``may_hold``: whether records that are too small a group may wait for more."""

    source: PartitionSource
    lanes: CommitPipeline
    aside: BackgroundRunner
    follower: StatisticsConsumer
    in_force: ActiveStatistics
    outputs: OutputTopics
    life: Liveness
    health: Health
    report: WorkerReport
    may_hold: Callable[[Sequence[KafkaMessage]], bool] = never_hold


@dataclass(slots=True)
class InFlightBatch:
    """A batch, what its transaction holds, and the transaction's commit from its beginning on."""

    batch: MessageBatch
    start: float
    written: TransactionCounts = field(default_factory=TransactionCounts)
    commit: PendingCommit | None = None


class Worker:
    """One mask worker. It writes nothing but in transactions, and nothing at all without statistics.

    At most two batches are on their way: one commits while the next is masked and written; what comes meanwhile is
    read ahead for the one after that. When the first fails, all are read again from the committed offsets.
    """

    def __init__(self, parts: WorkerComponents, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._parts = parts
        self._clock = clock
        self._flight: InFlightBatch | None = None
        self._failed: list[MessageBatch] = []
        self._failures = 0

    def run(self) -> None:
        """Works until told to stop; then leaves the group, with no transaction open."""
        parts = self._parts
        with ExitStack() as ending:
            self._close_at(ending)
            if parts.lanes.open():
                parts.source.subscribe(self.settle_at_once)
                parts.health.reason("start", None)
            while parts.life.turn():
                self.turn()

    def turn(self) -> None:
        """One turn of the loop: new statistics, then at most one batch."""
        parts = self._parts
        parts.source.renew()
        if published := parts.follower.poll():
            parts.aside.run(lambda: parts.in_force.consider(published))
        parts.report.statistics(parts.in_force, parts.follower)
        if parts.in_force.version:
            self._work()
        else:
            self._hold()
        parts.report.partitions(parts.source)

    def settle_at_once(self) -> None:
        """Waits for the batch that is committing, and hurries it: partitions are to be given up."""
        if (flight := self._flight) is not None and flight.commit is not None:
            lanes, outcome = self._parts.lanes, flight.commit.outcome
            lanes.hurry()
            done = wait([outcome], EXPEDITED_STUCK_SECONDS).done
            self._land(flight, outcome.result if done else lanes.forsake)

    def _hold(self) -> None:
        self._parts.source.hold()
        self._parts.source.idle(HELD_POLL_SECONDS)

    def _work(self) -> None:
        self._parts.source.resume()
        batch = self._parts.source.gather()
        if not self._parts.life.turn():
            return
        if batch.records:
            self._process(InFlightBatch(batch, self._clock()))
        else:
            self._settle()
        if self._failed:
            self._read_again()

    def _process(self, flight: InFlightBatch) -> None:
        """Masks and writes a batch while the last one commits; then lets it commit, if the last one did.

        Only the member that the partitions were assigned to may do so.
        """
        lanes, source = self._parts.lanes, self._parts.source
        results = self._masked(flight)
        if not flight.batch.records:
            self._settle()
            return
        filled = self._filled(flight, results)
        settled = self._settle()
        group = source.group()
        if filled and settled and group is not None:
            flight.commit = lanes.commit(source.offsets(flight.batch), group)
            self._flight = flight
        else:
            self._fail(flight, self._aborted() if filled else None)

    def _masked(self, flight: InFlightBatch) -> dict[int, Result]:
        """Masks a batch; what is too small a group goes back to what is gathered."""
        parts = self._parts
        version, masker, topic = parts.in_force.version, parts.in_force.masking.masker, parts.outputs.input
        done = parts.aside.run(
            lambda: mask_batch(masker, topic, flight.batch, statistics_version=version, may_hold=parts.may_hold),
            meanwhile=parts.source.read_ahead,
        )
        parts.source.put_back(flight.batch, done.short)
        return done.results

    def _filled(self, flight: InFlightBatch, results: dict[int, Result]) -> bool:
        """Writes a batch as soon as the last one's records stand in the log; whether that worked."""
        parts, last, masking = self._parts, self._flight, self._parts.in_force.masking
        if last is not None and last.commit is not None:
            self._in_log(last, last.commit)
        if self._failed:
            return False
        outputs = replace(parts.outputs, configuration=masking.configuration.hash)
        writer = lambda send: TransactionWriter(outputs, send, flight.written).write(results)  # noqa: E731
        outcome = parts.aside.run(lambda: parts.lanes.fill(writer), meanwhile=parts.source.read_ahead)
        self._count(flight, outcome)
        return outcome is None

    def _in_log(self, last: InFlightBatch, commit: PendingCommit) -> None:
        """Waits until the last batch's records stand in the log; a commit that is stuck before that has failed."""
        try:
            self._parts.aside.wait(commit.in_log, self._stuck)
        except TimeoutError:
            self._land(last, self._parts.lanes.forsake)

    def _wait_for(self, flight: InFlightBatch, ending: Future[TransactionOutcome]) -> None:
        """Waits for a batch's commit. While it does, partitions may be given up, which also lands the batch."""
        try:
            self._parts.aside.wait(ending, self._stuck)
        except TimeoutError:
            self._land(flight, self._parts.lanes.forsake)
        else:
            self._land(flight, ending.result)

    def _stuck(self) -> float:
        """Seconds after which a transaction is stuck."""
        return COMMIT_STUCK_SECONDS if self._parts.life.going() else EXPEDITED_STUCK_SECONDS

    def _aborted(self) -> TransactionOutcome:
        """Aborts what was filled; an abort that is stuck is given up."""
        try:
            return self._parts.aside.wait(self._parts.lanes.abort(), self._stuck)
        except TimeoutError:
            return self._parts.lanes.forsake()

    def _settle(self) -> bool:
        """Waits for the batch that is committing; whether nothing has failed."""
        if (flight := self._flight) is not None and flight.commit is not None:
            self._wait_for(flight, flight.commit.outcome)
        return not self._failed

    def _land(self, flight: InFlightBatch, outcome_of: Callable[[], TransactionOutcome]) -> None:
        """Takes note of what became of a batch, once."""
        if flight is not self._flight:
            return
        self._flight = None
        outcome = outcome_of()
        if outcome is TransactionOutcome.COMMITTED:
            self._failures = 0
            self._parts.source.advance(flight.batch)
            self._count(flight, outcome)
            self._parts.report.failures(0)
        else:
            self._fail(flight, outcome)

    def _fail(self, flight: InFlightBatch, outcome: TransactionOutcome | None) -> None:
        self._failed.append(flight.batch)
        self._count(flight, outcome)

    def _count(self, flight: InFlightBatch, outcome: TransactionOutcome | None) -> None:
        if outcome is not None:
            self._parts.report.batch(outcome, flight.written, self._clock() - flight.start)

    def _read_again(self) -> None:
        parts = self._parts
        self._failures += 1
        parts.report.failures(self._failures)
        parts.life.pause(pause_after(self._failures))
        parts.aside.run(parts.lanes.open)
        parts.source.rewind(self._failed)
        self._failed.clear()

    def _close_at(self, ending: ExitStack) -> None:
        """What is to be done at the end, whatever happens: the last thing first."""
        parts = self._parts
        ending.callback(log.info, "left the group")
        for part in (parts.follower, parts.source, parts.lanes):
            ending.callback(part.close)
        ending.callback(self.settle_at_once)
        ending.callback(parts.health.reason, "stop", "stopping")


def pause_after(failures: int) -> float:
    """Seconds to wait after so many failed transactions in a row."""
    return float(min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** min(failures - 1, 10)))
