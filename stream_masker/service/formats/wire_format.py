"""The format of records on the input and output topics as configured, and the Confluent wire format."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, ClassVar, Final, Literal, NamedTuple, TypeAlias

import orjson

from stream_masker.errors import ParameterError
from stream_masker.pipeline.formats import EncodeRecord, RecordFormat
from stream_masker.pipeline.hl7v2 import Hl7Format
from stream_masker.pipeline.reasons import Reason, RecordRejectedError
from stream_masker.service.configuration.model import Configuration
from stream_masker.service.formats.registry import SchemaLookup, connect_registry
from stream_masker.service.formats.serdes import schema_id

DEFAULT_LIMIT_BYTES: Final = 1_048_576

MessagePart: TypeAlias = Literal["key", "value"]


class OutputSubject(NamedTuple):
    """The subject that masked records are written with. strategy: of the client, such as ``topic_record``."""

    strategy: str
    topic: str

    def name(self, part: MessagePart, record_name: str | None) -> str:
        """Return the subject of a record. Raises RecordRejectedError if the strategy needs a name that the schema
        lacks."""
        if self.strategy == "topic":
            return f"{self.topic}-{part}"
        if record_name is None:
            raise RecordRejectedError(Reason.UNKNOWN_SCHEMA)
        return record_name if self.strategy == "record" else f"{self.topic}-{record_name}"


class ConfluentFormat:
    """Values, and with ``keys`` also message keys, in the Confluent wire format.

    subject: what masked records are written with; None for the schema that they came with. limit: the maximum size of
    a record in bytes (≥ 1).
    """

    records: ClassVar[str] = "records in the Confluent wire format"

    def __init__(
        self,
        schemas: SchemaLookup,
        *,
        subject: OutputSubject | None = None,
        keys: bool = False,
        limit: int = DEFAULT_LIMIT_BYTES,
    ) -> None:
        if limit < 1:
            raise ParameterError(f"limit must be at least 1 byte, not {limit}")
        self._schemas = schemas
        self._limit = limit
        self._subject = subject
        self._keys = keys

    @property
    def decodes_keys(self) -> bool:
        return self._keys

    def prepare(self, messages: Iterable[bytes]) -> None:
        """Look up the schemas of values or keys together. Raises FormatUnavailableError."""
        self._schemas.look_up(_schema_ids(messages))

    def decode(self, value: bytes) -> tuple[Any, EncodeRecord]:
        """Return a record, and the function that encodes it once it is masked."""
        return self._decode(value, "value")

    def decode_key(self, key: bytes) -> tuple[Any, EncodeRecord]:
        """Return a key, and the function that encodes it once it is masked."""
        return self._decode(key, "key")

    def _decode(self, data: bytes, part: MessagePart) -> tuple[Any, EncodeRecord]:
        serde = self._schemas.by_id(schema_id(data))
        if len(data) > self._limit:
            raise RecordRejectedError(Reason.TOO_LARGE)
        document, encode = serde.decode(data)
        if self._subject is None:
            return document, encode
        return document, self._schemas.latest(self._subject.name(part, serde.record_name)).encode


def _schema_ids(messages: Iterable[bytes]) -> Iterator[int]:
    """Yield the schema ids of the messages that have one."""
    for message in messages:
        with suppress(RecordRejectedError):
            yield schema_id(message)


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
        return self.schemas.latest(f"{self.topic}-value").encode(orjson.loads(document))

    def key(self, text: bytes) -> bytes:
        """Encode a key, which is a text, if keys are in the format too. Raises like ``value``."""
        if not self.keys:
            return text
        return self.schemas.latest(f"{self.topic}-key").encode(text.decode())


def event_encoder(configuration: Configuration) -> EventEncoder | None:
    """Return the encoder of events for the input topic; None for JSON. Raises like ``wire_format``."""
    section = configuration.format
    if section.value == "json":
        return None
    schemas = SchemaLookup(connect_registry(configuration), section.registry.url)
    return EventEncoder(schemas, configuration.topics.input, section.key == "confluent")
