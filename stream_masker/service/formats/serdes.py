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

from stream_masker.pipeline.codec.formatted import EncodeRecord
from stream_masker.pipeline.reasons import Reason, RecordRejectedError
from stream_masker.service.formats.avro_values import avro_converter, avro_document
from stream_masker.service.formats.json_schema import StepBudget, bounded_validator


def contains_itself(schema: Any, named: Mapping[str, Any]) -> bool:
    """Return whether a record of a schema contains itself, directly or in another type.

    schema, named: parsed by ``fastavro.parse_schema``. Each record is visited once.
    """
    return _contains_itself(schema, named, frozenset(), set())


def _contains_itself(schema: Any, named: Mapping[str, Any], above: frozenset[str], visited: set[str]) -> bool:
    """above: the names of the records that contain this type."""
    found = named.get(schema, schema) if isinstance(schema, str) else schema
    if isinstance(found, dict) and found["type"] in ("record", "error"):
        name = found["name"]
        if name in above or name in visited:
            return name in above
        visited.add(name)
        above |= {name}
    return any(_contains_itself(one, named, above, visited) for one in contained_types(found))


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


FREE_ITEMS = 10_000


def has_items_without_bytes(schema: Any, named: Mapping[str, Any]) -> bool:
    """Return whether an array at any depth of a schema has items of no bytes, or a record of no bytes contains itself.

    schema, named: parsed by ``fastavro.parse_schema``. Each record is visited once.
    """
    return _visit(schema, named, set())


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


def _visit(schema: Any, named: Mapping[str, Any], visited: set[str]) -> bool:
    found = _resolved(schema, named)
    kind = found["type"] if isinstance(found, dict) else None
    if kind in ("record", "error"):
        if found["name"] in visited:
            return False
        visited.add(found["name"])
    if kind == "array" and _is_empty(found["items"], named, frozenset()):
        return True
    if kind in ("record", "error") and _repeats_itself(found, named, frozenset()):
        return True
    return any(_visit(one, named, visited) for one in contained_types(found))


def _is_empty(schema: Any, named: Mapping[str, Any], above: frozenset[str]) -> bool:
    """Return whether a value of a type takes no bytes; above: the names of the records that contain it."""
    found = _resolved(schema, named)
    kind = found["type"] if isinstance(found, dict) else found
    if kind in ("record", "error"):
        inner = above | {found["name"]}
        return found["name"] in above or all(_is_empty(f["type"], named, inner) for f in found["fields"])
    return kind == "null" or (kind == "fixed" and int(found["size"]) == 0)


def _repeats_itself(schema: Any, named: Mapping[str, Any], above: frozenset[str]) -> bool:
    """Return whether a record contains itself in a field that every value has, so that no value ever ends."""
    found = _resolved(schema, named)
    if not isinstance(found, dict) or found["type"] not in ("record", "error"):
        return False
    if found["name"] in above:
        return True
    return any(_repeats_itself(f["type"], named, above | {found["name"]}) for f in found["fields"])


def _resolved(schema: Any, named: Mapping[str, Any]) -> Any:
    return named.get(schema, schema) if isinstance(schema, str) else schema


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
    found = int.from_bytes(value[1:HEADER_BYTES], "big")
    if len(value) <= HEADER_BYTES or value[0] or found > LARGEST_ID:
        raise RecordRejectedError(Reason.NOT_IN_FORMAT)
    return found


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
