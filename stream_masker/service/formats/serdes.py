"""The serdes of one schema: records of the Confluent wire format as documents, and documents as records.

Values keep the types that the libraries give them: an instant of Avro is a ``datetime`` in the document, and is written
back as it came. All functions raise RecordRejectedError, which quotes no value of a record, unlike the libraries.

What a hostile schema or record can do is bounded by the size of the record before it is decoded, by the depth of the
document, and by one time limit.
"""

from __future__ import annotations

import base64
import io
import json
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, Protocol

import orjson

from stream_masker.errors import StreamMaskerError
from stream_masker.pipeline.formats import Write
from stream_masker.pipeline.paths import JsonValue
from stream_masker.pipeline.reasons import Reason, RecordRejectedError

HEADER_BYTES: Final = 5
"""The bytes before a value: a zero, and the schema id as a big-endian 32-bit integer."""

LARGEST_ID: Final = 2**31 - 1
PROTOBUF: Final = "PROTOBUF"

RECORD_SECONDS: Final = 2.0
"""The processor time of the process in which a record must be decoded, or validated and encoded."""

_AGAIN_SECONDS: Final = 0.1


class TimeLimitError(StreamMaskerError):
    """A record took longer than ``RECORD_SECONDS``."""


@contextmanager
def time_limit(seconds: float | None = None) -> Iterator[None]:
    """Raise TimeLimitError in the block once it takes this processor time, ``RECORD_SECONDS`` by default.

    A few bytes may claim any number of items that take no bytes, a schema may validate a record in a time that grows
    exponentially with its depth, and a pattern may backtrack for hours; all of them heed signals. Only the main thread,
    which masks, has a limit.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(*_: object) -> None:
        raise TimeLimitError("a record takes too long")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds or RECORD_SECONDS, _AGAIN_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


@contextmanager
def _rejecting(reason: Reason) -> Iterator[None]:
    """Reject a record for which the block fails or takes too long."""
    try:
        with time_limit():
            yield
    except RecordRejectedError:
        raise
    except RecursionError:
        raise RecordRejectedError(Reason.TOO_DEEP) from None
    except Exception:  # noqa: BLE001
        raise RecordRejectedError(reason) from None


def schema_id(value: bytes) -> int:
    """Return the schema id of a record. Raises RecordRejectedError if it has none."""
    number = int.from_bytes(value[1:HEADER_BYTES], "big")
    if len(value) <= HEADER_BYTES or value[0] or number > LARGEST_ID:
        raise RecordRejectedError(Reason.NOT_IN_FORMAT)
    return number


def _header(number: int) -> bytes:
    return b"\x00" + number.to_bytes(4, "big")


class Serde(Protocol):
    """The serde of one schema. Its functions raise RecordRejectedError."""

    def decode(self, value: bytes) -> tuple[bytes | JsonValue, Write]:
        """Return a record as JSON or as a document, and the function that encodes another one like it."""

    def encode(self, document: JsonValue) -> bytes:
        """Encode a document."""


class AvroSerde:
    """The serde of an Avro schema, by fastavro's Python code: it heeds the time limit, and does not overflow the stack
    by a record that contains itself."""

    def __init__(self, client: Any, number: int, schema: Any) -> None:
        from fastavro import _read_py, _write_py

        self._number, self._schema = number, _parse_avro(client, schema, {})
        self._read, self._write = _read_py.schemaless_reader, _write_py.schemaless_writer

    def decode(self, value: bytes) -> tuple[JsonValue, Write]:
        with _rejecting(Reason.NOT_IN_FORMAT):
            return self._read(io.BytesIO(value[HEADER_BYTES:]), self._schema), self.encode

    def encode(self, document: JsonValue) -> bytes:
        written = io.BytesIO(_header(self._number))
        written.seek(0, io.SEEK_END)
        with _rejecting(Reason.SCHEMA_MISMATCH):
            self._write(written, self._schema, document)
        return written.getvalue()


def _parse_avro(client: Any, schema: Any, named: dict[str, Any]) -> Any:
    """Parse a schema and those that it refers to; their named types are added to ``named``."""
    from fastavro import parse_schema

    for reference in schema.references or ():
        _parse_avro(client, client.get_version(reference.subject, reference.version, True).schema, named)
    return parse_schema(json.loads(schema.schema_str), named)


class JsonSchemaSerde:
    """The serde of a JSON Schema, by confluent-kafka. What is written is validated; what is read is only parsed."""

    def __init__(self, client: Any, number: int, schema: Any) -> None:
        from confluent_kafka.schema_registry.json_schema import JSONSerializer

        conf = {
            "subject.name.strategy": lambda *_: None,
            "auto.register.schemas": False,
            "schema.id.serializer": lambda payload, *_: _header(number) + payload,
        }
        dumps: Callable[[Any], str] = lambda value: orjson.dumps(value).decode()  # noqa: E731
        self._write = JSONSerializer(schema, client, conf=conf, json_encode=dumps)

    def decode(self, value: bytes) -> tuple[bytes, Write]:
        return value[HEADER_BYTES:], self.encode

    def encode(self, document: JsonValue) -> bytes:
        with _rejecting(Reason.SCHEMA_MISMATCH):
            return bytes(self._write(document))


class ProtobufSerde:
    """The serde of a Protobuf schema, which may have several message types; a record names its own by an index."""

    def __init__(self, client: Any, number: int, schema: Any) -> None:
        from google.protobuf.descriptor_pool import DescriptorPool

        self._number = number
        pool, name = DescriptorPool(), f"schema-{number}.proto"
        _add_file(pool, client, name, client.get_schema(number, None, "serialized"))
        self._file = pool.FindFileByName(name)

    def decode(self, value: bytes) -> tuple[JsonValue, Write]:
        from confluent_kafka.schema_registry.serde import SchemaId
        from google.protobuf.json_format import MessageToDict

        with _rejecting(Reason.NOT_IN_FORMAT):
            header, rest = SchemaId(PROTOBUF), io.BytesIO(value)
            payload = header.from_bytes(rest)
            indexes = tuple(header.message_indexes)
            message = self._type(indexes).FromString(payload.read())
            return MessageToDict(message, preserving_proto_field_name=True), partial(self._encode, indexes)

    def encode(self, document: JsonValue) -> bytes:
        """Encode a message of the schema's first type."""
        return self._encode((0,), document)

    def _encode(self, indexes: tuple[int, ...], document: JsonValue) -> bytes:
        """Encode the canonical JSON of a message. Names that the schema does not have are dropped."""
        from confluent_kafka.schema_registry.serde import SchemaId
        from google.protobuf.json_format import ParseDict

        kind = self._type(indexes)
        with _rejecting(Reason.SCHEMA_MISMATCH):
            _check_shapes(kind.DESCRIPTOR, document)
            message = ParseDict(document, kind(), ignore_unknown_fields=True)
            header = SchemaId(PROTOBUF, self._number, message_indexes=list(indexes)).id_to_bytes()
            return bytes(header + message.SerializeToString())

    def _type(self, indexes: tuple[int, ...]) -> Any:
        """Return the message class at indexes: of a type of the file, then of types nested in it."""
        from google.protobuf.message_factory import GetMessageClass

        types, descriptor = list(self._file.message_types_by_name.values()), None
        for index in indexes:
            descriptor = types[index] if index >= 0 else types[len(types)]
            types = list(descriptor.nested_types)
        return GetMessageClass(descriptor)


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
    """Add a schema's file to a pool, after the files that it imports: from the registry, or those of the library."""
    from google.protobuf import (  # noqa: F401 - their files become known to the default pool
        any_pb2,
        duration_pb2,
        struct_pb2,
        timestamp_pb2,
        wrappers_pb2,
    )
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.descriptor_pool import Default

    file = FileDescriptorProto.FromString(base64.standard_b64decode(schema.schema_str))
    file.name = name
    references = {reference.name: reference for reference in schema.references or ()}
    for imported in file.dependency:
        if imported in references:
            reference = references.pop(imported)
            registered = client.get_version(reference.subject, reference.version, True, "serialized")
            _add_file(pool, client, imported, registered.schema)
        else:
            pool.Add(FileDescriptorProto.FromString(Default().FindFileByName(imported).serialized_pb))
    pool.Add(file)


SERDES: Final[Mapping[str, Callable[[Any, int, Any], Serde]]] = {
    "AVRO": AvroSerde,
    "JSON": JsonSchemaSerde,
    PROTOBUF: ProtobufSerde,
}
"""The serdes by the registry's name of a kind of schema."""
