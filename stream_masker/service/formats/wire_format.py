"""The format of records on topics and in files as configured: JSON, HL7 v2, and the Confluent wire format.

In the wire format a value is the id of a schema and a record in Avro, Protobuf or JSON (``serdes``). Only the
registry's own code for an unknown id (40403), or a schema that cannot be used, rejects a record. Every other answer
makes masking wait (FormatUnavailableError), because it may come from a proxy in front of the registry. No message
contains a value: the client's requests have only ids and subjects.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Iterable
from contextlib import suppress
from typing import Any, Final

from stream_masker.errors import ConfigurationError, installation_of
from stream_masker.pipeline.formats import FormatUnavailableError, RecordFormat, Write
from stream_masker.pipeline.hl7v2 import Hl7Format
from stream_masker.pipeline.reasons import Reason, RecordRejectedError
from stream_masker.service.configuration.model import Configuration
from stream_masker.service.formats.serdes import PROTOBUF, SERDES, Serde, schema_id

REGISTRY_TIMEOUT_SECONDS: Final = 5.0
"""The timeout of a request; a failed one is repeated by the process, not by the client, so that it can stop."""

LATEST_SECONDS: Final = 60
"""Seconds after which the latest version of a subject is looked up again."""

CACHED_SCHEMAS: Final = 10_000

UNKNOWN_ID, UNKNOWN_SUBJECT, ANSWERED = (40403,), range(40400, 40500), ()
"""The registry's error codes for an id and for a subject that it does not have, and for nothing."""

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
    try:
        return SchemaRegistryClient.new_client(properties)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a usable value"
        raise ConfigurationError(f"format.registry: the client cannot be built: {reason or error}") from None


class ConfluentFormat(RecordFormat):
    """Values, and with ``keys`` also message keys, in the Confluent wire format.

    client: of the registry at ``url``; output: the topic with whose latest schemas masked records are written; empty
    for the schemas that they came with. Each schema is looked up once.
    """

    def __init__(
        self,
        client: Any,
        url: str,
        *,
        output: str = "",
        keys: bool = False,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        from cachetools import TTLCache

        self._client, self._url, self._output, self.decodes_keys, self._sleep = client, url, output, keys, sleep
        self._serdes: dict[int, Serde | None] = {}
        self._unknown: Any = TTLCache(MAX_UNKNOWN, UNKNOWN_SECONDS, timer=clock)

    def prepare(self, messages: Iterable[bytes]) -> None:
        """Look up the schemas of values or keys together. Raises FormatUnavailableError.

        A schema is unknown if the registry says so twice, ``CONFIRM_SECONDS`` apart: one of several registries may not
        have read a new schema yet. All schemas share one pause.
        """
        numbers = {number for message in messages if (number := schema_id(message)) is not None}
        new = [number for number in numbers if number not in self._serdes and number not in self._unknown]
        if missing := [number for number in new if not self._has(number)]:
            self._sleep(CONFIRM_SECONDS)
            self._unknown.update({number: None for number in missing if not self._has(number)})

    def decode(self, value: bytes) -> tuple[Any, Write]:
        """Return a record, and what encodes it once it is masked."""
        return self._decode(value, "value")

    def decode_key(self, key: bytes) -> tuple[Any, Write]:
        """Return a key, and what encodes it once it is masked."""
        return self._decode(key, "key")

    def _decode(self, data: bytes, part: str) -> tuple[Any, Write]:
        document, encode = self._serde(data).decode(data)
        return document, self._latest(f"{self._output}-{part}").encode if self._output else encode

    def _serde(self, data: bytes) -> Serde:
        """Return the serde of the schema that a record begins with."""
        if (number := schema_id(data)) is None:
            raise RecordRejectedError(Reason.NOT_IN_FORMAT)
        if number not in self._serdes:
            self.prepare([data])
        if (serde := self._serdes.get(number)) is None:
            raise RecordRejectedError(Reason.UNKNOWN_SCHEMA)
        return serde

    def _latest(self, subject: str) -> Serde:
        """Return the serde of a subject's latest version, which may be ``LATEST_SECONDS`` old."""
        latest = self._ask(UNKNOWN_SUBJECT, self._client.get_latest_version, subject)
        serde = None
        if latest is not None and (latest.schema_id in self._serdes or self._has(latest.schema_id)):
            serde = self._serdes[latest.schema_id]
        if serde is None:
            raise self._unavailable(f"has no usable schema of the subject {subject}: register it")
        return serde

    def _has(self, number: int) -> bool:
        """Look up a schema and build its serde. Return False if the registry says that it does not have it."""
        schema = self._ask(UNKNOWN_ID, self._client.get_schema, number)
        if schema is None:
            return False
        kind, rules, serde = SERDES.get(schema.schema_type), schema.rule_set, None
        if kind is not None and not (rules and (rules.domain_rules or getattr(rules, "encoding_rules", None))):
            form = "serialized" if schema.schema_type == PROTOBUF else None
            schema = self._ask(ANSWERED, self._client.get_schema, number, None, form)
            self._ask_for_references(schema, form)
            with suppress(Exception):
                serde = kind(self._client, number, schema)
        self._serdes[number] = serde
        return True

    def _ask_for_references(self, schema: Any, form: str | None) -> None:
        """Look up what a schema's serde needs, so that it sends no requests: the client keeps it."""
        for reference in schema.references or ():
            registered = self._ask(ANSWERED, self._client.get_version, reference.subject, reference.version, True, form)
            self._ask_for_references(registered.schema, form)

    def _ask(self, unknown: Container[int], request: Callable[..., Any], *arguments: Any) -> Any:
        """Return the registry's answer, and None for its error codes ``unknown``. Raises FormatUnavailableError."""
        from confluent_kafka.schema_registry import SchemaRegistryError

        try:
            return request(*arguments)
        except SchemaRegistryError as error:
            if error.http_status_code == 404 and error.error_code in unknown:
                return None
            problem = f"fails ({error.http_status_code}): check format.registry, and the proxies before it"
        except Exception as error:  # noqa: BLE001
            problem = f"cannot be reached ({type(error).__name__})"
        raise self._unavailable(problem)

    def _unavailable(self, problem: str) -> FormatUnavailableError:
        return FormatUnavailableError(f"the schema registry at {self._url} {problem}")


def wire_format(configuration: Configuration) -> RecordFormat | None:
    """Return the format of the records on the topics; None for JSON. Sends nothing.

    Raises ConfigurationError if the registry's settings cannot be used.
    """
    section = configuration.format
    if section.value == "json":
        return file_format(configuration)
    client, output = connect_registry(configuration), configuration.topics.output if section.write == "latest" else ""
    return ConfluentFormat(client, section.registry.url, output=output, keys=section.key == "confluent")


def file_format(configuration: Configuration) -> RecordFormat | None:
    """Return the format of the records in files; None for JSON, also that of the rows of tables."""
    return Hl7Format() if configuration.records == "hl7v2" else None
