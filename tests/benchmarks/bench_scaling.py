"""The speed-up by a second mask worker through a real Kafka, and its limit: the processor time of each process.

Run by hand: ``python tests/benchmarks/bench_scaling.py [--shape nested|flat] [--records 500000] [--batch 10000]``.

Starts a broker and measures one worker process, then two, on four partitions: first on any core, then each pinned to
its own core (with one worker on one core as the base; the broker uses all cores). The workers mask a few records and
are paused while the topic is filled; then all continue at once. The rate is that of committed offsets, from the time
when every partition progresses until the first is done, so it excludes start and end. The table also shows the
processor time per record, and the rate at which it would keep all cores busy, which is an upper bound for any number of
workers.
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
from typing import NamedTuple

from confluent_kafka import Consumer, TopicPartition
from measuring import processor_seconds, table
from streaming import PARTITIONS, Stream, broker, child, parser

from stream_masker.service.kafka.names import consumer_group_id

ROLES = ("input", "output", "rejected", "calibration")
"""The topics that each measurement has of its own; the statistics are shared."""

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


class Spent(NamedTuple):
    """Elapsed seconds, and processor seconds of the workers and of the broker."""

    clock: float
    workers: float
    broker: float

    @classmethod
    def now(cls, workers: Sequence[int], broker: int) -> Spent:
        return cls(time.perf_counter(), sum(map(processor_seconds, workers)), processor_seconds(broker))


def main() -> None:
    options = parser(__doc__, records=500_000)
    given = options.parse_args()
    if given.records < LEAST_TRANSACTIONS * given.batch:
        options.error(
            f"--records is {given.records}; use at least {LEAST_TRANSACTIONS} transactions of --batch records"
        )
    cores = sorted(os.sched_getaffinity(0))
    with broker() as (folder, cluster):
        stream = Stream.prepared(folder, cluster.bootstrap, given)
        stream.calibrate()
        pid = cluster.brokers[1].process.pid
        rows = [
            (name, *measured(stream.with_topics(ROLES), pinned, pid, given.records))
            for name, pinned in {
                "one worker": [None],
                "two workers": [None, None],
                "one worker on one core": [cores[0]],
                "two workers on a core each": [cores[0], cores[-1]],
            }.items()
        ]
    title = f"{given.records:,} {given.shape} events, transactions of {given.batch:,}, {len(cores)} cores"
    table(title, ("", "records/s", "µs a record: worker", "broker", "all cores busy at"), rows)


def measured(stream: Stream, cores: Sequence[int | None], broker: int, records: int) -> tuple[float, ...]:
    """Return the rate, the microseconds per record of worker and broker, and the rate that keeps all cores busy.

    ``cores``: the core of each worker; None for any. ``broker``: its process.
    """
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
    return (counted / (end.clock - start.clock), *spent, 1e6 * len(os.sched_getaffinity(0)) / sum(spent))


class Settled:
    """The workers' committed offsets by partition, queried from the broker so that no reader uses the processors."""

    def __init__(self, stream: Stream) -> None:
        group = consumer_group_id(stream.configuration)
        self.client = Consumer({"bootstrap.servers": stream.bootstrap, "group.id": group, "enable.auto.commit": False})
        topic = stream.configuration.topics.input
        self.partitions = [TopicPartition(topic, partition) for partition in range(PARTITIONS)]

    def records(self) -> list[int]:
        return [max(0, there.offset) for there in self.client.committed(self.partitions, 30)]

    def until(self, workers: list[subprocess.Popen[bytes]], enough: Callable[[list[int]], bool]) -> list[int]:
        """Wait until ``enough`` is true; return the committed offsets."""
        while not enough(records := self.records()):
            assert all(process.poll() is None for process in workers), "a worker ended"
            time.sleep(LOOK)
        return records

    def close(self) -> None:
        self.client.close()


if __name__ == "__main__":
    main()
