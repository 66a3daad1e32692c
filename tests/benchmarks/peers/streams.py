"""Streams: this project's worker beside frames that do a trivial job, on one broker.

``python tests/benchmarks/peers/streams.py [--records N] [--only NAME]`` starts a broker, writes synthetic events to
four partitions, runs each program, a single process, over all of them, and prints a table. Needs Java 17 and
Maven. On a machine that does other work, rates are too low and ratios uncertain; processor times change least.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1])]

from bench_kafka import CLI, PARTITIONS, SHAPES, Measured, configured, fill, run, timed
from kafka_broker import JVM, LOGGER, VERSION, find, jars, running
from kafka_records import Topics

from peers.harness import INSIDE, Peer, markdown
from stream_masker.service.configuration import Configuration
from stream_masker.service.kafka.topics import prepare_topics
from stream_masker.service.runtime.warmup import warm_up

ORJSON = "orjson==3.11.4"
LOOP, BYTEWAX, QUIX, FAUST = PEERS = (
    Peer("loop", "loop_stream.py", ("confluent-kafka==2.12.2", ORJSON)),
    Peer("bytewax", "bytewax_stream.py", ("bytewax[kafka]==0.21.1", ORJSON)),
    Peer("quix", "quix_stream.py", ("quixstreams==3.28.1",)),
    Peer("faust", "faust_stream.py", ("faust-streaming==0.15.3", ORJSON)),
)
KAFKA_STREAMS = (("org.apache.kafka", "kafka-streams", VERSION), LOGGER)
HOW = {
    "loop": "a loop by hand, in transactions",
    "bytewax": "Bytewax, without transactions",
    "quix": "Quix Streams, exactly once",
    "faust": "Faust, without transactions",
}
SLOW = {"faust": 20}
"""What part of the records a slow program gets."""

HEAD = ("", "job", "records/s", "of the loop", "processor, µs a record")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=300_000)
    parser.add_argument("--batch", type=int, default=10_000, help="records a transaction")
    parser.add_argument(
        "--only", choices=[*HOW, "kafka-streams"], help="measure only this project, the loop and one other"
    )
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, running(Path(name), brokers=1, heap="1g") as cluster:
        measured = dict(contest(Path(name), cluster.bootstrap, given))
    print(markdown(HEAD, rows(measured)))


def contest(folder: Path, bootstrap: str, given: argparse.Namespace) -> Iterator[tuple[tuple[str, str], Measured]]:
    """Yield the figures of each program, under its name and its job."""
    configuration = configured(folder, bootstrap, given.batch, SHAPES["nested"])
    warm_up(configuration)
    prepare_topics(configuration, partitions=PARTITIONS)
    fill(configuration, given.records)
    yield (
        ("stream-masker", "mask by the README's configuration, exactly once"),
        worker(folder, configuration, given.records),
    )
    for peer in PEERS:
        if given.only in (None, peer.name) or peer is LOOP:
            records = given.records // SLOW.get(peer.name, 1)
            name = (f"{HOW[peer.name]} ({peer.title})", "blank one field")
            yield name, frame(peer.command, configuration, records, given.batch)
    if given.only in (None, "kafka-streams"):
        name = (f"Kafka Streams {VERSION}, exactly once", "blank one field")
        yield name, frame(kafka_streams(), configuration, given.records, given.batch)


def worker(folder: Path, configuration: Configuration, records: int) -> Measured:
    """Measure the worker, after the statistics of a sample."""
    config = ("--config", str(folder / "stream-masker.yaml"))
    sample = folder / "sample.jsonl"
    run(*CLI, "simulate", *config, "--records", "20000", "--out", str(sample))
    run(*CLI, "calibrate", *config, "--publish", str(sample))
    outcomes = [configuration.topics.output, configuration.topics.rejected]
    return timed(
        [*CLI, "worker", *config, "--http-port", "0"], configuration.kafka.bootstrap_servers, outcomes, records
    )


def frame(command: list[str], configuration: Configuration, records: int, batch: int) -> Measured:
    """Measure a program that copies the input to a new topic and does the job."""
    bootstrap = configuration.kafka.bootstrap_servers
    target = Topics(bootstrap)("masked", partitions=PARTITIONS)
    told = {"bootstrap": bootstrap, "source": configuration.topics.input, "target": target, "batch": batch}
    found = timed([*command, json.dumps(told)], bootstrap, [target], records)
    print(command[-1], found, file=sys.stderr, flush=True)
    return found


def kafka_streams() -> list[str]:
    """The command of the Java program, which Java compiles when it starts."""
    classes = f"{jars('kafka-streams', KAFKA_STREAMS)}/*"
    return [find("java"), "-Xmx1g", *JVM[:1], "-cp", classes, str(INSIDE / "KafkaStreams.java")]


def rows(measured: dict[tuple[str, str], Measured]) -> Iterator[tuple[str, ...]]:
    base = next(found.rate for (name, _), found in measured.items() if name.startswith(HOW["loop"]))
    for (name, job), found in measured.items():
        yield name, job, f"{found.rate:,.0f}", f"{found.rate / base:.2f}", f"{found.processor:.1f}"


if __name__ == "__main__":
    main()
