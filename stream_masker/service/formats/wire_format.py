"""The format of records on topics and in files as configured: JSON, HL7 v2, and the Confluent wire format.

In the wire format a value is the id of a schema and a record in Avro, Protobuf or JSON (``serdes``). Only the
registry's own code for an unknown id (40403), or a schema that cannot be used, rejects a record. Every other answer
makes masking wait (FormatUnavailableError), because it may come from a proxy in front of the registry. No message
contains a value: the client's requests have only ids and subjects.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, Literal, TypeAlias

from stream_masker.errors import ConfigurationError, ParameterError, installation_of
from stream_masker.pipeline.formats import FormatUnavailableError, RecordFormat, Write
from stream_masker.pipeline.hl7v2 import Hl7Format
from stream_masker.pipeline.reasons import Reason, RecordRejectedError
from stream_masker.service.configuration.model import Configuration
from stream_masker.service.configuration.secret import read_source
from stream_masker.service.formats.serdes import PROTOBUF, SERDES, Serde, schema_id

MessagePart: TypeAlias = Literal["key", "value"]

DEFAULT_LIMIT_BYTES: Final = 1_048_576

REGISTRY_TIMEOUT_SECONDS: Final = 5.0
"""The timeout of a request; a failed one is repeated by the process, not by the client, so that it can stop."""

LATEST_SECONDS: Final = 60
"""Seconds after which the latest version of a subject is looked up again."""

CACHED_SCHEMAS: Final = 10_000

UNKNOWN_ID: Final = 40403
"""The registry's error code for an id that it does not have."""

CONFIRM_SECONDS: Final = 1.0
"""Seconds between the registry's first answer that it does not know an id, and the second question."""

UNKNOWN_SECONDS: Final = 60.0
"""Seconds after which an id that the registry did not know is looked up again."""

MAX_UNKNOWN: Final = 10_000
"""The number of unknown ids that are remembered."""


def connect_registry(configuration: Configuration) -> Any:
    """Return the client of the configured registry; sends nothing.

    Raises ConfigurationError if the extra ``registry`` is not installed, or the settings cannot be used.
    """
    try:
        from confluent_kafka.schema_registry import SchemaRegistryClient
    except ImportError as error:
        raise ConfigurationError(
            f"format: the schema registry needs {error.name}: {installation_of('registry')}"
        ) from None
    section = configuration.format.registry
    properties: dict[str, Any] = {
        "url": section.url,
        "timeout": REGISTRY_TIMEOUT_SECONDS,
        "max.retries": 0,
        "cache.capacity": CACHED_SCHEMAS,
        "cache.latest.ttl.sec": LATEST_SECONDS,
        **section.properties,
    }
    if section.credentials is not None:
        credentials = read_source(configuration, section.credentials, "format.registry.credentials", least=0)
        if b":" not in credentials:
            raise ConfigurationError("format.registry.credentials: use the form user:password")
        properties["basic.auth.user.info"] = credentials.decode(errors="replace")
    if section.token is not None:
        token = read_source(configuration, section.token, "format.registry.token", least=0)
        properties["bearer.auth.credentials.source"] = "STATIC_TOKEN"
        properties["bearer.auth.token"] = token.decode(errors="replace")
        properties.setdefault("bearer.auth.logical.cluster", "")
    try:
        return SchemaRegistryClient.new_client(properties)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a usable value"
        raise ConfigurationError(f"format.registry: the client cannot be built: {reason or error}") from None


class SchemaLookup:
    """The serdes of a registry's schemas, by id and by subject. Each schema is looked up once."""

    def __init__(
        self,
        client: Any,
        url: str,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        from cachetools import TTLCache

        self._client, self._url, self._sleep = client, url, sleep
        self._serdes: dict[int, Serde | None] = {}
        self._unknown: Any = TTLCache(MAX_UNKNOWN, UNKNOWN_SECONDS, timer=clock)

    def by_id(self, number: int) -> Serde:
        """Return the serde of a schema. Raises RecordRejectedError for an unknown one, and FormatUnavailableError."""
        if number not in self._serdes:
            self.look_up([number])
        if (serde := self._serdes.get(number)) is None:
            raise RecordRejectedError(Reason.UNKNOWN_SCHEMA)
        return serde

    def look_up(self, numbers: Iterable[int]) -> None:
        """Look up the schemas that are not known yet. Raises FormatUnavailableError.

        A schema is unknown if the registry says so twice, ``CONFIRM_SECONDS`` apart: one of several registries may not
        have read a new schema yet. All schemas share one pause.
        """
        new = [n for n in set(numbers) if n not in self._serdes and n not in self._unknown]
        if missing := [number for number in new if not self._open(number)]:
            self._sleep(CONFIRM_SECONDS)
            self._unknown.update({number: None for number in missing if not self._open(number)})

    def _open(self, number: int) -> bool:
        """Look up a schema. Return False if the registry says that it does not have it."""
        try:
            with self._answers():
                schema = self._client.get_schema(number)
        except RecordRejectedError:
            return False
        kind, rules, serde = SERDES.get(schema.schema_type), schema.rule_set, None
        form = "serialized" if schema.schema_type == PROTOBUF else None
        if kind is not None and not (rules and (rules.domain_rules or getattr(rules, "encoding_rules", None))):
            with self._answers():
                self._look_up_references(self._client.get_schema(number, None, form), form)
            with suppress(Exception):
                serde = kind(self._client, number, schema)
        self._serdes[number] = serde
        return True

    def _look_up_references(self, schema: Any, form: str | None) -> None:
        """Look up what a schema's serdes need, so that they send no requests: the client keeps it."""
        for reference in schema.references or ():
            registered = self._client.get_version(reference.subject, reference.version, True, form)
            self._look_up_references(registered.schema, form)

    def latest(self, subject: str) -> Serde:
        """Return the serde of a subject's latest version, which may be ``LATEST_SECONDS`` old.

        Raises FormatUnavailableError if there is none.
        """
        with self._answers(subject):
            return self.by_id(self._client.get_latest_version(subject).schema_id)

    @contextmanager
    def _answers(self, subject: str | None = None) -> Iterator[None]:
        """Translate the failures of requests; ``subject``: what is looked up, if it is not an id.

        Raises RecordRejectedError if the registry says that it does not have the id, FormatUnavailableError if it
        cannot be asked, or has no usable schema of the subject.
        """
        from confluent_kafka.schema_registry import SchemaRegistryError

        try:
            yield
        except FormatUnavailableError:
            raise
        except RecordRejectedError:
            text = f"has no usable schema of the subject {subject}: register it"
        except SchemaRegistryError as error:
            status, code = int(error.http_status_code), int(error.error_code or 0)
            if (status, code) == (404, UNKNOWN_ID) and subject is None:
                raise RecordRejectedError(Reason.UNKNOWN_SCHEMA) from None
            if status == 404 and 40400 <= code < 40500:
                text = f"has no usable schema of the subject {subject or 'that a schema refers to'}: register it"
            else:
                text = f"fails ({status}): check format.registry, and the proxies before it"
        except Exception as error:  # noqa: BLE001
            text = f"cannot be reached ({type(error).__name__})"
        else:
            return
        raise FormatUnavailableError(f"the schema registry at {self._url} {text}")


class ConfluentFormat(RecordFormat):
    """Values, and with ``keys`` also message keys, in the Confluent wire format.

    output: the topic with whose latest schemas masked records are written; empty for the schemas that they came with.
    limit: the maximum size of a record in bytes (≥ 1).
    """

    def __init__(
        self,
        schemas: SchemaLookup,
        *,
        output: str = "",
        keys: bool = False,
        limit: int = DEFAULT_LIMIT_BYTES,
    ) -> None:
        if limit < 1:
            raise ParameterError(f"limit must be at least 1 byte, not {limit}")
        self._schemas, self._output, self.decodes_keys, self._limit = schemas, output, keys, limit

    def prepare(self, messages: Iterable[bytes]) -> None:
        """Look up the schemas of values or keys together. Raises FormatUnavailableError."""
        numbers = set()
        for message in messages:
            with suppress(RecordRejectedError):
                numbers.add(schema_id(message))
        self._schemas.look_up(numbers)

    def decode(self, value: bytes) -> tuple[Any, Write]:
        """Return a record, and the function that encodes it once it is masked."""
        return self._decode(value, "value")

    def decode_key(self, key: bytes) -> tuple[Any, Write]:
        """Return a key, and the function that encodes it once it is masked."""
        return self._decode(key, "key")

    def _decode(self, data: bytes, part: MessagePart) -> tuple[Any, Write]:
        serde = self._schemas.by_id(schema_id(data))
        if len(data) > self._limit:
            raise RecordRejectedError(Reason.TOO_LARGE)
        document, encode = serde.decode(data)
        return document, self._schemas.latest(f"{self._output}-{part}").encode if self._output else encode


def wire_format(configuration: Configuration) -> RecordFormat | None:
    """Return the format of the records on the topics; None for JSON. Sends nothing.

    Raises ConfigurationError if the registry's settings cannot be used.
    """
    section = configuration.format
    if section.value == "json":
        return file_format(configuration)
    schemas = SchemaLookup(connect_registry(configuration), section.registry.url)
    output = configuration.topics.output if section.write == "latest" else ""
    limit = configuration.limits.record_bytes
    return ConfluentFormat(schemas, output=output, keys=section.key == "confluent", limit=limit)


def file_format(configuration: Configuration) -> RecordFormat | None:
    """Return the format of the records in files; None for JSON, also that of the rows of tables."""
    return Hl7Format() if configuration.records == "hl7v2" else None
