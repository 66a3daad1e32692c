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
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, NamedTuple

import orjson

from stream_masker.errors import StreamMaskerError
from stream_masker.pipeline.formats import Write
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


def schema_id(value: bytes) -> int | None:
    """Return the schema id of a record; None if it has none."""
    number = int.from_bytes(value[1:HEADER_BYTES], "big")
    return None if len(value) <= HEADER_BYTES or value[0] or number > LARGEST_ID else number


def _header(number: int) -> bytes:
    return b"\x00" + number.to_bytes(4, "big")


class Serde(NamedTuple):
    """The serde of one schema. Its functions raise RecordRejectedError.

    decode: returns a record as JSON or as a document, and what encodes another one like it; encode: encodes a document.
    """

    decode: Callable[[bytes], tuple[Any, Write]]
    encode: Write


def avro_serde(client: Any, number: int, schema: Any) -> Serde:
    """Return the serde of an Avro schema, by fastavro's Python code: it heeds the time limit, and does not overflow the
    stack by a record that contains itself."""
    from fastavro import _read_py, _write_py

    parsed = _parse_avro(client, schema, {})

    def encode(document: Any) -> bytes:
        written = io.BytesIO()
        with _rejecting(Reason.SCHEMA_MISMATCH):
            _write_py.schemaless_writer(written, parsed, document)
        return _header(number) + written.getvalue()

    def decode(value: bytes) -> tuple[Any, Write]:
        with _rejecting(Reason.NOT_IN_FORMAT):
            return _read_py.schemaless_reader(io.BytesIO(value[HEADER_BYTES:]), parsed), encode

    return Serde(decode, encode)


def _parse_avro(client: Any, schema: Any, named: dict[str, Any]) -> Any:
    """Parse a schema and those that it refers to; their named types are added to ``named``."""
    from fastavro import parse_schema

    for reference in schema.references or ():
        _parse_avro(client, client.get_version(reference.subject, reference.version, True).schema, named)
    return parse_schema(json.loads(schema.schema_str), named)


def json_serde(client: Any, number: int, schema: Any) -> Serde:
    """Return the serde of a JSON Schema, by confluent-kafka. It validates what it writes, and parses what it reads."""
    from confluent_kafka.schema_registry.json_schema import JSONSerializer

    conf = {
        "subject.name.strategy": lambda *_: None,
        "auto.register.schemas": False,
        "schema.id.serializer": lambda payload, *_: _header(number) + payload,
    }
    write = JSONSerializer(schema, client, conf=conf, json_encode=lambda value: orjson.dumps(value).decode())

    def encode(document: Any) -> bytes:
        with _rejecting(Reason.SCHEMA_MISMATCH):
            return bytes(write(document))

    return Serde(lambda value: (value[HEADER_BYTES:], encode), encode)


def protobuf_serde(client: Any, number: int, schema: Any) -> Serde:
    """Return the serde of a Protobuf schema, which may have several message types.

    A record names its own type by indexes; ``Serde.encode`` writes the first one. Documents are the canonical JSON of
    messages. Names that the schema does not have are not written.
    """
    from confluent_kafka.schema_registry.serde import SchemaId
    from google.protobuf.descriptor_pool import DescriptorPool
    from google.protobuf.json_format import MessageToDict, ParseDict

    pool, name = DescriptorPool(), f"schema-{number}.proto"
    _add_file(pool, client, name, schema)
    file = pool.FindFileByName(name)

    def encode(indexes: list[int], document: Any) -> bytes:
        with _rejecting(Reason.SCHEMA_MISMATCH):
            message = ParseDict(document, _message_type(file, indexes)(), ignore_unknown_fields=True)
            header = SchemaId(PROTOBUF, number, message_indexes=indexes).id_to_bytes()
            return bytes(header + message.SerializeToString())

    def decode(value: bytes) -> tuple[Any, Write]:
        with _rejecting(Reason.NOT_IN_FORMAT):
            header = SchemaId(PROTOBUF)
            payload = header.from_bytes(io.BytesIO(value))
            message = _message_type(file, header.message_indexes).FromString(payload.read())
            return MessageToDict(message, preserving_proto_field_name=True), partial(encode, header.message_indexes)

    return Serde(decode, partial(encode, [0]))


def _message_type(file: Any, indexes: Iterable[int]) -> Any:
    """Return the message class at indexes: of a type of the file, then of types nested in it."""
    from google.protobuf.message_factory import GetMessageClass

    types, descriptor = list(file.message_types_by_name.values()), None
    for index in indexes:
        descriptor = types[index]
        types = list(descriptor.nested_types)
    return GetMessageClass(descriptor)


def _add_file(pool: Any, client: Any, name: str, schema: Any) -> None:
    """Add a schema's file to a pool, after the files that it imports: from the registry, or those of the library."""
    import confluent_kafka.schema_registry.protobuf  # noqa: F401 - its imports fill the default pool
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
    "AVRO": avro_serde,
    "JSON": json_serde,
    PROTOBUF: protobuf_serde,
}
"""The serdes by the registry's name of a kind of schema."""
