"""The serdes of one schema: records of the Confluent wire format as JSON, and JSON as records.

Framing, decoding, validation and encoding are those of confluent-kafka's serdes. A subject name is not needed: the
schema id of a record, or the one to write with, is known.

An array of nulls in Avro, or of records of nulls, may claim any number of items in a few bytes. The reader allows as
many items as the record has bytes, and ``FREE_ITEMS`` more.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Protocol

import orjson

from stream_masker.pipeline.formats import EncodeRecord
from stream_masker.pipeline.reasons import Reason, RecordRejectedError
from stream_masker.service.formats.avro_values import avro_converter, avro_document
from stream_masker.service.formats.json_schema import StepBudget, bounded_validator


def contains_itself(schema: Any, named: Mapping[str, Any]) -> bool:
    """Return whether a record of a schema contains itself, directly or in another type.

    schema, named: parsed by ``fastavro.parse_schema``.
    """
    return any(_is_inside_itself(part, above) for part, above in _parts(schema, named))


def has_items_without_bytes(schema: Any, named: Mapping[str, Any]) -> bool:
    """Return whether an array at any depth of a schema has items of no bytes, or a record of no bytes contains itself.

    schema, named: parsed by ``fastavro.parse_schema``.
    """
    return any(
        _is_empty(part["items"] if part["type"] == "array" else part, named, frozenset())
        for part, above in _parts(schema, named)
        if isinstance(part, dict) and (part["type"] == "array" or _is_inside_itself(part, above))
    )


def _parts(
    schema: Any, named: Mapping[str, Any], above: frozenset[str] = frozenset(), visited: set[str] | None = None
) -> Iterator[tuple[Any, frozenset[str]]]:
    """Yield the types that a schema consists of, with the names of the records around each.

    The fields of each record are visited once.
    """
    visited = set() if visited is None else visited
    part = _resolved(schema, named)
    yield part, above
    if _is_record(part):
        if part["name"] in visited:
            return
        visited.add(part["name"])
        above |= {part["name"]}
    for inner in contained_types(part):
        yield from _parts(inner, named, above, visited)


def _is_record(part: Any) -> bool:
    return isinstance(part, dict) and part["type"] in ("record", "error")


def _is_inside_itself(part: Any, above: frozenset[str]) -> bool:
    return _is_record(part) and part["name"] in above


def contained_types(schema: Any) -> Sequence[Any]:
    """Return the types that a type consists of."""
    if isinstance(schema, (str, list)):
        return schema if isinstance(schema, list) else ()
    match schema["type"]:
        case "record" | "error":
            return [field["type"] for field in schema["fields"]]
        case "array":
            return [schema["items"]]
        case "map":
            return [schema["values"]]
    return [schema["type"]]


def _is_empty(schema: Any, named: Mapping[str, Any], above: frozenset[str]) -> bool:
    """Return whether a value of a type takes no bytes; above: the names of the records that contain it."""
    part = _resolved(schema, named)
    if _is_record(part):
        inner = above | {part["name"]}
        return part["name"] in above or all(_is_empty(field["type"], named, inner) for field in part["fields"])
    kind = part["type"] if isinstance(part, dict) else part
    return kind == "null" or (kind == "fixed" and int(part["size"]) == 0)


def _resolved(schema: Any, named: Mapping[str, Any]) -> Any:
    return named.get(schema, schema) if isinstance(schema, str) else schema


FREE_ITEMS = 10_000


def bounded_datum(data: bytes, schema: Any, named: Mapping[str, Any]) -> Any:
    """Read an Avro value. Raises RecordRejectedError for one with too many items, and RecursionError."""
    from fastavro._read_py import read_data
    from fastavro.io.binary_decoder import BinaryDecoder

    class BoundedDecoder(BinaryDecoder):  # type: ignore[misc]
        """A decoder that counts the items of all arrays and maps."""

        left = FREE_ITEMS + len(data)

        def iter_array(self) -> Iterator[None]:
            for _ in self._iter_array_or_map():
                self.left -= 1
                if self.left < 0:
                    raise RecordRejectedError(Reason.TOO_LARGE)
                yield

        iter_map = iter_array

    return read_data(BoundedDecoder(io.BytesIO(data)), schema, {"writer": named, "reader": {}}, None, {})


HEADER_BYTES = 5
"""The bytes before a value: a zero, and the schema id as a big-endian 32-bit integer."""

LARGEST_ID = 2**31 - 1

SHALLOW_BYTES = 2_000
"""The size to which fastavro's compiled reader may read a record of a type that contains itself.

Each level takes at least a byte, and the reader overflows the stack of the process at some thousand levels.
"""


class Serde(Protocol):
    """The serde of one schema."""

    @property
    def record_name(self) -> str | None:
        """The full name of the schema's record, which subject name strategies use; None if it has none."""

    def decode(self, value: bytes) -> tuple[bytes, EncodeRecord]:
        """Return the JSON of a record, and the function that encodes another one like it. Raises
        RecordRejectedError."""

    def encode(self, document: bytes) -> bytes:
        """Encode the JSON of a record. Raises RecordRejectedError if it does not fit the schema."""


def schema_id(value: bytes) -> int:
    """Return the schema id of a record. Raises RecordRejectedError if it has none."""
    number = int.from_bytes(value[1:HEADER_BYTES], "big")
    if len(value) <= HEADER_BYTES or value[0] or number > LARGEST_ID:
        raise RecordRejectedError(Reason.NOT_IN_FORMAT)
    return number


def no_subject(*_: Any) -> None:
    """Return no subject: the strategy of serdes that need no subject."""


def framed(kind: str, number: int, indexes: list[int] | None = None) -> Callable[[bytes, Any, Any], bytes]:
    """Return the function that puts a schema id before an encoded value. indexes: of a Protobuf message's type."""
    from confluent_kafka.schema_registry.serde import SchemaId

    header = SchemaId(kind, number, message_indexes=indexes).id_to_bytes()
    return lambda payload, context, unused: header + payload


class AvroSerde:
    """The serde of an Avro schema."""

    def __init__(self, client: Any, number: int, schema: Any) -> None:
        from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer

        named: dict[str, Any] = {}
        parsed = _parse_avro(client, schema, named)
        self.record_name = parsed.get("name") if isinstance(parsed, dict) else None
        self._parsed = parsed
        self._named = named
        self._claims_items = has_items_without_bytes(parsed, named)
        self._may_be_deep = contains_itself(parsed, named)
        self._to_avro = avro_converter(parsed, named)
        self._read = AvroDeserializer(client, conf={"subject.name.strategy": no_subject})
        self._write = AvroSerializer(
            client,
            _as_object(schema),
            conf={
                "auto.register.schemas": False,
                "subject.name.strategy": no_subject,
                "schema.id.serializer": framed("AVRO", number),
            },
        )

    def decode(self, value: bytes) -> tuple[bytes, EncodeRecord]:
        try:
            return avro_document(self._datum(value)), self.encode
        except RecordRejectedError:
            raise
        except RecursionError:
            raise RecordRejectedError(Reason.TOO_DEEP) from None
        except Exception:  # noqa: BLE001
            raise RecordRejectedError(Reason.NOT_IN_FORMAT) from None

    def _datum(self, value: bytes) -> Any:
        """Return the Avro value of a record.

        Raises RecursionError for one that is nested too deep, and RecordRejectedError for one with too many items.
        """
        if self._claims_items or (self._may_be_deep and len(value) > SHALLOW_BYTES):
            return bounded_datum(value[HEADER_BYTES:], self._parsed, self._named)
        return self._read(value)

    def encode(self, document: bytes) -> bytes:
        try:
            return bytes(self._write(self._to_avro(orjson.loads(document))))
        except RecordRejectedError:
            raise
        except RecursionError:
            raise RecordRejectedError(Reason.TOO_DEEP) from None
        except Exception:  # noqa: BLE001
            raise RecordRejectedError(Reason.SCHEMA_MISMATCH) from None


def _as_object(schema: Any) -> Any:
    """Return the schema of a primitive type as an object: the serializer takes no name of a type alone."""
    from confluent_kafka.schema_registry import Schema

    definition = json.loads(schema.schema_str)
    return Schema(json.dumps({"type": definition}), "AVRO") if isinstance(definition, str) else schema


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
        from jsonschema.validators import validator_for

        class BoundedSerializer(JSONSerializer):  # type: ignore[misc]
            """A serializer whose validators spend steps of ``budget``."""

            def _get_validator(self, schema: Any, parsed_schema: Any, registry: Any) -> Any:
                kind = validator_for(parsed_schema)
                kind.check_schema(parsed_schema)
                return bounded_validator(kind, budget)(parsed_schema, registry=registry)

        self._budget = budget = StepBudget()
        definition = json.loads(schema.schema_str)
        self.record_name = definition.get("title") if isinstance(definition, dict) else None
        conf = {"subject.name.strategy": no_subject}
        self._read = JSONDeserializer(
            None, schema_registry_client=client, conf={**conf, "validate": False}, json_decode=bytes
        )
        self._write = BoundedSerializer(
            schema,
            client,
            conf={**conf, "auto.register.schemas": False, "schema.id.serializer": framed("JSON", number)},
            json_encode=lambda value: orjson.dumps(value).decode(),
        )

    def decode(self, value: bytes) -> tuple[bytes, EncodeRecord]:
        try:
            return bytes(self._read(value)), self.encode
        except Exception:  # noqa: BLE001
            raise RecordRejectedError(Reason.NOT_IN_FORMAT) from None

    def encode(self, document: bytes) -> bytes:
        try:
            self._budget.renew(len(document))
            return bytes(self._write(orjson.loads(document)))
        except Exception as error:  # noqa: BLE001
            raise RecordRejectedError(Reason.SCHEMA_MISMATCH, _invalid_field(error.__context__)) from None


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
