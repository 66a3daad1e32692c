"""A schema registry: the client of a configuration, and what its failures mean for records.

A registry that cannot be reached, refuses the credentials or fails makes masking wait (FormatUnavailableError). A
schema that it does not have, or that cannot be used, rejects the record. No message contains a value: the client's
requests have only ids and subjects.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from stream_masker.errors import ConfigurationError
from stream_masker.pipeline.codec.formatted import FormatUnavailableError
from stream_masker.pipeline.reasons import Reason, RecordRejectedError
from stream_masker.service.configuration.model import Configuration
from stream_masker.service.configuration.secret import read_registry_secret

REGISTRY_TIMEOUT_SECONDS = 5.0
"""The timeout of a request; a failed one is repeated by the process, not by the client, so that it can stop."""

LATEST_SECONDS = 60
"""Seconds after which the latest version of a subject is looked up again."""

CACHED_SCHEMAS = 10_000


def connect_registry(configuration: Configuration) -> Any:
    """Return the client of the configured registry; sends nothing.

    Raises ConfigurationError if the extra ``registry`` is not installed, or the settings cannot be used.
    """
    try:
        from confluent_kafka.schema_registry import SchemaRegistryClient
    except ImportError as error:
        raise ConfigurationError(
            f"format: the schema registry needs {error.name}: pip install 'stream-masker[registry]'"
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


@contextmanager
def registry_answer(url: str) -> Iterator[None]:
    """Translate the failures of requests to the registry.

    Raises RecordRejectedError if the registry does not have the schema, FormatUnavailableError if it cannot be asked.
    """
    from confluent_kafka.schema_registry import SchemaRegistryError

    try:
        yield
    except (RecordRejectedError, FormatUnavailableError):
        raise
    except SchemaRegistryError as error:
        status = int(error.http_status_code)
        if status in (401, 403):
            raise FormatUnavailableError(
                f"the schema registry at {url} refuses access ({status}): check format.registry"
            ) from None
        if status == 429 or status >= 500 or status < 400:
            raise FormatUnavailableError(f"the schema registry at {url} fails ({status})") from None
        raise RecordRejectedError(Reason.UNKNOWN_SCHEMA) from None
    except Exception as error:  # noqa: BLE001
        raise FormatUnavailableError(
            f"the schema registry at {url} cannot be reached ({type(error).__name__})"
        ) from None
