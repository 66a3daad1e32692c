"""Avro values as JSON, and JSON as Avro values of a schema.

Logical types are readable texts in JSON: dates and times in ISO 8601, decimals and UUIDs as texts. Bytes are texts
whose characters are the bytes (ISO 8859-1), as in Avro's own JSON encoding. A union is the JSON of its branch, without
the branch's name. NaN and infinities become null, because JSON has none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal, InvalidOperation
from typing import Any, TypeAlias
from uuid import UUID

import orjson

from stream_masker.pipeline.reasons import Reason, RecordRejectedError

ToAvro: TypeAlias = Callable[[Any], Any]
"""Converts JSON to an Avro value. Raises RecordRejectedError, with the field of the schema, if it does not fit."""

_Attempts: TypeAlias = dict[tuple[str, int], dict[str, Any] | RecordRejectedError]
"""What converting the objects of one document as records has given, by the record's name and the object's identity.

A union tries all branches, and each branch tries those of the unions in it. Without this, the work for a schema that
contains itself would double with each level.
"""

_Convert: TypeAlias = Callable[[Any, _Attempts], Any]

INT_BITS = {"int": 31, "long": 63}


def avro_document(value: Any) -> bytes:
    """Return the JSON of an Avro value that fastavro has read. Raises TypeError for a value that has none.

    Dates and times are not left to orjson, which writes 89 ms of a time of day as ``.89000``.
    """
    return orjson.dumps(value, default=_text, option=orjson.OPT_PASSTHROUGH_DATETIME)


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, (date, time)):
        return value.isoformat().replace("+00:00", "Z")
    raise TypeError(type(value).__name__)


def avro_converter(schema: Any, named: Mapping[str, Any]) -> ToAvro:
    """Return the function that converts JSON to values of a schema.

    schema, named: parsed by ``fastavro.parse_schema``, which writes full names into them. Raises KeyError or TypeError
    for a schema that it does not know.
    """
    convert = _Compiler(named).convert(schema, "")
    return lambda value: convert(value, {})


class _Compiler:
    """Compiles schemas to functions. Named types are compiled once, so that they may contain themselves."""

    def __init__(self, named: Mapping[str, Any]) -> None:
        self._named = named
        self._compiled: dict[str, _Convert] = {}

    def convert(self, schema: Any, path: str) -> _Convert:
        """path: of the value in the record, for messages."""
        if isinstance(schema, list):
            return self._union(schema, path)
        if isinstance(schema, str):
            return self._by_name(schema, path) if schema not in _PRIMITIVES else _checked(_PRIMITIVES[schema], path)
        if isinstance(schema["type"], str) and (schema["type"], schema.get("logicalType")) in _LOGICAL:
            return _checked(_LOGICAL[schema["type"], schema["logicalType"]], path)
        return self._of_type(schema, path)

    def _of_type(self, schema: Any, path: str) -> _Convert:
        """Return the function of a schema that is an object, by its type; a logical type that is not known is
        ignored."""
        match schema["type"]:
            case "record" | "error" | "enum" | "fixed":
                return self._by_name(schema["name"], path, schema)
            case "array":
                return self._array(self.convert(schema["items"], f"{path}[*]"), path)
            case "map":
                return self._map(self.convert(schema["values"], f"{path}.*" if path else "*"), path)
        return self.convert(schema["type"], path)

    def _by_name(self, name: str, path: str, schema: Any = None) -> _Convert:
        """Return the function of a named type, which is looked up when it is called: the type may contain itself."""
        if name not in self._compiled:
            self._compiled[name] = _checked(_null, path)
            self._compiled[name] = self._definition(self._named[name] if schema is None else schema, path)

        def named(value: Any, attempts: _Attempts) -> Any:
            return self._compiled[name](value, attempts)

        return named

    def _definition(self, schema: Any, path: str) -> _Convert:
        if schema["type"] == "enum":
            return _checked(_one_of(frozenset(schema["symbols"])), path)
        if schema["type"] == "fixed":
            logical = _LOGICAL.get(("fixed", schema.get("logicalType")))
            return _checked(logical or _bytes_of(schema["size"]), path)
        return self._record(schema, path)

    def _record(self, schema: Any, path: str) -> _Convert:
        fields = [
            (field["name"], self.convert(field["type"], where), "default" in field or _nullable(field["type"]), where)
            for field in schema["fields"]
            for where in [f"{path}.{field['name']}" if path else field["name"]]
        ]

        def record(value: Any, attempts: _Attempts) -> Any:
            if not isinstance(value, dict):
                raise _misfit(path)
            converted = {}
            for name, convert, optional, where in fields:
                if name in value:
                    converted[name] = convert(value[name], attempts)
                elif not optional:
                    raise _misfit(where)
            return converted

        return _once(record, schema["name"])

    def _array(self, item: _Convert, path: str) -> _Convert:
        def array(value: Any, attempts: _Attempts) -> Any:
            if not isinstance(value, list):
                raise _misfit(path)
            return [item(element, attempts) for element in value]

        return array

    def _map(self, item: _Convert, path: str) -> _Convert:
        def mapping(value: Any, attempts: _Attempts) -> Any:
            if not isinstance(value, dict):
                raise _misfit(path)
            return {key: item(member, attempts) for key, member in value.items()}

        return mapping

    def _union(self, schemas: Sequence[Any], path: str) -> _Convert:
        branches = [(branch, self.convert(branch, path)) for branch in schemas if _kind(branch) != "null"]
        branches.sort(key=lambda branch: _kind(branch[0]) in ("float", "double"))
        nullable = len(branches) < len(schemas)
        if len(branches) == 1:
            name, only = _branch_name(branches[0][0]), branches[0][1]
            return lambda value, attempts: (
                None if value is None and nullable else _named_branch(name, only(value, attempts))
            )

        def union(value: Any, attempts: _Attempts) -> Any:
            if value is None and nullable:
                return None
            tried = (_attempt(value, *branch, attempts) for branch in branches)
            fitting = [attempt for attempt in tried if attempt is not None]
            if not fitting:
                raise _misfit(path)
            return max(fitting, key=lambda attempt: attempt[0])[1]

        return union


def _once(convert: _Convert, name: str) -> _Convert:
    """Return the function of a record, which converts each object of a document once."""

    def once(value: Any, attempts: _Attempts) -> Any:
        known = attempts.get((name, id(value)))
        if known is None:
            try:
                known = convert(value, attempts)
            except RecordRejectedError as error:
                known = error
            attempts[name, id(value)] = known
        if isinstance(known, RecordRejectedError):
            raise RecordRejectedError(known.reason, known.field)
        return known

    return once


def _attempt(value: Any, schema: Any, convert: _Convert, attempts: _Attempts) -> tuple[int, Any] | None:
    """Return the value as one of a union's branch, with the number of its fields; None if it does not fit."""
    try:
        branch = convert(value, attempts)
    except RecordRejectedError:
        return None
    return len(branch) if isinstance(branch, dict) else 0, _named_branch(_branch_name(schema), branch)


def _branch_name(schema: Any) -> str | None:
    """Return fastavro's name of a union's branch; None for a logical type, whose values contain no others."""
    if isinstance(schema, str):
        return schema
    name: str | None = schema.get("name", schema["type"] if schema["type"] in ("array", "map") else None)
    return name


def _named_branch(name: str | None, value: Any) -> Any:
    """Return a value with the name of its branch: fastavro would try it, with all values in it, at every level."""
    return value if name is None else (name, value)


def _kind(schema: Any) -> Any:
    return schema.get("type") if isinstance(schema, dict) else schema


def _nullable(schema: Any) -> bool:
    return schema == "null" or (isinstance(schema, list) and "null" in map(_kind, schema))


def _misfit(path: str) -> RecordRejectedError:
    return RecordRejectedError(Reason.SCHEMA_MISMATCH, path or None)


def _checked(convert: ToAvro, path: str) -> _Convert:
    """Return the function, which raises RecordRejectedError where ``convert`` raises ValueError or TypeError."""

    def checked(value: Any, _attempts: _Attempts) -> Any:
        try:
            return convert(value)
        except (ValueError, TypeError, InvalidOperation):
            raise _misfit(path) from None

    return checked


def _of_type(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise TypeError
    return value


def _integer(bits: int) -> ToAvro:
    def integer(value: Any) -> Any:
        if not -(1 << bits) <= _of_type(value, int) < 1 << bits:
            raise ValueError
        return value

    return integer


def _real(value: Any) -> float:
    return float(value if type(value) is int else _of_type(value, float))


def _null(value: Any) -> None:
    if value is not None:
        raise TypeError


def _bytes(value: Any) -> bytes:
    return bytes(_of_type(value, str).encode("latin-1"))


def _bytes_of(size: int) -> ToAvro:
    def fixed(value: Any) -> bytes:
        content = _bytes(value)
        if len(content) != size:
            raise ValueError
        return content

    return fixed


def _one_of(symbols: frozenset[str]) -> ToAvro:
    def symbol(value: Any) -> Any:
        if _of_type(value, str) not in symbols:
            raise ValueError
        return value

    return symbol


def _decimal(value: Any) -> Decimal:
    number = Decimal(str(value) if type(value) in (int, float) else _of_type(value, str))
    if not number.is_finite():
        raise ValueError
    return number


def _instant(*, local: bool) -> ToAvro:
    def instant(value: Any) -> datetime:
        moment = datetime.fromisoformat(_of_type(value, str))
        if (moment.tzinfo is None) is not local:
            raise ValueError
        return moment

    return instant


def _uuid(value: Any) -> UUID:
    return UUID(_of_type(value, str))


_PRIMITIVES: Mapping[str, ToAvro] = {
    "null": _null,
    "boolean": lambda value: _of_type(value, bool),
    "string": lambda value: _of_type(value, str),
    "bytes": _bytes,
    "float": _real,
    "double": _real,
    **{name: _integer(bits) for name, bits in INT_BITS.items()},
}

_LOGICAL: Mapping[tuple[Any, Any], ToAvro] = {
    ("int", "date"): lambda value: date.fromisoformat(_of_type(value, str)),
    ("int", "time-millis"): lambda value: time.fromisoformat(_of_type(value, str)),
    ("long", "time-micros"): lambda value: time.fromisoformat(_of_type(value, str)),
    ("long", "timestamp-millis"): _instant(local=False),
    ("long", "timestamp-micros"): _instant(local=False),
    ("long", "local-timestamp-millis"): _instant(local=True),
    ("long", "local-timestamp-micros"): _instant(local=True),
    ("string", "uuid"): _uuid,
    ("fixed", "uuid"): _uuid,
    ("bytes", "decimal"): _decimal,
    ("fixed", "decimal"): _decimal,
}
