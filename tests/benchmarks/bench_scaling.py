"""What a second mask worker brings, through a real Kafka, and what limits it: processor time by process.

Run by hand: ``python tests/benchmarks/bench_scaling.py [--shape nested|flat] [--records 500000] [--batch 10000]``.

Starts a broker of its own and measures one worker, then two, each a process, of four partitions: free to run anywhere,
and then each on a core of its own (one worker on one core as their base; the broker and this reader on all of them).
Workers first mask a few records and are stopped while the topic is filled; then all go on at once. The rate is that
from when every partition moves until the first is done, so that no start and no end is in it. Beside it stands the
processor time that a record takes, and the rate at which that alone would keep all cores busy: no number of workers
beside this broker and this reader can be faster.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

sys.path[:0] = [str(Path(__file__).parent)]

from bench_kafka import CLI, PARTITIONS, SHAPES, Watch, configured, fill, run
from kafka_broker import running
from measuring import table

from stream_masker.service.configuration import Configuration, load_configuration
from stream_masker.service.topics import prepare_topics
from stream_masker.service.warmup import warm_up

WARM = 20_000
"""Records that are masked before."""

DONE = 0.95
"""A partition is done at this share of its records: what its reader still has to read counts no more."""

SETTLED = 15.0
"""Seconds after which workers that were started have shared the partitions."""

TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Spent:
    """Seconds since some beginning: of the clock, and of processors by workers, by the broker, by this reader."""

    clock: float
    workers: float
    broker: float
    reader: float

    @classmethod
    def now(cls, workers: Sequence[int], broker: int) -> Spent:
        return cls(time.perf_counter(), sum(map(seconds_of, workers)), seconds_of(broker), time.process_time())


def seconds_of(process: int) -> float:
    """Processor time of a process with all its threads."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=500_000)
    parser.add_argument("--batch", type=int, default=10_000)
    parser.add_argument("--shape", choices=SHAPES, default="nested", help="the README's event and configuration")
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
    table(title, ("", "records/s", "µs a record: worker", "broker", "reader", "all cores busy at"), rows)


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
            watch = ending.enter_context(contextlib.closing(Steady(configuration)))
            time.sleep(SETTLED)
            watch.until(workers, lambda counts: counts.total() >= WARM)
            for process in workers:
                process.send_signal(signal.SIGSTOP)
            fill(configuration, self.records)
            for process in workers:
                process.send_signal(signal.SIGCONT)
            return (name, *self.measured(watch, workers))

    def measured(self, watch: Steady, workers: list[subprocess.Popen[bytes]]) -> tuple[float, ...]:
        """Rate, microseconds of worker, broker and reader by record, and the rate that keeps all cores busy."""
        pids, each = [process.pid for process in workers], self.records / PARTITIONS
        watch.counts.clear()
        watch.until(workers, lambda counts: len(counts) == PARTITIONS)
        first, start = watch.counts.total(), Spent.now(pids, self.broker)
        watch.until(workers, lambda counts: max(counts.values()) >= DONE * each)
        records, end = watch.counts.total() - first, Spent.now(pids, self.broker)
        spent = [
            1e6 * (after - before) / records
            for before, after in ((start.workers, end.workers), (start.broker, end.broker), (start.reader, end.reader))
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


class Steady(Watch):
    """Counts committed records by partition."""

    def __init__(self, configuration: Configuration) -> None:
        super().__init__(
            configuration.kafka.bootstrap_servers, [configuration.topics.output, configuration.topics.rejected]
        )
        self.counts: Counter[int] = Counter()

    def until(self, workers, enough) -> None:
        while not enough(self.counts):
            assert all(process.poll() is None for process in workers), "a worker ended"
            self.counts.update(m.partition() for m in self.consumer.consume(20_000, 0.05) if m.error() is None)


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
