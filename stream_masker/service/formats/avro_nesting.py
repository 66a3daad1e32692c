"""Avro schemas whose values can be nested without a limit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def contains_itself(schema: Any, named: Mapping[str, Any]) -> bool:
    """Return whether a record of a schema contains itself, directly or in another type.

    schema, named: parsed by ``fastavro.parse_schema``. Each record is visited once.
    """
    return _visit(schema, named, frozenset(), set())


def _visit(schema: Any, named: Mapping[str, Any], above: frozenset[str], visited: set[str]) -> bool:
    """above: the names of the records that contain this type."""
    found = named.get(schema, schema) if isinstance(schema, str) else schema
    if isinstance(found, dict) and found["type"] in ("record", "error"):
        name = found["name"]
        if name in above or name in visited:
            return name in above
        visited.add(name)
        above |= {name}
    return any(_visit(one, named, above, visited) for one in contained_types(found))


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
