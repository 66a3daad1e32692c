"""Other programs that copy records between topics, for comparison in ``bench_kafka.py``; each is a separate process.

* ``faust``: an agent that forwards events as bytes.
* ``kafka-python``: a copy in transactions with offsets, in pure Python.
* ``mirrormaker``: MirrorMaker 2 of Apache Kafka Connect with the MaskField transform, which blanks values. Transforms
  receive bytes, so MaskField can only blank the whole value, after HoistField and Cast have turned it into a field.

``python tests/benchmarks/contenders.py faust|kafka-python BOOTSTRAP FROM TO BATCH`` runs one until it is terminated.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1] / "support")]

from kafka_broker import JVM, LOGGER, VERSION, find, jars

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


def mirrormaker(folder: Path, bootstrap: str, topic: str) -> list[str]:
    """Return the command of a MirrorMaker that copies ``topic`` to ``MIRRORED``."""
    settings = folder / "mirrormaker.properties"
    settings.write_text(MIRROR_PROPERTIES.format(bootstrap=bootstrap, topic=topic))
    classes = f"{jars('mirrormaker', MIRROR)}/*"
    return [find("java"), "-Xmx1g", *JVM, "-cp", classes, "org.apache.kafka.connect.mirror.MirrorMaker", str(settings)]


def command(kind: str, bootstrap: str, source: str, target: str, batch: int) -> list[str]:
    """Return the command of a contender that is written in Python."""
    return [sys.executable, __file__, kind, bootstrap, source, target, str(batch)]


def faust_agent(bootstrap: str, source: str, target: str, batch: int) -> None:
    """Run an agent that forwards events. Faust passes each event as an object with an acknowledgement."""
    import faust

    app = faust.App(
        "contender",
        broker=f"kafka://{bootstrap}",
        datadir=tempfile.mkdtemp(),
        store="memory://",
        topic_disable_leader=True,
        web_enabled=False,
    )
    app.conf.consumer_max_fetch_size = 8 << 20
    inputs = app.topic(source, value_serializer="raw", key_serializer="raw")
    outputs = app.topic(target, value_serializer="raw", key_serializer="raw")

    @app.agent(inputs)
    async def passes(stream):  # type: ignore[no-untyped-def]
        async for event in stream.events():
            await outputs.send(key=event.key, value=event.value, partition=event.message.partition)

    app.finalize()
    sys.argv = ["contender", "worker", "-l", "error"]
    app.main()


def kafka_python_copy(bootstrap: str, source: str, target: str, batch: int) -> None:
    """Copy records in kafka-python's transactions."""
    from kafka import KafkaConsumer, KafkaProducer
    from kafka.structs import OffsetAndMetadata

    consumer = KafkaConsumer(
        source,
        bootstrap_servers=bootstrap,
        group_id="kafka-python",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        isolation_level="read_committed",
        max_poll_records=batch,
        fetch_max_bytes=8 << 20,
        max_partition_fetch_bytes=4 << 20,
    )
    producer = KafkaProducer(
        bootstrap_servers=bootstrap,
        transactional_id="kafka-python",
        linger_ms=5,
        batch_size=1 << 17,
    )
    producer.init_transactions()
    while True:
        polled = consumer.poll(timeout_ms=500, max_records=batch)
        if not polled:
            continue
        producer.begin_transaction()
        for records in polled.values():
            for r in records:
                producer.send(target, r.value, r.key, partition=r.partition, timestamp_ms=r.timestamp)
        ends = {partition: OffsetAndMetadata(records[-1].offset + 1, "", -1) for partition, records in polled.items()}
        producer.send_offsets_to_transaction(ends, "kafka-python")
        producer.commit_transaction()


if __name__ == "__main__":
    kind, bootstrap, source, target, batch = sys.argv[1:]
    {"faust": faust_agent, "kafka-python": kafka_python_copy}[kind](bootstrap, source, target, int(batch))
