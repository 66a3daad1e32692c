"""The format of records on the input and output topics as configured, and the Confluent wire format."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, ClassVar, Final, Literal, NamedTuple, TypeAlias

import orjson

from stream_masker.errors import ParameterError
from stream_masker.pipeline.formats import EncodeRecord, FormatUnavailableError, RecordFormat
from stream_masker.pipeline.hl7v2 import Hl7Format
from stream_masker.pipeline.reasons import Reason, RecordRejectedError
from stream_masker.service.configuration.model import Configuration
from stream_masker.service.formats.registry import (
    LATEST_SECONDS,
    UnknownSchemaError,
    connect_registry,
    open_serde,
    registry_answer,
)
from stream_masker.service.formats.serdes import Serde, schema_id

UNKNOWN_SECONDS: Final = 60.0
"""Seconds after which an id that the registry did not know is looked up again."""

CONFIRM_SECONDS: Final = 1.0
"""Seconds between the registry's first answer that it does not know an id, and the second question."""

MAX_UNKNOWN: Final = 10_000
"""The number of unknown ids that are remembered, unless the records of one batch have more."""

DEFAULT_LIMIT_BYTES: Final = 1_048_576

MessagePart: TypeAlias = Literal["key", "value"]


class SchemaLookup:
    """The serdes of a registry's schemas, by id and by subject. Each schema is looked up once."""

    def __init__(
        self,
        client: Any,
        url: str,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._client = client
        self._url = url
        self._clock = clock
        self._sleep = sleep
        self._serdes: dict[int, Serde] = {}
        self._unknown: dict[int, float] = {}
        self._latest: dict[str, tuple[Serde, float]] = {}

    def by_id(self, number: int) -> Serde:
        """Return the serde of a schema. Raises RecordRejectedError for an unknown one, and FormatUnavailableError."""
        self.look_up([number])
        if (serde := self._serdes.get(number)) is None:
            raise RecordRejectedError(Reason.UNKNOWN_SCHEMA)
        return serde

    def look_up(self, numbers: Iterable[int]) -> None:
        """Look up the schemas that are not known yet. Raises FormatUnavailableError.

        A schema is unknown if the registry says so twice, ``CONFIRM_SECONDS`` apart: one of several registries may not
        have read a new schema yet. All schemas share one pause.
        """
        now = self._clock()
        new = [n for n in set(numbers) if n not in self._serdes and self._unknown.get(n, now) <= now]
        if missing := [number for number in new if not self._open(number)]:
            self._sleep(CONFIRM_SECONDS)
            self._remember_unknown([number for number in missing if not self._open(number)])

    def _open(self, number: int) -> bool:
        """Look up a schema. Return False if the registry says that it does not have the schema."""
        try:
            with registry_answer(self._url):
                schema = self._client.get_schema(number)
            self._serdes[number] = open_serde(self._client, self._url, number, schema)
        except UnknownSchemaError:
            return False
        except RecordRejectedError:
            self._remember_unknown([number])
        return True

    def _remember_unknown(self, numbers: Sequence[int]) -> None:
        if len(self._unknown) + len(numbers) > MAX_UNKNOWN:
            self._unknown.clear()
        self._unknown |= dict.fromkeys(numbers, self._clock() + UNKNOWN_SECONDS)

    def latest(self, subject: str) -> Serde:
        """Return the serde of a subject's latest version, which may be ``LATEST_SECONDS`` old.

        Raises FormatUnavailableError if there is none; a known version stays in use while the registry fails.
        """
        serde, until = self._latest.get(subject, (None, 0.0))
        if serde is not None and self._clock() < until:
            return serde
        try:
            with registry_answer(self._url, subject):
                registered = self._client.get_latest_version(subject)
            serde = self.by_id(registered.schema_id)
        except RecordRejectedError:
            raise FormatUnavailableError(
                f"the schema registry at {self._url} has no usable schema of the subject {subject}: register it"
            ) from None
        except FormatUnavailableError:
            if serde is None:
                raise
        self._latest[subject] = serde, self._clock() + LATEST_SECONDS
        return serde


class OutputSubject(NamedTuple):
    """The subject that masked records are written with. strategy: of the client, such as ``topic_record``."""

    strategy: str
    topic: str

    def name(self, part: MessagePart, record_name: str | None) -> str:
        """Return the subject of a record. Raises RecordRejectedError if the strategy needs a name that the schema
        lacks."""
        from confluent_kafka.schema_registry import (
            record_subject_name_strategy,
            topic_record_subject_name_strategy,
            topic_subject_name_strategy,
        )
        from confluent_kafka.serialization import SerializationContext

        strategies = {
            "topic": topic_subject_name_strategy,
            "record": record_subject_name_strategy,
            "topic_record": topic_record_subject_name_strategy,
        }
        if record_name is None and self.strategy != "topic":
            raise RecordRejectedError(Reason.UNKNOWN_SCHEMA)
        return str(strategies[self.strategy](SerializationContext(self.topic, part), record_name))


class ConfluentFormat:
    """Values, and with ``keys`` also message keys, in the Confluent wire format.

    subject: what masked records are written with; None for the schema that they came with. limit: the maximum size of
    a record, and of its JSON, in bytes (≥ 1).
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

    def decode(self, value: bytes) -> tuple[bytes, EncodeRecord]:
        """Return the JSON of a record, and the function that encodes it once it is masked."""
        return self._decode(value, "value")

    def decode_key(self, key: bytes) -> tuple[bytes, EncodeRecord]:
        """Return the JSON of a key, and the function that encodes it once it is masked."""
        return self._decode(key, "key")

    def _decode(self, data: bytes, part: MessagePart) -> tuple[bytes, EncodeRecord]:
        serde = self._schemas.by_id(schema_id(data))
        self._check_size(data)
        document, encode = serde.decode(data)
        self._check_size(document)
        if self._subject is None:
            return document, encode
        return document, self._schemas.latest(self._subject.name(part, serde.record_name)).encode

    def _check_size(self, data: bytes) -> None:
        if len(data) > self._limit:
            raise RecordRejectedError(Reason.TOO_LARGE)


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
