"""The format of records on the input and output topics, as configured."""

from __future__ import annotations

from typing import NamedTuple

import orjson

from stream_masker.pipeline.codec.formatted import RecordFormat
from stream_masker.pipeline.hl7v2.messages import Hl7Format
from stream_masker.service.configuration.model import Configuration
from stream_masker.service.formats.confluent import ConfluentFormat, OutputSubject, SchemaLookup
from stream_masker.service.formats.registry import connect_registry


def wire_format(configuration: Configuration) -> RecordFormat | None:
    """Return the format of the records on the topics; None for JSON. Sends nothing.

    Raises ConfigurationError if the registry's settings cannot be used.
    """
    section = configuration.format
    if section.value == "json":
        return file_format(configuration)
    schemas = SchemaLookup(connect_registry(configuration), section.registry.url)
    subject = OutputSubject(section.subject, configuration.topics.output) if section.write == "latest" else None
    limit = configuration.limits.record_bytes
    return ConfluentFormat(schemas, subject=subject, keys=section.key == "confluent", limit=limit)


def file_format(configuration: Configuration) -> RecordFormat | None:
    """Return the format of the records in files; None for JSON, also that of the rows of tables."""
    return Hl7Format() if configuration.records == "hl7v2" else None


class EventEncoder(NamedTuple):
    """Encodes events for the input topic, with the latest schemas of the subjects ``TOPIC-value`` and ``TOPIC-key``."""

    schemas: SchemaLookup
    topic: str
    keys: bool

    def value(self, document: bytes) -> bytes:
        """Encode the JSON of an event.

        Raises RecordRejectedError if it does not fit the schema, FormatUnavailableError if there is none.
        """
        return self.schemas.latest(f"{self.topic}-value").encode(document)

    def key(self, text: bytes) -> bytes:
        """Encode a key, which is a text, if keys are in the format too. Raises like ``value``."""
        if not self.keys:
            return text
        return self.schemas.latest(f"{self.topic}-key").encode(orjson.dumps(text.decode()))


def event_encoder(configuration: Configuration) -> EventEncoder | None:
    """Return the encoder of events for the input topic; None for JSON. Raises like ``wire_format``."""
    section = configuration.format
    if section.value == "json":
        return None
    schemas = SchemaLookup(connect_registry(configuration), section.registry.url)
    return EventEncoder(schemas, configuration.topics.single, section.key == "confluent")
