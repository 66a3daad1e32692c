"""The job of every stream framework: decode an event, blank its principal diagnosis, encode it.

``streams.py PACKAGE GIVEN``: the framework, and a ``Stream`` as JSON.
"""

from __future__ import annotations

import json
import sys
from typing import NamedTuple

import orjson


class Stream(NamedTuple):
    """Where to read and write; ``batch``: records a transaction."""

    bootstrap: str
    source: str
    target: str
    batch: int


def masked(value: bytes) -> bytes:
    event = orjson.loads(value)
    event["diagnoses"]["principal"]["code"] = "masked"
    return orjson.dumps(event)


def loop(given: Stream) -> None:
    """A loop by hand over confluent-kafka, in transactions with offsets: exactly once."""
    from confluent_kafka import Consumer, Producer, TopicPartition

    settings = {"bootstrap.servers": given.bootstrap, "isolation.level": "read_committed", "enable.auto.commit": False}
    fetching = {"auto.offset.reset": "earliest", "fetch.queue.backoff.ms": 10}
    consumer = Consumer({**settings, **fetching, "group.id": f"loop to {given.target}"})
    consumer.subscribe([given.source])
    writing = {"queue.buffering.max.messages": 4 * given.batch, "linger.ms": 5, "compression.type": "lz4"}
    name = {"bootstrap.servers": given.bootstrap, "transactional.id": f"loop to {given.target}"}
    producer = Producer({**name, **writing})
    producer.init_transactions()
    while True:
        messages = [message for message in consumer.consume(given.batch, 0.5) if message.error() is None]
        if not messages:
            continue
        producer.begin_transaction()
        for message in messages:
            where = (message.key(), message.partition(), None, None, message.timestamp()[1])
            producer.produce(given.target, masked(message.value()), *where)
        ends = {message.partition(): message.offset() + 1 for message in messages}
        offsets = [TopicPartition(given.source, partition, end) for partition, end in ends.items()]
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata())
        producer.commit_transaction()


def bytewax(given: Stream) -> None:
    """A dataflow without recovery, which writes without transactions."""
    import bytewax.operators as op
    from bytewax.connectors.kafka import KafkaSinkMessage
    from bytewax.connectors.kafka import operators as kafka
    from bytewax.dataflow import Dataflow
    from bytewax.testing import run_main

    flow = Dataflow("peer")
    read = kafka.input("read", flow, brokers=[given.bootstrap], topics=[given.source], batch_size=given.batch)
    done = op.map("mask", read.oks, lambda message: KafkaSinkMessage(message.key, masked(message.value)))
    kafka.output("write", done, brokers=[given.bootstrap], topic=given.target)
    run_main(flow)


def quix(given: Stream) -> None:
    """Exactly once."""
    from quixstreams import Application

    app = Application(
        broker_address=given.bootstrap,
        consumer_group="quix",
        auto_offset_reset="earliest",
        processing_guarantee="exactly-once",
        commit_every=given.batch,
        auto_create_topics=False,
    )
    raw = {f"{part}_{way}": "bytes" for part in ("key", "value") for way in ("serializer", "deserializer")}
    app.dataframe(app.topic(given.source, **raw)).apply(masked).to_topic(app.topic(given.target, **raw))
    app.run()


PROGRAMS = {"confluent-kafka": loop, "bytewax": bytewax, "quixstreams": quix}
PROGRAMS[sys.argv[1]](Stream(**json.loads(sys.argv[2])))
