"""Protobuf messages as their canonical JSON, and descriptor pools. Needs the package protobuf."""

from __future__ import annotations

import re
from typing import Any, Final

import orjson

_UNPARSED: Final = re.compile(r"Failed to parse (\w+) field: ")


def message_document(message: Any) -> bytes:
    """Return the canonical JSON of a message, with the field names of its schema; fields with their default are left
    out."""
    from google.protobuf.json_format import MessageToDict

    return orjson.dumps(MessageToDict(message, preserving_proto_field_name=True))


def document_message(kind: Any, document: bytes) -> Any:
    """Return the message of a JSON document. Names that the schema does not have are dropped.

    Raises TypeError and protobuf's ParseError, which may quote values, if it does not fit the message class ``kind``.
    """
    from google.protobuf.json_format import ParseDict

    fields = orjson.loads(document)
    _check_shapes(kind.DESCRIPTOR, fields)
    return ParseDict(fields, kind(), ignore_unknown_fields=True)


def unparsed_field(message: Any, error: Exception) -> str | None:
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


def add_known_file(pool: Any, name: str) -> None:
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

    file = FileDescriptorProto.FromString(Default().FindFileByName(name).serialized_pb)
    for imported in file.dependency:
        if not is_in(pool, imported):
            add_known_file(pool, imported)
    pool.Add(file)


def is_in(pool: Any, name: str) -> bool:
    """Return whether a pool has a file of this name."""
    try:
        pool.FindFileByName(name)
    except KeyError:
        return False
    return True


def described_messages(descriptor_set: bytes) -> dict[str, Any]:
    """Return the message types of a serialized FileDescriptorSet, by full name, as descriptors.

    Well-known files may be missing. Raises KeyError, with the name, for another file that is imported but missing;
    protobuf's DecodeError and TypeError for bytes that are not a descriptor set.
    """
    from google.protobuf.descriptor_pb2 import FileDescriptorSet
    from google.protobuf.descriptor_pool import DescriptorPool

    pool = DescriptorPool()
    files = {file.name: file for file in FileDescriptorSet.FromString(descriptor_set).file}

    def add(name: str) -> None:
        if is_in(pool, name):
            return
        if name not in files:
            add_known_file(pool, name)
            return
        for imported in files[name].dependency:
            add(imported)
        pool.Add(files[name])

    for name in files:
        add(name)
    kinds = [kind for name in files for kind in pool.FindFileByName(name).message_types_by_name.values()]
    return {kind.full_name: kind for kind in _with_nested(kinds)}


def _with_nested(kinds: list[Any]) -> list[Any]:
    return [message_type for kind in kinds for message_type in (kind, *_with_nested(list(kind.nested_types)))]
