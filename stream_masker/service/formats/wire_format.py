"""The format of records on the input and output topics, as configured."""

from __future__ import annotations

from stream_masker.pipeline.codec.formatted import RecordFormat
from stream_masker.service.configuration.model import Configuration
from stream_masker.service.formats.confluent import ConfluentFormat, OutputSubject, SchemaLookup
from stream_masker.service.formats.registry import connect_registry


def wire_format(configuration: Configuration) -> RecordFormat | None:
    """The format of the records on the topics; None for JSON. Sends nothing.

    Raises ConfigurationError if the registry's settings cannot be used.
    """
    section = configuration.format
    if section.value == "json":
        return None
    schemas = SchemaLookup(connect_registry(configuration), section.registry.url)
    subject = OutputSubject(section.subject, configuration.topics.output) if section.write == "latest" else None
    return ConfluentFormat(schemas, subject=subject, keys=section.key == "confluent")
