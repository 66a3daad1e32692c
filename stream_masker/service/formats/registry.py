"""A schema registry: the client of a configuration, and what its failures mean for records.

Only the registry's own code for an unknown id (40403), or a schema that cannot be used, rejects a record. Every other
answer makes masking wait (FormatUnavailableError), because it may come from a proxy in front of the registry. No
message contains a value: the client's requests have only ids and subjects.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

from stream_masker.errors import ConfigurationError, installation_of
from stream_masker.pipeline.formats import EncodeRecord, FormatUnavailableError
from stream_masker.pipeline.reasons import Reason, RecordRejectedError
from stream_masker.service.configuration.model import Configuration
from stream_masker.service.configuration.secret import read_registry_secret
from stream_masker.service.formats.protobuf_messages import (
    add_known_file,
    document_message,
    is_in,
    message_document,
    unparsed_field,
)
from stream_masker.service.formats.serdes import AvroSerde, JsonSchemaSerde, Serde, framed, no_subject

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


PROTOBUF = "PROTOBUF"


class _MessageType(NamedTuple):
    new: Any
    read: Any
    write: Any


class ProtobufSerde:
    """The serde of a Protobuf schema, which may have several message types; a record names its own by an index."""

    def __init__(self, client: Any, number: int, schema: Any) -> None:
        from google.protobuf.descriptor_pool import DescriptorPool

        self._client = client
        self._number = number
        self._pool = DescriptorPool()
        name = f"schema-{number}.proto"
        _add_file(self._pool, client, name, client.get_schema(number, None, "serialized"))
        self._file = self._pool.FindFileByName(name)
        self._types: dict[tuple[int, ...], _MessageType] = {}
        self.record_name = str(self._type((0,)).new.DESCRIPTOR.full_name)

    def decode(self, value: bytes) -> tuple[bytes, EncodeRecord]:
        from confluent_kafka.schema_registry.serde import SchemaId

        try:
            header = SchemaId(PROTOBUF)
            header.from_bytes(io.BytesIO(value))
            kind = self._type(tuple(header.message_indexes))
            document = message_document(kind.read(value))
        except Exception:  # noqa: BLE001
            raise RecordRejectedError(Reason.NOT_IN_FORMAT) from None
        return document, partial(_encode, kind)

    def encode(self, document: bytes) -> bytes:
        """Encode the JSON of a message of the schema's first type."""
        return _encode(self._type((0,)), document)

    def _type(self, indexes: tuple[int, ...]) -> _MessageType:
        """Return the message type at indexes: of a type of the file, then of types nested in it."""
        if indexes not in self._types:
            self._types[indexes] = self._opened(indexes)
        return self._types[indexes]

    def _opened(self, indexes: tuple[int, ...]) -> _MessageType:
        from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
        from google.protobuf.message_factory import GetMessageClass

        message = GetMessageClass(_descriptor(self._file, indexes))
        conf = {"use.deprecated.format": False, "subject.name.strategy": no_subject}
        frame = framed(PROTOBUF, self._number, list(indexes))
        return _MessageType(
            message,
            ProtobufDeserializer(message, conf, self._client),
            ProtobufSerializer(
                message, self._client, {**conf, "auto.register.schemas": False, "schema.id.serializer": frame}
            ),
        )


def _encode(kind: _MessageType, document: bytes) -> bytes:
    try:
        return bytes(kind.write(document_message(kind.new, document)))
    except Exception as error:  # noqa: BLE001
        raise RecordRejectedError(Reason.SCHEMA_MISMATCH, unparsed_field(kind.new.DESCRIPTOR, error)) from None


def _descriptor(file: Any, indexes: Sequence[int]) -> Any:
    """Return the descriptor of a message type. Raises IndexError if the file does not have it."""
    types = list(file.message_types_by_name.values())
    for index in indexes[:-1]:
        types = list(types[_position(index)].nested_types)
    return types[_position(indexes[-1])]


def _position(index: int) -> int:
    if index < 0:
        raise IndexError(index)
    return index


def _add_file(pool: Any, client: Any, name: str, schema: Any) -> None:
    """Add a schema's file to a pool, after the files that it imports: from the registry, or well-known ones."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    file = FileDescriptorProto.FromString(base64.standard_b64decode(schema.schema_str))
    file.name = name
    references = {reference.name: reference for reference in schema.references or ()}
    for imported in file.dependency:
        if is_in(pool, imported):
            continue
        if imported in references:
            reference = references[imported]
            registered = client.get_version(reference.subject, reference.version, True, "serialized")
            _add_file(pool, client, imported, registered.schema)
        else:
            add_known_file(pool, imported)
    pool.Add(file)


SERDES: Mapping[str, Callable[[Any, int, Any], Serde]] = {
    "AVRO": AvroSerde,
    "JSON": JsonSchemaSerde,
    "PROTOBUF": ProtobufSerde,
}
"""The serdes by the registry's name of a kind of schema."""


def open_serde(client: Any, url: str, number: int, schema: Any) -> Serde:
    """Return the serde of a schema.

    Raises FormatUnavailableError if the schemas that it refers to cannot be looked up, and RecordRejectedError if the
    schema is of an unknown kind, cannot be parsed, or has rules, which encrypt or change values.
    """
    kind = SERDES.get(schema.schema_type)
    if kind is None or _has_rules(schema):
        raise RecordRejectedError(Reason.UNKNOWN_SCHEMA)
    with registry_answer(url):
        _look_up(client, number, schema)
    try:
        return kind(client, number, schema)
    except Exception:  # noqa: BLE001
        raise RecordRejectedError(Reason.UNKNOWN_SCHEMA) from None


def _look_up(client: Any, number: int, schema: Any) -> None:
    """Look up what a schema's serdes need, so that they send no requests: the client keeps it."""
    form = "serialized" if schema.schema_type == PROTOBUF else None
    _look_up_references(client, client.get_schema(number, None, form), form)


def _look_up_references(client: Any, schema: Any, form: str | None) -> None:
    for reference in schema.references or ():
        registered = client.get_version(reference.subject, reference.version, True, form)
        _look_up_references(client, registered.schema, form)


def _has_rules(schema: Any) -> bool:
    rules = schema.rule_set
    return rules is not None and bool(rules.domain_rules or getattr(rules, "encoding_rules", None))
