"""The formats of records on topics and in files as configured: JSON, HL7 v2, and the Confluent wire format.

In the wire format a value is the id of a schema and a record in Avro, Protobuf or JSON. The serde of a schema reads
records as documents and writes documents as records. Values keep the types that the libraries give them: an instant of
Avro is a ``datetime`` in the document, and is written back as it came.

Only the registry's own code for an unknown id (40403), or a schema that cannot be used, rejects a record. Every other
answer makes masking wait (FormatUnavailableError), because it may come from a proxy in front of the registry. What a
hostile schema or record can do is bounded by the size of the record before it is decoded, by the depth of the document,
and by one time limit. No message contains a value: all serdes raise RecordRejectedError, which quotes none, unlike the
libraries, and the client's requests have only ids and subjects.
"""

from __future__ import annotations

import base64
import io
import json
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Final, TypeAlias

import orjson

from stream_masker.errors import ConfigurationError, installation_of
from stream_masker.pipeline.formats import FormatUnavailableError, RecordFormat, Write
from stream_masker.pipeline.hl7v2 import Hl7Format
from stream_masker.pipeline.records import Reason, RecordRejectedError
from stream_masker.service.configuration.model import Configuration

REGISTRY_TIMEOUT_SECONDS: Final = 5.0
"""The timeout of a request; a failed one is repeated by the process, not by the client, so that it can stop."""

CACHED_SCHEMAS: Final = 10_000
"""The number of schemas, and of ids that the registry does not know, that are remembered."""

UNKNOWN_ID: Final = 40403
"""The registry's error code for an id that it does not have."""

CONFIRM_SECONDS: Final = 1.0
"""Seconds between the registry's first answer that it does not know an id, and the second question."""

UNKNOWN_SECONDS: Final = 60.0
"""Seconds after which an id that the registry did not know is looked up again."""

HEADER_BYTES: Final = 5
"""The bytes before a value: a zero, and the schema id as a big-endian 32-bit integer."""

LARGEST_ID: Final = 2**31 - 1
PROTOBUF: Final = "PROTOBUF"

RECORD_SECONDS: Final = 2.0
"""The processor time of the process in which a record must be decoded, or validated and encoded."""


@contextmanager
def time_limit() -> Iterator[None]:
    """Raise TimeoutError in the block once it takes ``RECORD_SECONDS`` of processor time.

    A few bytes may claim any number of items that take no bytes, a schema may validate a record in a time that grows
    exponentially with its depth, and a pattern may backtrack for hours; all of them heed signals. Only the main thread,
    which masks, has a limit.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, RECORD_SECONDS, RECORD_SECONDS / 10)
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


Serde: TypeAlias = Callable[[bytes], tuple[Any, Write]]
"""Decodes a record of one schema: returns it as JSON or as a document, and what encodes another one like it. Both raise
RecordRejectedError."""


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

    return decode


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

    return lambda value: (value[HEADER_BYTES:], encode)


def protobuf_serde(client: Any, number: int, schema: Any) -> Serde:
    """Return the serde of a Protobuf schema, which may have several message types.

    A record names its own type by indexes. Documents are the canonical JSON of messages. Names that the schema does not
    have are not written.
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

    return decode


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


class ConfluentFormat(RecordFormat):
    """Values in the Confluent wire format.

    client: of the registry at ``url``. Masked records are written with the schemas that they came with. Each schema is
    looked up once.
    """

    def __init__(self, client: Any, url: str) -> None:
        from cachetools import TTLCache

        self._client, self._url = client, url
        self._serdes: dict[int, Serde | None] = {}
        self._unknown: Any = TTLCache(CACHED_SCHEMAS, UNKNOWN_SECONDS)

    def prepare(self, values: Iterable[bytes]) -> None:
        """Look up the schemas of values together. Raises FormatUnavailableError.

        A schema is unknown if the registry says so twice, ``CONFIRM_SECONDS`` apart: one of several registries may not
        have read a new schema yet. All schemas share one pause.
        """
        numbers = {number for value in values if (number := schema_id(value)) is not None}
        new = [number for number in numbers if number not in self._serdes and number not in self._unknown]
        if missing := [number for number in new if not self._has(number)]:
            time.sleep(CONFIRM_SECONDS)
            self._unknown.update({number: None for number in missing if not self._has(number)})

    def decode(self, value: bytes) -> tuple[Any, Write]:
        """Return a record, and what encodes it once it is masked, by the schema that it begins with."""
        if (number := schema_id(value)) is None:
            raise RecordRejectedError(Reason.NOT_IN_FORMAT)
        if number not in self._serdes:
            self.prepare([value])
        if (serde := self._serdes.get(number)) is None:
            raise RecordRejectedError(Reason.UNKNOWN_SCHEMA)
        return serde(value)

    def _has(self, number: int) -> bool:
        """Look up a schema and build its serde. Return False if the registry says that it does not have it."""
        schema = self._ask(self._client.get_schema, number)
        if schema is None:
            return False
        kind, rules, serde = SERDES.get(schema.schema_type), schema.rule_set, None
        if kind is not None and not (rules and (rules.domain_rules or getattr(rules, "encoding_rules", None))):
            form = "serialized" if schema.schema_type == PROTOBUF else None
            schema = self._ask(self._client.get_schema, number, None, form)
            if schema is None:
                return False
            self._ask_for_references(schema, form)
            with suppress(Exception):
                serde = kind(self._client, number, schema)
        self._serdes[number] = serde
        return True

    def _ask_for_references(self, schema: Any, form: str | None) -> None:
        """Look up what a schema's serde needs, so that it sends no requests: the client keeps it."""
        for reference in schema.references or ():
            registered = self._ask(self._client.get_version, reference.subject, reference.version, True, form)
            if registered is not None:
                self._ask_for_references(registered.schema, form)

    def _ask(self, request: Callable[..., Any], *arguments: Any) -> Any:
        """Return the registry's answer; None for an id that it does not have. Raises FormatUnavailableError."""
        from confluent_kafka.schema_registry import SchemaRegistryError

        try:
            return request(*arguments)
        except SchemaRegistryError as error:
            if error.http_status_code == 404 and error.error_code == UNKNOWN_ID:
                return None
            problem = f"fails ({error.http_status_code}): check format.registry, and the proxies before it"
        except Exception as error:  # noqa: BLE001
            problem = f"cannot be reached ({type(error).__name__})"
        raise FormatUnavailableError(f"the schema registry at {self._url} {problem}")


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
        **section.properties,
    }
    try:
        return SchemaRegistryClient.new_client(properties)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a usable value"
        raise ConfigurationError(f"format.registry: the client cannot be built: {reason or error}") from None


def wire_format(configuration: Configuration) -> RecordFormat | None:
    """Return the format of the records on the topics; None for JSON. Sends nothing.

    Raises ConfigurationError if the registry's settings cannot be used.
    """
    section = configuration.format
    if section.value == "json":
        return file_format(configuration)
    return ConfluentFormat(connect_registry(configuration), section.registry.url)


def file_format(configuration: Configuration) -> RecordFormat | None:
    """Return the format of the records in files; None for JSON, also that of the rows of tables."""
    return Hl7Format() if configuration.records == "hl7v2" else None
