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

import argparse
import contextlib
import operator
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition

sys.path[:0] = [str(Path(__file__).parent)]

from bench_kafka import CLI, PARTITIONS, SHAPES, calibrate, fill, prepared, with_own_topics
from kafka_broker import running
from measuring import processor_seconds, table

from stream_masker.service.configuration import Configuration
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


@dataclass(frozen=True)
class Spent:
    """Elapsed seconds, and processor seconds of the workers, the broker and this process."""

    clock: float
    workers: float
    broker: float

    @classmethod
    def now(cls, workers: Sequence[int], broker: int) -> Spent:
        return cls(time.perf_counter(), sum(map(processor_seconds, workers)), processor_seconds(broker))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=500_000)
    parser.add_argument("--batch", type=int, default=10_000)
    parser.add_argument("--shape", choices=SHAPES, default="nested", help="the documentation's event and configuration")
    options = parser.parse_args()
    if options.records < LEAST_TRANSACTIONS * options.batch:
        parser.error(
            f"--records is {options.records}; use at least {LEAST_TRANSACTIONS} transactions of --batch records"
        )
    cores = sorted(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as name, running(Path(name), brokers=1, heap="1g") as cluster:
        bench = Bench(Path(name), cluster.bootstrap, cluster.brokers[1].process.pid, options)
        rows = [
            bench.row("one worker", [None]),
            bench.row("two workers", [None, None]),
            bench.row("one worker on one core", [cores[0]]),
            bench.row("two workers on a core each", [cores[0], cores[-1]]),
        ]
    title = f"{options.records:,} {options.shape} events, transactions of {options.batch:,}, {len(cores)} cores"
    table(title, ("", "records/s", "µs a record: worker", "broker", "all cores busy at"), rows)


class Bench:
    """A broker with separate topics for each measurement."""

    def __init__(self, folder: Path, bootstrap: str, broker: int, options: argparse.Namespace) -> None:
        self.folder, self.broker, self.records = folder, broker, options.records
        prepared(folder, bootstrap, options.batch, options.shape)
        calibrate(folder, folder / "stream-masker.yaml")

    def row(self, name: str, cores: Sequence[int | None]) -> tuple[object, ...]:
        """Measure one row. ``cores``: the core of each worker; None for any."""
        path, configuration = with_own_topics(self.folder, secrets.token_hex(4), ROLES)
        fill(configuration, WARM)
        with contextlib.ExitStack() as ending:
            workers = [ending.enter_context(worker(path, core)) for core in cores]
            settled = ending.enter_context(contextlib.closing(Settled(configuration)))
            time.sleep(SHARED)
            before = settled.until(workers, lambda now: sum(now) >= WARM)
            for process in workers:
                process.send_signal(signal.SIGSTOP)
            fill(configuration, self.records)
            for process in workers:
                process.send_signal(signal.SIGCONT)
            return (name, *self.measured(settled, workers, before))

    def measured(
        self, settled: Settled, workers: list[subprocess.Popen[bytes]], before: list[int]
    ) -> tuple[float, ...]:
        """Return the rate, the microseconds per record of worker and broker, and the rate that keeps all cores busy."""
        pids, each = [process.pid for process in workers], self.records / PARTITIONS
        start_at = settled.until(workers, lambda now: all(map(operator.lt, before, now)))
        start = Spent.now(pids, self.broker)
        end_at = settled.until(workers, lambda now: any(n - b >= DONE * each for n, b in zip(now, before, strict=True)))
        records, end = sum(end_at) - sum(start_at), Spent.now(pids, self.broker)
        if not records:
            sys.exit("a partition was done before every partition had progressed: use more --records")
        spent = [
            1e6 * (after - earlier) / records
            for earlier, after in ((start.workers, end.workers), (start.broker, end.broker))
        ]
        return (records / (end.clock - start.clock), *spent, 1e6 * len(os.sched_getaffinity(0)) / sum(spent))


class Settled:
    """The workers' committed offsets by partition, queried from the broker so that no reader uses the processors."""

    def __init__(self, configuration: Configuration) -> None:
        bootstrap, topic = configuration.kafka.bootstrap_servers, configuration.topics.input
        settings = {
            "bootstrap.servers": bootstrap,
            "group.id": consumer_group_id(configuration),
            "enable.auto.commit": False,
        }
        self.client = Consumer(settings)
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


@contextlib.contextmanager
def worker(path: Path, core: int | None) -> Iterator[subprocess.Popen[bytes]]:
    pinned = () if core is None else ("taskset", "--cpu-list", str(core))
    command = [*pinned, *CLI, "worker", "--config", str(path), "--http-port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGCONT)
        process.terminate()
        process.wait()


if __name__ == "__main__":
    main()
