"""The serdes of one schema: records of the Confluent wire format as JSON, and JSON as records.

Framing, decoding, validation and encoding are those of confluent-kafka's serdes. A subject name is not needed: the
schema id of a record, or the one to write with, is known. All functions raise RecordRejectedError, which quotes no
value of a record, unlike the exceptions of the serdes.
"""

from __future__ import annotations

import base64
import io
import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from typing import Any, Final, NamedTuple, Protocol

import orjson

from stream_masker.pipeline.formats import EncodeRecord
from stream_masker.pipeline.reasons import Reason, RecordRejectedError
from stream_masker.service.formats.avro_values import avro_document, avro_value
from stream_masker.service.formats.limits import bounded_datum, is_unbounded, time_limit

HEADER_BYTES: Final = 5
"""The bytes before a value: a zero, and the schema id as a big-endian 32-bit integer."""

LARGEST_ID: Final = 2**31 - 1

PROTOBUF: Final = "PROTOBUF"
_UNPARSED: Final = re.compile(r"Failed to parse (\w+) field: ")


class Serde(Protocol):
    """The serde of one schema."""

    @property
    def record_name(self) -> str | None:
        """The full name of the schema's record, which subject name strategies use; None if it has none."""

    def decode(self, value: bytes) -> tuple[bytes, EncodeRecord]:
        """Return the JSON of a record, and the function that encodes another one like it."""

    def encode(self, document: bytes) -> bytes:
        """Encode the JSON of a record."""


def schema_id(value: bytes) -> int:
    """Return the schema id of a record. Raises RecordRejectedError if it has none."""
    number = int.from_bytes(value[1:HEADER_BYTES], "big")
    if len(value) <= HEADER_BYTES or value[0] or number > LARGEST_ID:
        raise RecordRejectedError(Reason.NOT_IN_FORMAT)
    return number


def _no_subject(*_: Any) -> None:
    """Return no subject: the strategy of serdes that need no subject."""


_CONF: Final = {"subject.name.strategy": _no_subject}


def _framed(kind: str, number: int, indexes: list[int] | None = None) -> dict[str, Any]:
    """Return the properties of a serializer that puts a schema id before a value. indexes: of a Protobuf message's
    type."""
    from confluent_kafka.schema_registry.serde import SchemaId

    header = SchemaId(kind, number, message_indexes=indexes).id_to_bytes()

    def frame(payload: bytes, *_: Any) -> bytes:
        return bytes(header + payload)

    return {**_CONF, "auto.register.schemas": False, "schema.id.serializer": frame}


@contextmanager
def _rejecting(reason: Reason, field_of: Callable[[Exception], str | None] = lambda _: None) -> Iterator[None]:
    """Reject a record for which the block fails or takes too long. field_of: returns the field that is the cause."""
    try:
        with time_limit():
            yield
    except RecordRejectedError:
        raise
    except RecursionError:
        raise RecordRejectedError(Reason.TOO_DEEP) from None
    except Exception as error:  # noqa: BLE001
        raise RecordRejectedError(reason, field_of(error)) from None


class AvroSerde:
    """The serde of an Avro schema."""

    def __init__(self, client: Any, number: int, schema: Any) -> None:
        from confluent_kafka.schema_registry import Schema
        from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer

        self._named: dict[str, Any] = {}
        self._parsed = _parse_avro(client, schema, self._named)
        self.record_name = self._parsed.get("name") if isinstance(self._parsed, dict) else None
        self._is_unbounded = is_unbounded(self._parsed, self._named)
        self._read = AvroDeserializer(client, conf=_CONF)
        definition = json.loads(schema.schema_str)
        if isinstance(definition, str):  # the serializer takes no name of a type alone
            schema = Schema(json.dumps({"type": definition}), "AVRO")
        self._write = AvroSerializer(client, schema, conf=_framed("AVRO", number))

    def decode(self, value: bytes) -> tuple[bytes, EncodeRecord]:
        with _rejecting(Reason.NOT_IN_FORMAT):
            if self._is_unbounded:
                return avro_document(bounded_datum(value[HEADER_BYTES:], self._parsed, self._named)), self.encode
            return avro_document(self._read(value)), self.encode

    def encode(self, document: bytes) -> bytes:
        with _rejecting(Reason.SCHEMA_MISMATCH):
            return bytes(self._write(avro_value(orjson.loads(document), self._parsed, self._named)))


def _parse_avro(client: Any, schema: Any, named: dict[str, Any]) -> Any:
    """Parse a schema and those that it refers to; their named types are added to ``named``."""
    from fastavro import parse_schema

    for reference in schema.references or ():
        _parse_avro(client, client.get_version(reference.subject, reference.version, True).schema, named)
    return parse_schema(json.loads(schema.schema_str), named)


class JsonSchemaSerde:
    """The serde of a JSON Schema. What is written is validated; what is read is only parsed, by the codec."""

    def __init__(self, client: Any, number: int, schema: Any) -> None:
        from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer

        definition = json.loads(schema.schema_str)
        self.record_name = definition.get("title") if isinstance(definition, dict) else None
        conf = {**_CONF, "validate": False}
        self._read = JSONDeserializer(None, schema_registry_client=client, conf=conf, json_decode=bytes)
        dumps: Callable[[Any], str] = lambda value: orjson.dumps(value).decode()  # noqa: E731
        self._write = JSONSerializer(schema, client, conf=_framed("JSON", number), json_encode=dumps)

    def decode(self, value: bytes) -> tuple[bytes, EncodeRecord]:
        with _rejecting(Reason.NOT_IN_FORMAT):
            return bytes(self._read(value)), self.encode

    def encode(self, document: bytes) -> bytes:
        with _rejecting(Reason.SCHEMA_MISMATCH, lambda error: _invalid_field(error.__context__)):
            return bytes(self._write(orjson.loads(document)))


def _invalid_field(error: BaseException | None) -> str | None:
    """Return the field of a validation error, by the names in the schema only: those of the record may be values."""
    from jsonschema import ValidationError

    if not isinstance(error, ValidationError):
        return None
    steps, value = list(error.absolute_schema_path), error.validator_value
    names = [str(name) for at, name in pairwise(steps) if at == "properties"]
    if error.validator == "required" and isinstance(value, list) and isinstance(error.instance, dict):
        names += [name for name in value if name not in error.instance][:1]
    return ".".join(names) or None


class _MessageType(NamedTuple):
    new: Any
    read: Any
    write: Any


class ProtobufSerde:
    """The serde of a Protobuf schema, which may have several message types; a record names its own by an index."""

    def __init__(self, client: Any, number: int, schema: Any) -> None:
        from google.protobuf.descriptor_pool import DescriptorPool

        self._client, self._number = client, number
        pool, name = DescriptorPool(), f"schema-{number}.proto"
        _add_file(pool, client, name, client.get_schema(number, None, "serialized"))
        self._file = pool.FindFileByName(name)
        self._types: dict[tuple[int, ...], _MessageType] = {}
        self.record_name = str(self._type((0,)).new.DESCRIPTOR.full_name)

    def decode(self, value: bytes) -> tuple[bytes, EncodeRecord]:
        from confluent_kafka.schema_registry.serde import SchemaId
        from google.protobuf.json_format import MessageToDict

        with _rejecting(Reason.NOT_IN_FORMAT):
            header = SchemaId(PROTOBUF)
            header.from_bytes(io.BytesIO(value))
            kind = self._type(tuple(header.message_indexes))
            document = orjson.dumps(MessageToDict(kind.read(value), preserving_proto_field_name=True))
            return document, partial(_encode_message, kind)

    def encode(self, document: bytes) -> bytes:
        """Encode the JSON of a message of the schema's first type."""
        return _encode_message(self._type((0,)), document)

    def _type(self, indexes: tuple[int, ...]) -> _MessageType:
        """Return the message type at indexes: of a type of the file, then of types nested in it."""
        if indexes not in self._types:
            self._types[indexes] = self._opened(indexes)
        return self._types[indexes]

    def _opened(self, indexes: tuple[int, ...]) -> _MessageType:
        from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
        from google.protobuf.message_factory import GetMessageClass

        types, descriptor = list(self._file.message_types_by_name.values()), None
        for index in indexes:
            descriptor = types[index] if index >= 0 else types[len(types)]
            types = list(descriptor.nested_types)
        message, conf = GetMessageClass(descriptor), {"use.deprecated.format": False}
        return _MessageType(
            message,
            ProtobufDeserializer(message, {**conf, **_CONF}, self._client),
            ProtobufSerializer(message, self._client, {**conf, **_framed(PROTOBUF, self._number, list(indexes))}),
        )


def _encode_message(kind: _MessageType, document: bytes) -> bytes:
    """Encode the canonical JSON of a message. Names that the schema does not have are dropped."""
    from google.protobuf.json_format import ParseDict

    descriptor = kind.new.DESCRIPTOR
    with _rejecting(Reason.SCHEMA_MISMATCH, partial(_unparsed_field, descriptor)):
        fields = orjson.loads(document)
        _check_shapes(descriptor, fields)
        return bytes(kind.write(ParseDict(fields, kind.new(), ignore_unknown_fields=True)))


def _unparsed_field(message: Any, error: Exception) -> str | None:
    """Return the path of the field of a message type that ``ParseDict`` could not parse; None if there is none.

    The names are looked up in the schema: what else the error quotes may be values.
    """
    path: list[str] = []
    for name in _UNPARSED.findall(str(error)):
        field = None if message is None else message.fields_by_name.get(name)
        if field is None:
            break
        path.append(name)
        message = field.message_type
    return ".".join(path) or None


def _check_shapes(message: Any, fields: Any) -> None:
    """Raise TypeError for a text in the place of a list or a message: ``ParseDict`` takes its characters as members."""
    if not isinstance(fields, dict):
        raise TypeError
    for field in message.fields:
        if (value := fields.get(field.name)) is None:
            continue
        nested = field.message_type
        if isinstance(value, str) and field.is_repeated:
            raise TypeError
        if nested is not None and nested.file.package != "google.protobuf" and not nested.GetOptions().map_entry:
            for members in value if field.is_repeated else [value]:
                _check_shapes(nested, members)


def _add_file(pool: Any, client: Any, name: str, schema: Any) -> None:
    """Add a schema's file to a pool, after the files that it imports: from the registry, or well-known ones."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    file = FileDescriptorProto.FromString(base64.standard_b64decode(schema.schema_str))
    file.name = name
    references = {reference.name: reference for reference in schema.references or ()}
    for imported in file.dependency:
        if imported in references:
            reference = references.pop(imported)
            registered = client.get_version(reference.subject, reference.version, True, "serialized")
            _add_file(pool, client, imported, registered.schema)
        else:
            _add_known_file(pool, imported)
    pool.Add(file)


def _add_known_file(pool: Any, name: str) -> None:
    """Add a file that comes with the libraries, such as ``google/protobuf/timestamp.proto``. Raises KeyError."""
    from google.protobuf import (  # noqa: F401 - their files become known to the default pool
        any_pb2,
        duration_pb2,
        struct_pb2,
        timestamp_pb2,
        wrappers_pb2,
    )
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.descriptor_pool import Default

    pool.Add(FileDescriptorProto.FromString(Default().FindFileByName(name).serialized_pb))


SERDES: Final[Mapping[str, Callable[[Any, int, Any], Serde]]] = {
    "AVRO": AvroSerde,
    "JSON": JsonSchemaSerde,
    PROTOBUF: ProtobufSerde,
}
"""The serdes by the registry's name of a kind of schema."""
