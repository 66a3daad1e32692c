"""The mask worker's main loop: follow the statistics, gather a batch, mask it, write it in one transaction."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from stream_masker.service.health import Health
from stream_masker.service.producer import Outcome, TransactionalProducer
from stream_masker.service.statistics_topic import Follower, InForce
from stream_masker.service.worker_batch import Gathered, Limits, Masker, Outputs, Writer, Written, mask_batch
from stream_masker.service.worker_report import Report
from stream_masker.service.worker_source import Source

log = logging.getLogger(__name__)

HELD_WAIT = 0.2
"""Seconds between two looks for statistics while there are none."""

FIRST_PAUSE = 0.1
LONGEST_PAUSE = 5.0
"""Seconds to wait after a failed transaction; doubled with each further failure in a row."""


class Life:
    """Whether to go on. Every turn of every loop asks, which also shows that the loop is alive."""

    def __init__(self, health: Health, stop: threading.Event) -> None:
        self._health = health
        self._stop = stop

    def turn(self) -> bool:
        """False: stopping."""
        self._health.beat()
        return not self._stop.is_set()

    def pause(self, seconds: float) -> bool:
        """Waits, but not when stopping; then as ``turn``."""
        self._stop.wait(seconds)
        return self.turn()


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What a worker is made of."""

    source: Source
    producer: TransactionalProducer
    follower: Follower
    in_force: InForce
    masker: Masker
    outputs: Outputs
    limits: Limits
    life: Life
    health: Health
    report: Report


class Worker:
    """One mask worker. It writes nothing but in transactions, and nothing at all without statistics."""

    def __init__(self, parts: Parts, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._parts = parts
        self._clock = clock
        self._failures = 0

    def run(self) -> None:
        """Works until told to stop; then leaves the group, with no transaction open."""
        parts = self._parts
        try:
            if parts.producer.open():
                parts.source.subscribe()
                parts.health.reason("start", None)
            while parts.life.turn():
                self.turn()
        finally:
            self._close()

    def turn(self) -> None:
        """One turn of the loop: new statistics, then at most one batch."""
        parts = self._parts
        parts.in_force.consider(parts.follower.poll())
        parts.report.statistics(parts.in_force, parts.follower)
        if parts.in_force.version:
            self._work()
        else:
            self._hold()
        parts.report.partitions(parts.source)

    def _hold(self) -> None:
        self._parts.source.hold()
        self._parts.source.idle(HELD_WAIT)

    def _work(self) -> None:
        self._parts.source.resume()
        batch = self._parts.source.gather(self._parts.limits)
        if batch.records:
            self._finish(batch, self._process(batch))

    def _process(self, batch: Gathered) -> Outcome:
        """Masks a batch and writes it. Only the member that the partitions were assigned to may do so."""
        parts, start, written = self._parts, self._clock(), Written()
        group = parts.source.group()
        if group is None:
            return Outcome.ABORTED
        results = mask_batch(parts.masker, parts.outputs.input, batch, statistics_version=parts.in_force.version)
        outcome = parts.producer.write(
            lambda send: Writer(parts.outputs, send, written).write(results), parts.source.offsets(batch), group
        )
        parts.report.batch(outcome, written, self._clock() - start)
        return outcome

    def _finish(self, batch: Gathered, outcome: Outcome) -> None:
        if outcome is Outcome.COMMITTED:
            self._failures = 0
            self._parts.source.advance(batch)
        else:
            self._failures += 1
            self._parts.life.pause(pause_after(self._failures))
            self._parts.source.rewind(batch)
        self._parts.report.failures(self._failures)

    def _close(self) -> None:
        parts = self._parts
        parts.health.reason("stop", "stopping")
        parts.producer.close()
        parts.source.close()
        parts.follower.close()
        log.info("left the group")


def pause_after(failures: int) -> float:
    """Seconds to wait after so many failed transactions in a row."""
    return float(min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** min(failures - 1, 10)))
