"""What a second mask worker brings, through a real Kafka, and what limits it: processor time by process.

Run by hand: ``python tests/benchmarks/bench_scaling.py [--shape nested|flat] [--records 500000] [--batch 10000]``.

Starts a broker of its own and measures one worker, then two, each a process, of four partitions: free to run anywhere,
and then each on a core of its own (one worker on one core as their base; the broker on all of them). Workers first mask
a few records and are stopped while the topic is filled; then all go on at once. The rate is that of committed offsets,
from when every partition moves until the first is done, so that no start and no end is in it. Beside it stands the
processor time that a record takes, and the rate at which that alone would keep all cores busy: no number of workers
beside this broker can be faster.
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

import yaml
from confluent_kafka import Consumer, TopicPartition

sys.path[:0] = [str(Path(__file__).parent)]

from bench_kafka import CLI, PARTITIONS, SHAPES, configured, fill, run
from kafka_broker import running
from measuring import table

from stream_masker.service.configuration import Configuration, load_configuration
from stream_masker.service.kafka.topics import prepare_topics
from stream_masker.service.runtime.warmup import warm_up
from stream_masker.service.worker.client_properties import consumer_group_id

WARM = 20_000
"""Records that are masked before."""

DONE = 0.95
"""A partition is done at this share of its records: what its reader still has to read counts no more."""

SHARED = 15.0
"""Seconds after which workers that were started have shared the partitions."""

LOOK = 0.02
"""Seconds between two looks at what is committed."""

TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Spent:
    """Seconds since some beginning: of the clock, and of processors by workers, by the broker, by this reader."""

    clock: float
    workers: float
    broker: float

    @classmethod
    def now(cls, workers: Sequence[int], broker: int) -> Spent:
        return cls(time.perf_counter(), sum(map(seconds_of, workers)), seconds_of(broker))


def seconds_of(process: int) -> float:
    """Processor time of a process with all its threads."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=500_000)
    parser.add_argument("--batch", type=int, default=10_000)
    parser.add_argument("--shape", choices=SHAPES, default="nested", help="the documentation's event and configuration")
    options = parser.parse_args()
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
    """One broker, and topics of its own for each measurement."""

    def __init__(self, folder: Path, bootstrap: str, broker: int, options: argparse.Namespace) -> None:
        self.folder, self.broker, self.records = folder, broker, options.records
        self.base = configured(folder, bootstrap, options.batch, SHAPES[options.shape])
        warm_up(self.base)
        prepare_topics(self.base, partitions=PARTITIONS)
        self.sample = folder / "sample.jsonl"
        config = ("--config", str(folder / "stream-masker.yaml"))
        run(*CLI, "simulate", *config, "--records", "20000", "--out", str(self.sample))
        run(*CLI, "calibrate", *config, "--publish", str(self.sample))

    def row(self, name: str, cores: Sequence[int | None]) -> tuple[object, ...]:
        """``cores``: of each worker; None for any."""
        path, configuration = self.configured()
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
        """Rate, microseconds of worker and broker by record, and the rate that keeps all cores busy."""
        pids, each = [process.pid for process in workers], self.records / PARTITIONS
        start_at = settled.until(workers, lambda now: all(map(operator.lt, before, now)))
        start = Spent.now(pids, self.broker)
        end_at = settled.until(workers, lambda now: any(n - b >= DONE * each for n, b in zip(now, before, strict=True)))
        records, end = sum(end_at) - sum(start_at), Spent.now(pids, self.broker)
        spent = [
            1e6 * (after - earlier) / records
            for earlier, after in ((start.workers, end.workers), (start.broker, end.broker))
        ]
        return (records / (end.clock - start.clock), *spent, 1e6 * len(os.sched_getaffinity(0)) / sum(spent))

    def configured(self) -> tuple[Path, Configuration]:
        """A configuration with topics and a group of its own; the statistics are those of all."""
        name = secrets.token_hex(4)
        content = yaml.safe_load((self.folder / "stream-masker.yaml").read_text())
        content["kafka"]["properties"] = {"group.id": name}
        own = {role: f"{role}-{name}" for role in ("input", "output", "rejected", "calibration")}
        content["topics"] = self.base.topics.model_dump() | own
        path = self.folder / f"{name}.yaml"
        path.write_text(yaml.safe_dump(content))
        configuration = load_configuration(path, {})
        prepare_topics(configuration, partitions=PARTITIONS)
        return path, configuration


class Settled:
    """What the group of the workers has committed, by partition: asked for, so that no reader shares the processors."""

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
        """Waits for as many; what there is then."""
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
