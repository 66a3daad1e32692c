"""The worker beside other stream frameworks, which blank one field, on one broker.

``python tests/benchmarks/bench_peers.py [--records N] [--only NAME]`` starts a broker, writes synthetic events to four
partitions, runs each program, a single process, over all of them, and prints the table. A program runs in an
environment of its own, which the command creates in the cache folder, from pinned versions; its script is in ``peers``.
Needs Java 17 and Maven. On a machine that does other work, rates are too low and ratios uncertain; processor times
change least.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from measuring import SCRIPTS, Peer, table
from streaming import HEADERS, Measured, Stream, broker, stream_arguments
from support.kafka_broker import JVM, LOGGER, VERSION, find, jars

ORJSON = "orjson==3.11.4"
LOOP, BYTEWAX, QUIX, FAUST = PEERS = (
    Peer("loop_stream", ("confluent-kafka==2.12.2", ORJSON)),
    Peer("bytewax_stream", ("bytewax[kafka]==0.21.1", ORJSON)),
    Peer("quix_stream", ("quixstreams==3.28.1",)),
    Peer("faust_stream", ("faust-streaming==0.15.3", ORJSON)),
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

HEAD = ("", "records/s", "of the loop", "processor, µs a record")


def main() -> None:
    only = {"choices": [*HOW, "kafka-streams"], "help": "measure only this project, the loop and one other"}
    given = stream_arguments(__doc__, {"--records": 200_000, "--only": only})
    with broker() as (folder, cluster):
        stream = Stream.prepared(folder, cluster.bootstrap, given)
        stream.fill(given.records)
        stream.calibrate()
        measured = dict(contest(stream, given))
    table("Streams", HEAD, rows(measured))


def contest(stream: Stream, given: argparse.Namespace) -> Iterator[tuple[str, Measured]]:
    """Yield the figures of each program, under its name."""
    yield "stream-masker", stream.masked(given.records)
    copied = stream.copied(LOOP.command, given.batch, given.records, copies=True, headers=HEADERS)
    yield f"{named(LOOP)}, copying with the headers of a mask", copied
    for peer in PEERS:
        if peer is LOOP or given.only in (None, short(peer)):
            records = given.records // SLOW.get(short(peer), 1)
            yield named(peer), stream.copied(peer.command, given.batch, records)
    if given.only in (None, "kafka-streams"):
        measured = stream.copied(kafka_streams(), given.batch, given.records)
        yield f"Kafka Streams {VERSION}, exactly once", measured


def named(peer: Peer) -> str:
    """The name of a peer in the table."""
    return f"{HOW[short(peer)]} ({peer.title})"


def short(peer: Peer) -> str:
    """The name of a peer on the command line."""
    return peer.name.removesuffix("_stream")


def kafka_streams() -> list[str]:
    """The command of the Java program, which Java compiles when it starts."""
    classes = f"{jars('kafka-streams', KAFKA_STREAMS)}/*"
    return [find("java"), "-Xmx1g", *JVM[:1], "-cp", classes, str(SCRIPTS / "KafkaStreams.java")]


def rows(measured: dict[str, Measured]) -> Iterator[tuple[str, ...]]:
    base = measured[named(LOOP)].rate
    for name, (rate, processor) in measured.items():
        yield name, f"{rate:,.0f}", f"{rate / base:.2f}", f"{processor:.1f}"


if __name__ == "__main__":
    main()
