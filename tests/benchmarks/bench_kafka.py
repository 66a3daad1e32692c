"""Records per second through a real Kafka: a plain copy and the mask worker, on the same topic with the same client.

Run by hand: ``python tests/benchmarks/bench_kafka.py [--shape nested|flat] [--others] [--records 500000] [--batch
10000]``.

Starts a broker, writes synthetic discharges to four partitions, and runs each contender, a single process, over all of
them in transactions of the same size. The copy runs with the worker's settings, with the three headers that a masked
record has, and with the client's long default pause between fetches when its queue is full. A contender's rate is
measured from its first committed records to its last, and its processor time, without that of the brokers, until nine
tenths of them. A second worker masks the input again and writes provenance events. Then a calibrator reads the first
worker's blocks, until the version by which workers count a sample, and a third worker masks the input again under that
version. ``--others`` adds a copy by kafka-python, MirrorMaker 2 with MaskField, and a Faust agent that forwards events
(on a tenth of the records). Prints a Markdown table of rates, of their ratios to the copy's, and of processor times.
For two workers, and for a calibrator beside workers, see ``bench_system.py``.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path

from confluent_kafka.admin import NewTopic
from peers.harness import INSIDE
from streaming import HEADERS, PARTITIONS, Measured, Stream, await_that, broker, child, parser, timed
from support.kafka_broker import JVM, LOGGER, VERSION, find, jars
from support.kafka_records import Topics, read_all
from support.sealed_topics import opened_version

from stream_masker.service.kafka.clients import FETCH_BACKOFF_MS

CLIENT_S_OWN_MS = 1_000
SAMPLING_SECONDS = 60.0
OWN = ("output", "rejected", "calibration")
COPIES: dict[str, dict[str, object]] = {
    "copy": {},
    "copy with three headers": {"headers": HEADERS},
    "copy with the client's default fetch.queue.backoff.ms": {"pause": CLIENT_S_OWN_MS},
}
"""The settings of the copies by name."""

MIRROR = (
    ("org.apache.kafka", "connect-mirror", VERSION),
    ("org.apache.kafka", "connect-transforms", VERSION),
    LOGGER,
)
MIRRORED = "a.{topic}"
"""The name in the cluster ``b`` of a topic that MirrorMaker copies from the cluster ``a``."""

MIRROR_PROPERTIES = """\
clusters = a, b
a.bootstrap.servers = {bootstrap}
b.bootstrap.servers = {bootstrap}
a->b.enabled = true
b->a.enabled = false
a->b.topics = {topic}
a->b.emit.heartbeats.enabled = false
a->b.emit.checkpoints.enabled = false
emit.heartbeats.enabled = false
emit.checkpoints.enabled = false
sync.topic.configs.enabled = false
sync.topic.acls.enabled = false
replication.factor = 1
offset-syncs.topic.replication.factor = 1
offset.storage.replication.factor = 1
status.storage.replication.factor = 1
config.storage.replication.factor = 1
exactly.once.source.support = enabled
dedicated.mode.enable.internal.rest = false
tasks.max = 1
a->b.producer.override.linger.ms = 5
a->b.producer.override.compression.type = lz4
a->b.consumer.override.max.poll.records = 10000
a->b.value.converter = org.apache.kafka.connect.json.JsonConverter
a->b.value.converter.schemas.enable = false
a->b.transforms = hoist, text, mask
a->b.transforms.hoist.type = org.apache.kafka.connect.transforms.HoistField$Value
a->b.transforms.hoist.field = event
a->b.transforms.text.type = org.apache.kafka.connect.transforms.Cast$Value
a->b.transforms.text.spec = event:string
a->b.transforms.mask.type = org.apache.kafka.connect.transforms.MaskField$Value
a->b.transforms.mask.fields = event
"""


def main() -> None:
    options = arguments()
    with broker() as (folder, cluster):
        stream = Stream.prepared(folder, cluster.bootstrap, options)
        size = stream.fill(options.records)
        stream.calibrate()
        report(dict(contest(stream, options)), options, size)


def arguments() -> argparse.Namespace:
    options = parser(__doc__, records=500_000)
    options.add_argument("--others", action="store_true", help="also run the other contenders")
    return options.parse_args()


def contest(stream: Stream, options: argparse.Namespace) -> Iterator[tuple[str, Measured]]:
    """Yield the rates of each contender."""
    records = options.records
    for name, settings in COPIES.items():
        yield name, copied(stream, "loop", options.batch, records, **{"pause": FETCH_BACKOFF_MS, **settings})
    yield "worker", stream.masked(records)
    provenance = stream.with_topics(OWN, "provenance", topics={"provenance": "events"})
    yield "worker that writes provenance events", provenance.masked(records)
    await_sampling(stream)
    yield "worker that counts a sample", stream.with_topics(OWN, "sampling").masked(records)
    if options.others:
        yield "kafka-python, copying in transactions", copied(stream, "kafka_python", options.batch, records)
        yield "MirrorMaker 2 with MaskField, blanking", mirrored(stream, records)
        yield "Faust agent, passing through", copied(stream, "faust", options.batch, records // 10)


def copied(stream: Stream, program: str, batch: int, records: int, **settings: object) -> Measured:
    """Measure one of the peers' programs that copies the input to a new topic without changing the bytes."""
    target = Topics(stream.bootstrap)("copied", partitions=PARTITIONS)
    where = {"bootstrap": stream.bootstrap, "source": stream.configuration.topics.input, "target": target}
    given = json.dumps({**where, "batch": batch, "copies": True, **settings})
    return timed([sys.executable, str(INSIDE / f"{program}_stream.py"), given], stream.bootstrap, [target], records)


def mirrored(stream: Stream, records: int) -> Measured:
    """Measure MirrorMaker 2 with the MaskField transform, which names the topic that it writes.

    Transforms receive bytes, so MaskField can only blank the whole value, after HoistField and Cast have turned it into
    a field.
    """
    source, made = stream.configuration.topics.input, Topics(stream.bootstrap)
    target = MIRRORED.format(topic=source)
    made.admin.create_topics([NewTopic(target, PARTITIONS)])[target].result(30)
    made.wait(target, PARTITIONS)
    return timed(mirrormaker(stream.path.parent, stream.bootstrap, source), stream.bootstrap, [target], records)


def mirrormaker(folder: Path, bootstrap: str, topic: str) -> list[str]:
    """Return the command of a MirrorMaker that copies ``topic`` to ``MIRRORED``."""
    settings = folder / "mirrormaker.properties"
    settings.write_text(MIRROR_PROPERTIES.format(bootstrap=bootstrap, topic=topic))
    classes = f"{jars('mirrormaker', MIRROR)}/*"
    return [find("java"), "-Xmx1g", *JVM, "-cp", classes, "org.apache.kafka.connect.mirror.MirrorMaker", str(settings)]


def await_sampling(stream: Stream) -> None:
    """Run a calibrator until it has published a version by which workers count a sample: the window overflows."""
    with child(stream.command("calibrator")) as process:
        await_that(lambda: samples(stream), process, seconds=SAMPLING_SECONDS, every=0.5)


def samples(stream: Stream) -> bool:
    """Whether a version on the statistics topic has workers count a sample."""
    records = read_all(stream.bootstrap, stream.configuration.topics.statistics)
    return any(opened_version(stream.configuration, record).sampling for record in records if record.value)


def report(rates: dict[str, Measured], options: argparse.Namespace, size: float) -> None:
    title = (
        f"{options.records:,} events of {size:.0f} bytes, four partitions, transactions of {options.batch:,} records"
    )
    print(f"{title}\n\n| | records/s | of the copy's | processor, µs a record |\n| --- | --- | --- | --- |")
    for name, (rate, processor) in rates.items():
        print(f"| {name} | {rate:,.0f} | {rate / rates['copy'].rate:.2f} | {processor:.1f} |")


if __name__ == "__main__":
    main()
