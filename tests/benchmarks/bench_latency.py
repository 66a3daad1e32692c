"""Throughput and latency of the mask worker through a real Kafka, by transaction size (``worker.batch_*``).

Run by hand: ``python tests/benchmarks/bench_latency.py [--sizes 500 2000 10000] [--delays 0.01] [--lingers 5]
[--load 2000] [--rounds 3] [--records 100000] [--seconds 40] [--shape nested|flat] [--code FOLDER ...]``.

Starts a broker with synthetic discharges in four partitions. For each setting, a worker process masks all of them; its
rate is measured from its first committed records to its last. Then events are published at half that rate, or at
``--load``; the latency of an event is the time from its due time until a reader of committed records receives its
masked record. ``--code`` names folders with other versions of the package, which are measured in turn, ``--rounds``
times, so that a slow change of the machine's speed concerns all alike. What is not given is the configuration's
default. ``--seconds``: how long events are published. The first half of those received does not count: after the start
of a broker, the median is up to twice as high for about eight seconds.

p99 includes the pauses of the broker, whose collections of garbage take tens of milliseconds, and those of a virtual
machine.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import cycle, islice, product
from pathlib import Path

import numpy as np
from confluent_kafka import Producer
from measuring import table
from streaming import PARTITIONS, Stream, Watch, broker, child, stream_arguments

ROLES = ("input", "output", "rejected", "calibration")
"""The topics that each setting has of its own; the statistics are shared."""

OPTIONS = {
    "--records": 100_000,
    "--sizes": {"type": int, "nargs": "+", "default": [10_000], "help": "worker.batch_records"},
    "--delays": {"type": float, "nargs": "+", "default": [None], "help": "worker.batch_delay in seconds"},
    "--lingers": {"type": float, "nargs": "+", "default": [None], "help": "the producer's linger.ms"},
    "--load": {"type": float, "help": "events a second; default: half of the highest rate"},
    "--rounds": 1,
    "--seconds": 40.0,
    "--code": {"nargs": "+", "default": [""], "help": "folders with the package; default: this one"},
    "--publish": {"nargs": 5, "help": argparse.SUPPRESS},
}
QUANTILES = (0.5, 0.99, 0.999)
HEAD = ("code", "transaction", "delay", "linger", "records/s", "load", *(f"p{100 * q:g}, ms" for q in QUANTILES))
MAX_IN_FLIGHT = 5
"""The publisher's requests on their way. More of them, with a record or two each, would keep a busy broker behind."""
TICK = 0.002
"""The poll interval of the publisher and of the reader, in seconds."""


def main() -> None:
    options = stream_arguments(__doc__, OPTIONS)
    if options.publish:
        return publish(*options.publish)
    options.batch = max(options.sizes)
    with broker() as (folder, cluster):
        stream = Stream.prepared(folder, cluster.bootstrap, options)
        stream.calibrate()
        table("Latency by transaction size", HEAD, rows(stream, options))


def rows(stream: Stream, options: argparse.Namespace) -> Iterator[list[object]]:
    for size, delay, linger in product(options.sizes, options.delays, options.lingers):
        worker = {"batch_records": size, **({} if delay is None else {"batch_delay": delay})}
        properties = {} if linger is None else {"linger.ms": linger}
        for code in options.code * options.rounds:
            stream_of_setting = stream.with_topics(ROLES, worker=worker, properties=properties)
            settings = (value or "default" for value in (delay, linger))
            yield [Path(code).name or "this", size, *settings, *measured(stream_of_setting, code, options)]


def measured(stream: Stream, code: str, options: argparse.Namespace) -> list[float]:
    """Return the rate, the load, and the quantiles of the latency; ``code``: the folder of a version of the package."""
    stream.fill(options.records)
    environ = {**os.environ, **({"PYTHONPATH": code} if code else {})}
    reader = Reader(stream.bootstrap, stream.outcomes, **{"fetch.wait.max.ms": 100})
    with child(stream.command("worker"), env=environ, cwd=stream.path.parent) as process, contextlib.closing(reader):
        rate = reader.rate(options.records, process)
        load = options.load or rate / 2
        told = (stream.bootstrap, stream.configuration.topics.input, stream.path.parent, load, options.seconds)
        with subprocess.Popen([sys.executable, __file__, "--publish", *map(str, told)]) as publisher:
            times = reader.latencies(int(load * options.seconds))
            assert publisher.wait() == 0
    quantiles = np.quantile(times[len(times) // 2 :], QUANTILES)
    return [rate, load, *(1000 * quantiles).tolist()]


class Reader(Watch):
    """A reader of the worker's committed records."""

    def rate(self, records: int, process: subprocess.Popen[bytes]) -> float:
        """Return the records per second from the first committed records to the last of ``records``."""
        first, start = self.until(1, process), time.perf_counter()
        self.until(records, process)
        return (records - first) / (time.perf_counter() - start)

    def latencies(self, records: int) -> np.ndarray:
        """Return the latencies of ``records`` events in seconds, in order of arrival."""
        times: list[float] = []
        while len(times) < records:
            messages, now = self.read(TICK), time.time()
            times += [now - message.timestamp()[1] / 1000 for message in messages if message.timestamp()[1]]
        return np.array(times)


def publish(bootstrap: str, topic: str, folder: str, rate: str, seconds: str) -> None:
    """Publish events at a rate; each timestamp is the time when the event was due."""
    count = int(float(rate) * float(seconds))
    events = Path(folder, "sample.jsonl").read_bytes().splitlines()
    limits = {"linger.ms": 1, "max.in.flight": MAX_IN_FLIGHT, "queue.buffering.max.messages": 1_000_000}
    producer = Producer({"bootstrap.servers": bootstrap, **limits})
    start = time.time()
    for number, value in enumerate(islice(cycle(events), count)):
        due = start + number / float(rate)
        if (ahead := due - time.time()) > 0:
            producer.poll(0)
            time.sleep(max(TICK, ahead))
        producer.produce(topic, value, partition=number % PARTITIONS, timestamp=int(1000 * due))
    assert producer.flush(60) == 0


if __name__ == "__main__":
    main()
