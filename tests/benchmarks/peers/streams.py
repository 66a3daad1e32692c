"""Streams: this project's worker beside frames that do a trivial job, on one broker.

``python tests/benchmarks/peers/streams.py [--records N] [--only NAME] [--write]`` starts a broker, writes synthetic
events to four partitions, runs each program, a single process, over all of them, and prints the table or writes it into
``docs/development.md``. Needs Java 17 and Maven. On a machine that does other work, rates are too low and ratios
uncertain; processor times change least.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1])]

from streaming import HEADERS, Measured, Stream, broker, stream_arguments
from support.kafka_broker import JVM, LOGGER, VERSION, find, jars

from peers.harness import INSIDE, Peer, show_rows

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
BLANK = "blank one field"
SLOW = {"faust": 20}
"""What part of the records a slow program gets."""

HEAD = ("", "job", "records/s", "of the loop", "processor, µs a record")


def main() -> None:
    only = {"choices": [*HOW, "kafka-streams"], "help": "measure only this project, the loop and one other"}
    given = stream_arguments(__doc__, {"--records": 300_000, "--only": only, "--write": False})
    with broker() as (folder, cluster):
        stream = Stream.prepared(folder, cluster.bootstrap, given)
        stream.fill(given.records)
        stream.calibrate()
        measured = dict(contest(stream, given))
    show_rows("streams", HEAD, rows(measured), write=given.write)


def contest(stream: Stream, given: argparse.Namespace) -> Iterator[tuple[tuple[str, str], Measured]]:
    """Yield the figures of each program, under its name and its job."""
    yield ("stream-masker", "mask by the README's configuration, exactly once"), stream.masked(given.records)
    copied = stream.copied(LOOP.command, given.batch, given.records, copies=True, headers=HEADERS)
    yield (f"{named(LOOP)}, copying", "none, with the headers of a masked record"), copied
    for peer in PEERS:
        if given.only in (None, peer.name) or peer is LOOP:
            records = given.records // SLOW.get(peer.name, 1)
            yield (named(peer), BLANK), stream.copied(peer.command, given.batch, records)
    if given.only in (None, "kafka-streams"):
        measured = stream.copied(kafka_streams(), given.batch, given.records)
        yield (f"Kafka Streams {VERSION}, exactly once", BLANK), measured


def named(peer: Peer) -> str:
    """The name of a peer in the table."""
    return f"{HOW[peer.name]} ({peer.title})"


def kafka_streams() -> list[str]:
    """The command of the Java program, which Java compiles when it starts."""
    classes = f"{jars('kafka-streams', KAFKA_STREAMS)}/*"
    return [find("java"), "-Xmx1g", *JVM[:1], "-cp", classes, str(INSIDE / "KafkaStreams.java")]


def rows(measured: dict[tuple[str, str], Measured]) -> Iterator[tuple[str, ...]]:
    base = measured[named(LOOP), BLANK].rate
    for (name, job), (rate, processor) in measured.items():
        yield name, job, f"{rate:,.0f}", f"{rate / base:.2f}", f"{processor:.1f}"


if __name__ == "__main__":
    main()
