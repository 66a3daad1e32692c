"""A loop by hand over confluent-kafka, in transactions with offsets: exactly once."""

from __future__ import annotations

from confluent_kafka import Consumer, Producer, TopicPartition
from job import masked, stream

given = stream()
settings = {"bootstrap.servers": given.bootstrap, "isolation.level": "read_committed", "enable.auto.commit": False}
fetching = {"auto.offset.reset": "earliest", "fetch.queue.backoff.ms": 10}
consumer = Consumer({**settings, **fetching, "group.id": f"loop to {given.target}"})
consumer.subscribe([given.source])
producer = Producer(
    {
        "bootstrap.servers": given.bootstrap,
        "transactional.id": f"loop to {given.target}",
        "queue.buffering.max.messages": 4 * given.batch,
        "linger.ms": 5,
        "compression.type": "lz4",
    }
)
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
