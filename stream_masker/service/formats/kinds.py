"""The serde of a schema, by its kind: Avro, JSON Schema or Protobuf.

Fields of Protobuf keep the names of the schema. As in canonical JSON, 64-bit integers are texts, and fields with their
default are left out.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from stream_masker.pipeline.codec.formatted import EncodeRecord
from stream_masker.pipeline.reasons import Reason, RecordRejectedError
from stream_masker.service.formats.protobuf_messages import add_known_file, document_message, is_in, message_document
from stream_masker.service.formats.registry import registry_answer
from stream_masker.service.formats.serdes import AvroSerde, JsonSchemaSerde, Serde, framed, no_subject

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
        own = f"schema-{number}.proto"
        _add_file(self._pool, client, own, client.get_schema(number, None, "serialized"))
        self._file = self._pool.FindFileByName(own)
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
    except Exception:  # noqa: BLE001
        raise RecordRejectedError(Reason.SCHEMA_MISMATCH) from None


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
    references = {one.name: one for one in schema.references or ()}
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
