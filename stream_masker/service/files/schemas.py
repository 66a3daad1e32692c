"""Schemas, and values without their schema, which are given instead of events: what they are, and what to give."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

_AVRO, _PROTOBUF, _DESCRIPTORS = (".avsc", ".avdl", ".avpr"), (".proto",), (".desc", ".protoset", ".fds")
_MESSAGE = re.compile(r"^message\s+(\w+)", re.MULTILINE)
_PACKAGE = re.compile(r"^package\s+([\w.]+)\s*;", re.MULTILINE)
_WIRE_BYTES = 5
_GREATEST_ID = 10_000_000
"""The greatest id of a schema that is taken for one: registries count from 1."""

OF_TOPIC = "config init --topic TOPIC --registry URL proposes one from the topic"


def schema_kind(name: str, head: bytes) -> str | None:
    """Return what a schema, or records in the wire format of a schema registry, are, with what to do; otherwise None.

    name: of the file; schemas beside it are named. head: its first bytes without compression.
    """
    suffix = Path(name).suffix.lower()
    if suffix in _AVRO:
        return "an Avro schema and no events: give an Avro file whose records have it, or their topic"
    if suffix in _PROTOBUF:
        return f"a Protobuf schema{_messages(head)} and no events: {_compiled(name)}"
    if suffix in _DESCRIPTORS:
        return f"a descriptor set of Protobuf and no events: give the file of messages, with --descriptors {name}"
    if _is_json_schema(suffix, head):
        return "a JSON Schema and no events: give events that it describes"
    if len(head) > _WIRE_BYTES and head[0] == 0 and 0 < (number := int.from_bytes(head[1:_WIRE_BYTES])) < _GREATEST_ID:
        return (
            f"a record in the wire format of a schema registry, of schema {number}{_beside(name)}: such records are "
            "masked on their topic, with format: {value: confluent, registry: {url: URL}}; " + OF_TOPIC
        )
    return None


def _is_json_schema(suffix: str, head: bytes) -> bool:
    return suffix in {".json", ".jsonschema"} and re.match(rb'\s*\{[^{]{0,200}"\$schema"', head) is not None


def _messages(head: bytes) -> str:
    """Return the names of the messages of a Protobuf schema that are not within others."""
    text = head.decode(errors="replace")
    package = _PACKAGE.search(text)
    names = [f"{package[1]}.{name}" if package else name for name in _MESSAGE.findall(text)]
    return f" of {', '.join(names)}" if names else ""


def _compiled(schema: str) -> str:
    compiled = Path(schema).with_suffix(".desc").name
    return (
        f"compile it with `protoc --include_imports --descriptor_set_out={compiled} {Path(schema).name}`, and give the "
        f"file of messages, with --descriptors {compiled} and --message"
    )


def _beside(name: str) -> str:
    """Return the schemas that stand beside a file and have its name."""
    schema = _schema_beside(name, (*_AVRO, *_PROTOBUF, *_DESCRIPTORS))
    return f", with {schema.name} beside it" if schema is not None else ""


def beside_messages(name: str) -> str:
    """Return how to use the schema beside a file of Protobuf messages; empty if there is none."""
    if (descriptors := _schema_beside(name, _DESCRIPTORS)) is not None:
        return f"; {descriptors.name} beside it is probably the descriptor set"
    if (schema := _schema_beside(name, _PROTOBUF)) is None:
        return ""
    return f"; {schema.name} beside it is a schema{_messages(schema.read_bytes())}: {_compiled(schema.name)}"


def _schema_beside(name: str, suffixes: Iterable[str]) -> Path | None:
    """Return the file of the same name with one of the suffixes."""
    return next(filter(Path.is_file, map(Path(name).with_suffix, suffixes)), None)
