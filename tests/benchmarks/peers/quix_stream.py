"""Quix Streams, exactly once."""

from __future__ import annotations

from job import masked, stream
from quixstreams import Application

given = stream()
app = Application(
    broker_address=given.bootstrap,
    consumer_group="quix",
    auto_offset_reset="earliest",
    processing_guarantee="exactly-once",
    commit_every=given.batch,
    auto_create_topics=False,
)
source, target = (
    app.topic(
        name, key_serializer="bytes", key_deserializer="bytes", value_serializer="bytes", value_deserializer="bytes"
    )
    for name in (given.source, given.target)
)
app.dataframe(source).apply(masked).to_topic(target)
app.run()
