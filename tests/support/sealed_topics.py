"""Messages of the internal topics: sealed as the service writes them, and opened again."""

from __future__ import annotations

from kafka_records import Record

from stream_masker.pipeline.calibration.versions import StatisticsMessage
from stream_masker.pipeline.wire.sealing import TopicSeal
from stream_masker.pipeline.wire.statistics import decode_statistics
from stream_masker.service.configuration import Configuration
from stream_masker.service.configuration.secret import topic_seal
from stream_masker.service.kafka.messages import MessageOpener

PLAIN = MessageOpener(TopicSeal("statistics"))
"""The opener of a topic that is not encrypted."""


def opened(configuration: Configuration, record: Record) -> bytes:
    """Return the message in a record of an internal topic."""
    return topic_seal(configuration, record.topic).open(record.key, record.value or b"")


def opened_version(configuration: Configuration, record: Record) -> StatisticsMessage:
    """Return the version in a record that is not a chunk."""
    return decode_statistics(opened(configuration, record))
