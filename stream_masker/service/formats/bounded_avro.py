"""Avro values that take no bytes: the schemas that allow any number of them, and a reader that bounds their number.

An array of nulls, or of records of nulls, may claim any number of items in a few bytes. The reader allows as many items
as the record has bytes, and ``FREE_ITEMS`` more.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from typing import Any

from stream_masker.pipeline.reasons import Reason, RecordRejectedError
from stream_masker.service.formats.avro_nesting import contained_types

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
