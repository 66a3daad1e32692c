"""A schema registry: the client of a configuration, and what its failures mean for records.

Only the registry's own code for an unknown id (40403), or a schema that cannot be used, rejects a record. Every other
answer makes masking wait (FormatUnavailableError), because it may come from a proxy in front of the registry. No
message contains a value: the client's requests have only ids and subjects.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from stream_masker.errors import ConfigurationError, installation_of
from stream_masker.pipeline.codec.formatted import FormatUnavailableError
from stream_masker.pipeline.reasons import Reason, RecordRejectedError
from stream_masker.service.configuration.model import Configuration
from stream_masker.service.configuration.secret import read_registry_secret

REGISTRY_TIMEOUT_SECONDS = 5.0
"""The timeout of a request; a failed one is repeated by the process, not by the client, so that it can stop."""

LATEST_SECONDS = 60
"""Seconds after which the latest version of a subject is looked up again."""

CACHED_SCHEMAS = 10_000

UNKNOWN_ID = 40403
"""The registry's error code for an id that it does not have."""


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
    }
    if section.ca is not None:
        properties["ssl.ca.location"] = str(configuration.resolve(section.ca))
    if section.certificate is not None:
        properties["ssl.certificate.location"] = str(configuration.resolve(section.certificate))
    if section.certificate_key is not None:
        properties["ssl.key.location"] = str(configuration.resolve(section.certificate_key))
    if section.credentials is not None:
        credentials = read_registry_secret(configuration, section.credentials, "credentials")
        if ":" not in credentials:
            raise ConfigurationError("format.registry.credentials: use the form user:password")
        properties["basic.auth.user.info"] = credentials
    if section.token is not None:
        properties |= {
            "bearer.auth.credentials.source": "STATIC_TOKEN",
            "bearer.auth.token": read_registry_secret(configuration, section.token, "token"),
            "bearer.auth.logical.cluster": section.logical_cluster,
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
