"""A schema registry: the client of a configuration, and what its failures mean for records.

Only the registry's own code for an unknown id (40403), or a schema that cannot be used, rejects a record. Every other
answer makes masking wait (FormatUnavailableError), because it may come from a proxy in front of the registry. No
message contains a value: the client's requests have only ids and subjects.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from stream_masker.errors import ConfigurationError, installation_of
from stream_masker.pipeline.formats import FormatUnavailableError
from stream_masker.pipeline.reasons import Reason, RecordRejectedError
from stream_masker.service.configuration.model import Configuration
from stream_masker.service.configuration.secret import read_source
from stream_masker.service.formats.serdes import PROTOBUF, SERDES, Serde

REGISTRY_TIMEOUT_SECONDS = 5.0
"""The timeout of a request; a failed one is repeated by the process, not by the client, so that it can stop."""

LATEST_SECONDS = 60
"""Seconds after which the latest version of a subject is looked up again."""

CACHED_SCHEMAS = 10_000

UNKNOWN_ID = 40403
"""The registry's error code for an id that it does not have."""

UNKNOWN_SECONDS = 60.0
"""Seconds after which an id that the registry did not know is looked up again."""

CONFIRM_SECONDS = 1.0
"""Seconds between the registry's first answer that it does not know an id, and the second question."""

MAX_UNKNOWN = 10_000
"""The number of unknown ids that are remembered, unless the records of one batch have more."""


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
    try:
        return SchemaRegistryClient.new_client(client_properties(configuration))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a usable value"
        raise ConfigurationError(f"format.registry: the client cannot be built: {reason or error}") from None


def client_properties(configuration: Configuration) -> dict[str, Any]:
    """Return the properties of the registry's client. Raises ConfigurationError for secrets that cannot be read."""
    section = configuration.format.registry
    properties: dict[str, Any] = {
        "url": section.url,
        "timeout": REGISTRY_TIMEOUT_SECONDS,
        "max.retries": 0,
        "cache.capacity": CACHED_SCHEMAS,
        "cache.latest.ttl.sec": LATEST_SECONDS,
        "bearer.auth.logical.cluster": "",
        **section.properties,
    }
    if section.credentials is not None:
        credentials = read_source(configuration, section.credentials, "format.registry.credentials", least=0)
        if b":" not in credentials:
            raise ConfigurationError("format.registry.credentials: use the form user:password")
        properties["basic.auth.user.info"] = credentials.decode(errors="replace")
    if section.token is not None:
        token = read_source(configuration, section.token, "format.registry.token", least=0)
        properties |= {
            "bearer.auth.credentials.source": "STATIC_TOKEN",
            "bearer.auth.token": token.decode(errors="replace"),
        }
    return properties


class UnknownSchemaError(RecordRejectedError):
    """The registry says that it has no schema of an id."""

    def __init__(self) -> None:
        super().__init__(Reason.UNKNOWN_SCHEMA)


@contextmanager
def registry_answer(url: str, subject: str | None = None) -> Iterator[None]:
    """Translate the failures of requests to the registry; ``subject``: what is looked up, if it is not an id.

    Raises UnknownSchemaError if the registry says that it does not have the id, FormatUnavailableError if it cannot be
    asked.
    """
    from confluent_kafka.schema_registry import SchemaRegistryError

    try:
        yield
    except (RecordRejectedError, FormatUnavailableError):
        raise
    except SchemaRegistryError as error:
        if (error.http_status_code, error.error_code) == (404, UNKNOWN_ID):
            raise UnknownSchemaError from None
        raise FormatUnavailableError(f"the schema registry at {url} {_failure(error, subject)}") from None
    except Exception as error:  # noqa: BLE001
        raise FormatUnavailableError(
            f"the schema registry at {url} cannot be reached ({type(error).__name__})"
        ) from None


def _failure(error: Any, subject: str | None) -> str:
    """Return what a failed answer of the registry means, as the end of a sentence."""
    status = int(error.http_status_code)
    if status in (401, 403):
        return f"refuses access ({status}): check format.registry"
    if status != 404:
        return f"fails ({status})"
    if not 40400 <= int(error.error_code or 0) < 40500:
        return "answers 404 without an error code of a registry: check format.registry.url, and the proxies before it"
    return f"has no usable schema of the subject {subject or 'that a schema refers to'}: register it"


def open_serde(client: Any, url: str, number: int, schema: Any) -> Serde:
    """Return the serde of a schema.

    Raises FormatUnavailableError if the schemas that it refers to cannot be looked up, and RecordRejectedError if the
    schema is of an unknown kind, cannot be parsed, or has rules, which encrypt or change values.
    """
    kind, rules = SERDES.get(schema.schema_type), schema.rule_set
    has_rules = rules is not None and (rules.domain_rules or getattr(rules, "encoding_rules", None))
    if kind is None or has_rules:
        raise RecordRejectedError(Reason.UNKNOWN_SCHEMA)
    form = "serialized" if schema.schema_type == PROTOBUF else None
    with registry_answer(url):
        _look_up_references(client, client.get_schema(number, None, form), form)
    try:
        return kind(client, number, schema)
    except Exception:  # noqa: BLE001
        raise RecordRejectedError(Reason.UNKNOWN_SCHEMA) from None


def _look_up_references(client: Any, schema: Any, form: str | None) -> None:
    """Look up what a schema's serdes need, so that they send no requests: the client keeps it."""
    for reference in schema.references or ():
        registered = client.get_version(reference.subject, reference.version, True, form)
        _look_up_references(client, registered.schema, form)


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

    def _remember_unknown(self, numbers: list[int]) -> None:
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
