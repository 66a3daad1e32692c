"""Avro values as JSON, and JSON as Avro values of a schema.

Logical types are readable texts in JSON: dates and times in ISO 8601, decimals and UUIDs as texts. Bytes are texts
whose characters are the bytes (ISO 8859-1), as in Avro's own JSON encoding. A union is the JSON of its branch, without
the branch's name. NaN and infinities become null, because JSON has none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, datetime, time
from decimal import Decimal, InvalidOperation
from typing import Any, Final
from uuid import UUID

import orjson

from stream_masker.pipeline.reasons import Reason, RecordRejectedError


def avro_document(value: Any) -> bytes:
    """Return the JSON of an Avro value that fastavro has read. Raises TypeError for a value that has none."""
    return orjson.dumps(value, default=_text, option=orjson.OPT_PASSTHROUGH_DATETIME)


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, (date, time)):
        return value.isoformat().replace("+00:00", "Z")
    raise TypeError(type(value).__name__)


def avro_value(value: Any, schema: Any, named: Mapping[str, Any], path: str = "") -> Any:
    """Return the Avro value of JSON for a schema.

    schema, named: parsed by ``fastavro.parse_schema``, which writes full names into them; path: of the value, for
    errors. Raises RecordRejectedError, with the field of the schema, for JSON that does not fit.
    """
    if isinstance(schema, list):
        return _of_union(value, schema, named, path)
    schema = _resolved(schema, named)
    kind, logical = schema["type"], schema.get("logicalType")
    if not isinstance(kind, str) or kind in named:
        return avro_value(value, kind, named, path)
    if kind in ("record", "error") and isinstance(value, dict):
        return _of_record(value, schema, named, path)
    if kind == "array" and isinstance(value, list):
        return [avro_value(element, schema["items"], named, f"{path}[*]") for element in value]
    if kind == "map" and isinstance(value, dict):
        below = f"{path}.*" if path else "*"
        return {key: avro_value(member, schema["values"], named, below) for key, member in value.items()}
    try:
        converted = _SCALARS[kind, logical if (kind, logical) in _SCALARS else None](value)
    except (KeyError, ValueError, TypeError, InvalidOperation):
        raise _misfit(path) from None
    fits = {"enum": lambda: converted in schema["symbols"], "fixed": lambda: _fits_fixed(converted, schema)}
    if kind in fits and not fits[kind]():
        raise _misfit(path)
    return converted


def _resolved(schema: Any, named: Mapping[str, Any]) -> Any:
    return named.get(schema, {"type": schema}) if isinstance(schema, str) else schema


def _fits_fixed(value: Any, schema: Any) -> bool:
    return not isinstance(value, bytes) or len(value) == schema["size"]


def _of_record(value: Any, schema: Any, named: Mapping[str, Any], path: str) -> dict[str, Any]:
    converted = {}
    for field in schema["fields"]:
        name, where = field["name"], f"{path}.{field['name']}" if path else field["name"]
        if name in value:
            converted[name] = avro_value(value[name], field["type"], named, where)
        elif "default" not in field and not _is_nullable(field["type"]):
            raise _misfit(where)
    return converted


def _of_union(value: Any, schemas: list[Any], named: Mapping[str, Any], path: str) -> Any:
    """Return the value as that of the branch that takes most of its fields, the first of several."""
    if value is None and _is_nullable(schemas):
        return None
    branches = [branch for branch in schemas if branch != "null"]
    if len(branches) == 1:
        return _named_branch(branches[0], avro_value(value, branches[0], named, path))
    fitting = []
    for branch in sorted(branches, key=lambda branch: branch in ("float", "double")):
        try:
            converted = avro_value(value, branch, named, path)
        except RecordRejectedError:
            continue
        fitting.append((len(converted) if isinstance(converted, dict) else 0, _named_branch(branch, converted)))
    if not fitting:
        raise _misfit(path)
    return max(fitting, key=lambda one: one[0])[1]


def _named_branch(schema: Any, value: Any) -> Any:
    """Return a value with the name of its branch: fastavro would try it, with all values in it, at every level."""
    if isinstance(schema, str):
        return schema, value
    name = schema.get("name", schema["type"] if schema["type"] in ("array", "map") else None)
    return value if name is None else (name, value)


def _is_nullable(schema: Any) -> bool:
    return schema == "null" or (isinstance(schema, list) and "null" in schema)


def _misfit(path: str) -> RecordRejectedError:
    return RecordRejectedError(Reason.SCHEMA_MISMATCH, path or None)


def _exactly(kind: type, value: Any) -> Any:
    if type(value) is not kind:
        raise TypeError
    return value


def _integer(bits: int) -> Callable[[Any], int]:
    def integer(value: Any) -> int:
        if not -(1 << bits) <= _exactly(int, value) < 1 << bits:
            raise ValueError
        return int(value)

    return integer


def _decimal(value: Any) -> Decimal:
    number = Decimal(str(value) if type(value) in (int, float) else _exactly(str, value))
    if not number.is_finite():
        raise ValueError
    return number


def _instant(value: Any, *, local: bool) -> datetime:
    moment = datetime.fromisoformat(_exactly(str, value))
    if (moment.tzinfo is None) is not local:
        raise ValueError
    return moment


_BYTES: Final = lambda value: _exactly(str, value).encode("latin-1")  # noqa: E731
_SCALARS: Final[Mapping[tuple[str, str | None], Callable[[Any], Any]]] = {
    ("null", None): lambda value: _exactly(type(None), value),
    ("boolean", None): lambda value: _exactly(bool, value),
    ("string", None): lambda value: _exactly(str, value),
    ("enum", None): lambda value: _exactly(str, value),
    ("int", None): _integer(31),
    ("long", None): _integer(63),
    **dict.fromkeys(
        (("float", None), ("double", None)),
        lambda value: float(value if type(value) is int else _exactly(float, value)),
    ),
    **dict.fromkeys((("bytes", None), ("fixed", None)), _BYTES),
    ("int", "date"): lambda value: date.fromisoformat(_exactly(str, value)),
    **dict.fromkeys(
        (("int", "time-millis"), ("long", "time-micros")), lambda value: time.fromisoformat(_exactly(str, value))
    ),
    **{("long", f"timestamp-{unit}"): lambda value: _instant(value, local=False) for unit in ("millis", "micros")},
    **{("long", f"local-timestamp-{unit}"): lambda value: _instant(value, local=True) for unit in ("millis", "micros")},
    **dict.fromkeys((("string", "uuid"), ("fixed", "uuid")), lambda value: UUID(_exactly(str, value))),
    **dict.fromkeys((("bytes", "decimal"), ("fixed", "decimal")), _decimal),
}
"""The functions from JSON to values of a type and a logical type. A logical type that is not known is ignored."""
