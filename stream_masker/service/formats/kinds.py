"""The serde of a schema, by its kind: Avro, JSON Schema or Protobuf."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from stream_masker.pipeline.reasons import Reason, RecordRejectedError
from stream_masker.service.formats.protobuf_serde import PROTOBUF, ProtobufSerde
from stream_masker.service.formats.registry import registry_answer
from stream_masker.service.formats.serdes import AvroSerde, JsonSchemaSerde, Serde

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
