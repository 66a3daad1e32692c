"""Throughput and latency of a worker through a real Kafka.

``python tests/benchmarks/bench_latency.py [--batch 10000] [--load 2000] [--records 100000] [--seconds 40]``. What is
not given is the configuration's default.

A worker masks ``--records`` synthetic discharges of four partitions; its rate is measured from its first committed
records to its last. Then events are published at half that rate, or at ``--load``, for ``--seconds``. The latency of an
event is the time from its due time until a reader of committed records receives its masked record. The first half of
those received does not count: after the start of a broker, the median is up to twice as high for about eight seconds.
p99 includes the pauses of the broker, whose collections of garbage take tens of milliseconds.
"""

from __future__ import annotations

import argparse
import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path

import numpy as np
from confluent_kafka import Producer
from measuring import arguments, table
from streaming import PARTITIONS, STREAM_OPTIONS, Stream, Watch, child, stream

OPTIONS = STREAM_OPTIONS | {
    "--records": 100_000,
    "--load": {"type": float, "help": "events a second; default: half of the highest rate"},
    "--seconds": 40.0,
    "--publish": {"nargs": 5, "help": argparse.SUPPRESS},
}
QUANTILES = (0.5, 0.99, 0.999)
HEAD = ("records/s", "load", *(f"p{100 * q:g}, ms" for q in QUANTILES))
MAX_IN_FLIGHT = 5
"""The publisher's requests on their way. More of them, with a record or two each, would keep a busy broker behind."""
TICK = 0.002
"""The poll interval of the publisher and of the reader, in seconds."""


def main() -> None:
    options = arguments(__doc__, OPTIONS)
    if options.publish:
        return publish(*options.publish)
    with stream(options) as made:
        table("Latency", HEAD, [list(measured(made, options))])


def measured(made: Stream, options: argparse.Namespace) -> Iterator[float]:
    """Yield the rate, the load, and the quantiles of the latency."""
    watch = Watch(made.bootstrap, made.outcomes, **{"fetch.wait.max.ms": 100})
    with child(made.worker) as process, contextlib.closing(watch):
        first, start = watch.until(1, process), time.perf_counter()
        watch.until(options.records, process)
        yield (rate := (options.records - first) / (time.perf_counter() - start))
        yield (load := options.load or rate / 2)
        told = (made.bootstrap, made.configuration.topics.input, made.folder, load, options.seconds)
        with subprocess.Popen([sys.executable, __file__, "--publish", *map(str, told)]) as publisher:
            times = latencies(watch, int(load * options.seconds))
            assert publisher.wait() == 0
    yield from 1000 * np.quantile(times[len(times) // 2 :], QUANTILES)


def latencies(watch: Watch, records: int) -> list[float]:
    """Return the latencies of ``records`` events in seconds, in order of arrival."""
    times: list[float] = []
    while len(times) < records:
        messages, now = watch.read(TICK), time.time()
        times += [now - message.timestamp()[1] / 1000 for message in messages if message.timestamp()[1]]
    return times


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
