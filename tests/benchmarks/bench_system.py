"""The whole system on one machine: one worker and two on a backlog, free or bound to cores, and beside a calibrator.

Run by hand: ``python tests/benchmarks/bench_system.py [--shape nested|flat] [--records 500000] [--batch 10000] [--only
CASE ...] [--rounds 1]``.

Starts a broker with four partitions. In each case the workers mask a few records and are paused while the topic is
filled; then all continue at once. The rate is that of committed offsets, from the time when every partition progresses
until the first is done, so it excludes start and end. A calibrator starts before the workers and merges their blocks
while they work. The table also shows the processor time per record, the rate at which it would keep all cores busy,
which is an upper bound for any number of workers, and the calibrator's processor time, in all and for computing
versions. ``--rounds``: the cases run in turn and back, so that a slow change of the machine's speed concerns all alike.
"""

from __future__ import annotations

import contextlib
import operator
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from itertools import chain
from typing import NamedTuple

from confluent_kafka import Consumer, TopicPartition
from measuring import processor_seconds, table
from streaming import PARTITIONS, Stream, await_that, broker, child, metrics, stream_arguments
from support.kafka_broker import free_ports

from stream_masker.service.kafka.names import consumer_group_id

CORES = sorted(os.sched_getaffinity(0))
CASES: dict[str, tuple[list[int | None], bool]] = {
    "one worker": ([None], False),
    "one worker beside a calibrator": ([None], True),
    "two workers": ([None, None], False),
    "one worker on one core": ([CORES[0]], False),
    "two workers on a core each": ([CORES[0], CORES[-1]], False),
}
"""The core of each worker, None for any, and whether a calibrator runs."""

WORKERS_ROLES = ("input", "output", "rejected", "calibration")
"""The topics that each measurement of workers alone has of its own; the statistics are shared."""

WARM = 20_000
"""The number of records for warming up."""

DONE = 0.95
"""The share of a partition's records at which it counts as done; the rest is already fetched."""

SHARED = 15.0
"""The time for started workers to share the partitions, in seconds."""

LEAST_TRANSACTIONS = 20
"""The minimum number of transactions. With fewer, the measured interval contains too few of them."""

LOOK = 0.02
"""The poll interval of committed offsets, in seconds."""

COMPUTING, VERSIONS = "stream_masker_calibration_duration_seconds_sum", "stream_masker_statistics_version"
HEAD = ("", "records/s", "µs a record: worker", "broker", "all cores busy at", "calibrator, s", "of which computing")


class Spent(NamedTuple):
    """Elapsed seconds, and processor seconds of the workers and of the broker."""

    clock: float
    workers: float
    broker: float

    @classmethod
    def now(cls, workers: Sequence[int], broker: int) -> Spent:
        return cls(time.perf_counter(), sum(map(processor_seconds, workers)), processor_seconds(broker))


def main() -> None:
    only = {"nargs": "+", "choices": CASES, "default": list(CASES), "metavar": "CASE"}
    given = stream_arguments(__doc__, {"--only": only, "--rounds": 1})
    if given.records < LEAST_TRANSACTIONS * given.batch:
        sys.exit(f"--records is {given.records}; use at least {LEAST_TRANSACTIONS} times --batch")
    with broker() as (folder, cluster):
        stream = Stream.prepared(folder, cluster.bootstrap, given)
        stream.calibrate()
        title = f"{given.records:,} {given.shape} events, transactions of {given.batch:,}, {len(CORES)} cores"
        turns = [given.only, given.only[::-1]] * given.rounds
        cases = chain.from_iterable(turns[: given.rounds])
        pid = cluster.brokers[1].process.pid
        table(title, HEAD, ([case, *measured(stream, *CASES[case], pid, given.records)] for case in cases))


def measured(
    shared: Stream, cores: Sequence[int | None], beside: bool, broker: int, records: int
) -> tuple[float | str, ...]:
    """Return the figures of a case: those of ``masking`` and of the calibrator. ``broker``: its process."""
    if not beside:
        return (*masking(shared.with_topics(WORKERS_ROLES), cores, broker, records), "", "")
    stream, (port,) = shared.with_topics((*WORKERS_ROLES, "statistics", "drift")), free_ports(1)
    stream.calibrate()
    with child(stream.command("calibrator", port=port)) as calibrator:
        await_that(lambda: metrics(port).get(VERSIONS, 0) >= 1, calibrator, seconds=60, every=0.2)
        before = processor_seconds(calibrator.pid)
        figures = masking(stream, cores, broker, records)
        return (*figures, processor_seconds(calibrator.pid) - before, metrics(port)[COMPUTING])


def masking(stream: Stream, cores: Sequence[int | None], broker: int, records: int) -> tuple[float, ...]:
    """Return the rate, the microseconds per record of worker and broker, and the rate that keeps all cores busy."""
    stream.fill(WARM)
    with contextlib.ExitStack() as ending:
        workers = [ending.enter_context(child(stream.command("worker"), core)) for core in cores]
        settled = ending.enter_context(contextlib.closing(Settled(stream)))
        time.sleep(SHARED)
        before = settled.until(workers, lambda now: sum(now) >= WARM)
        for process in workers:
            process.send_signal(signal.SIGSTOP)
        stream.fill(records)
        for process in workers:
            process.send_signal(signal.SIGCONT)
        pids, done = [process.pid for process in workers], DONE * records / PARTITIONS
        start_at = settled.until(workers, lambda now: all(map(operator.lt, before, now)))
        start = Spent.now(pids, broker)
        end_at = settled.until(workers, lambda now: any(n - b >= done for n, b in zip(now, before, strict=True)))
        end, counted = Spent.now(pids, broker), sum(end_at) - sum(start_at)
    if not counted:
        sys.exit("a partition was done before every partition had progressed: use more --records")
    spent = [1e6 * (end.workers - start.workers) / counted, 1e6 * (end.broker - start.broker) / counted]
    return (counted / (end.clock - start.clock), *spent, 1e6 * len(CORES) / sum(spent))


class Settled:
    """The workers' committed offsets by partition, queried from the broker so that no reader uses the processors."""

    def __init__(self, stream: Stream) -> None:
        group = consumer_group_id(stream.configuration)
        self.client = Consumer({"bootstrap.servers": stream.bootstrap, "group.id": group, "enable.auto.commit": False})
        topic = stream.configuration.topics.input
        self.partitions = [TopicPartition(topic, partition) for partition in range(PARTITIONS)]

    def until(self, workers: list[subprocess.Popen[bytes]], enough: Callable[[list[int]], bool]) -> list[int]:
        """Wait until ``enough`` is true; return the committed offsets."""
        while not enough(offsets := [max(0, p.offset) for p in self.client.committed(self.partitions, 30)]):
            assert all(process.poll() is None for process in workers), "a worker ended"
            time.sleep(LOOK)
        return offsets

    def close(self) -> None:
        self.client.close()


if __name__ == "__main__":
    main()
