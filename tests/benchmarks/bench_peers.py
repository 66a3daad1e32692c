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

from measuring import SCRIPTS, Peer, arguments, table
from streaming import STREAM_OPTIONS, Measured, Stream, stream
from support.kafka_broker import JVM, LOGGER, VERSION, find, jars

ORJSON = "orjson==3.11.4"
PEERS = {
    "loop": ("a loop by hand, in transactions", Peer("loop_stream", ("confluent-kafka==2.12.2", ORJSON))),
    "bytewax": ("Bytewax, without transactions", Peer("bytewax_stream", ("bytewax[kafka]==0.21.1", ORJSON))),
    "quix": ("Quix Streams, exactly once", Peer("quix_stream", ("quixstreams==3.28.1",))),
}
KAFKA_STREAMS = (("org.apache.kafka", "kafka-streams", VERSION), LOGGER)


def main() -> None:
    only = {"choices": [*PEERS, "kafka-streams"], "help": "measure only this project, the loop and one other"}
    given = arguments(__doc__, STREAM_OPTIONS | {"--records": 200_000, "--only": only})
    with stream(given) as made:
        measured = dict(contest(made, given))
    base = next(one.rate for name, one in measured.items() if name.startswith(PEERS["loop"][0]))
    shown = ((name, f"{rate:,.0f}", f"{rate / base:.2f}", f"{busy:.1f}") for name, (rate, busy) in measured.items())
    table("Streams", ("", "records/s", "of the loop", "processor, µs a record"), shown)


def contest(made: Stream, given: argparse.Namespace) -> Iterator[tuple[str, Measured]]:
    """Yield the figures of each program, under its name in the table."""
    yield "stream-masker", made.masked(given.records)
    for name, (how, peer) in PEERS.items():
        if given.only in (None, name) or name == "loop":
            yield f"{how} ({peer.title})", made.copied(peer.command, given.batch, given.records)
    if given.only in (None, "kafka-streams"):
        measured = made.copied(kafka_streams(), given.batch, given.records)
        yield f"Kafka Streams {VERSION}, exactly once", measured


def kafka_streams() -> list[str]:
    """The command of the Java program, which Java compiles when it starts."""
    classes = f"{jars('kafka-streams', KAFKA_STREAMS)}/*"
    return [find("java"), "-Xmx1g", *JVM[:1], "-cp", classes, str(SCRIPTS / "KafkaStreams.java")]


if __name__ == "__main__":
    main()
