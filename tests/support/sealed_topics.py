"""Messages of the internal topics: sealed as the service writes them, and opened again."""

from __future__ import annotations

from kafka_records import Record

from stream_masker.pipeline.calibration.versions import StatisticsMessage
from stream_masker.pipeline.records import Block
from stream_masker.pipeline.wire.blocks import block_key, encode_block
from stream_masker.pipeline.wire.fields import Taxonomies
from stream_masker.pipeline.wire.sealing import TopicSeal
from stream_masker.pipeline.wire.statistics import decode_statistics
from stream_masker.service.configuration import Configuration
from stream_masker.service.configuration.secret import topic_seal
from stream_masker.service.kafka.messages import MessageOpener

PLAIN = MessageOpener(TopicSeal("statistics"))
"""The opener of a topic that is not encrypted."""


def statistics_opener(configuration: Configuration) -> MessageOpener:
    return MessageOpener(topic_seal(configuration, configuration.topics.statistics))


def opened(configuration: Configuration, record: Record) -> bytes:
    """Return the message in a record of an internal topic."""
    return topic_seal(configuration, record.topic).open(record.key, record.value or b"")


def opened_version(configuration: Configuration, record: Record) -> StatisticsMessage:
    """Return the version in a record that is not a chunk."""
    return decode_statistics(opened(configuration, record))


def sealed_block(configuration: Configuration, block: Block, taxonomies: Taxonomies) -> dict[str, bytes]:
    """Return the key and value of a block's record."""
    key, raw = block_key(block), encode_block(block, taxonomies, configuration="0")
    return {"key": key, "value": topic_seal(configuration, configuration.topics.calibration).seal(key, raw)}
