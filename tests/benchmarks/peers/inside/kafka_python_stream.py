"""A loop by hand over kafka-python, in transactions with offsets."""

from __future__ import annotations

from job import masked, stream
from kafka import KafkaConsumer, KafkaProducer
from kafka.structs import OffsetAndMetadata

given = stream()
consumer = KafkaConsumer(
    given.source,
    bootstrap_servers=given.bootstrap,
    group_id="kafka-python",
    auto_offset_reset="earliest",
    enable_auto_commit=False,
    isolation_level="read_committed",
    max_poll_records=given.batch,
    fetch_max_bytes=8 << 20,
    max_partition_fetch_bytes=4 << 20,
)
producer = KafkaProducer(
    bootstrap_servers=given.bootstrap, transactional_id="kafka-python", linger_ms=5, batch_size=1 << 17
)
producer.init_transactions()
while True:
    polled = consumer.poll(timeout_ms=500, max_records=given.batch)
    if not polled:
        continue
    producer.begin_transaction()
    for records in polled.values():
        for r in records:
            producer.send(given.target, masked(r.value), r.key, partition=r.partition, timestamp_ms=r.timestamp)
    ends = {partition: OffsetAndMetadata(records[-1].offset + 1, "", -1) for partition, records in polled.items()}
    producer.send_offsets_to_transaction(ends, "kafka-python")
    producer.commit_transaction()
