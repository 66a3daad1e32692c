"""What a record says about its own masking: the key of its noise, and its alpha."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import orjson

from stream_masker.pipeline.codec.reference.matching import matching_slots
from stream_masker.pipeline.paths import JsonValue, Path
from stream_masker.pipeline.plan import MAX_RECORD_ALPHA, AlphaSource
from stream_masker.pipeline.reasons import Reason, RecordRejectedError
from stream_masker.pipeline.records import InputRecord

Document: TypeAlias = dict[str, Any]
OWN_ALPHA_ABSENT: Final = float("nan")

_DECIMAL: Final = re.compile(r"[0-9]{1,20}(?:\.[0-9]{1,40})?(?:[eE][+-]?[0-9]{1,3})?")


def noise_key(path: Path) -> Callable[[Document], bytes]:
    """A function from a record to the text of its noise key in UTF-8; it raises Unfit (missing_noise_key).

    A number has the text that JSON writes for it. Null, truth values, objects, lists and blank texts are no keys.
    """
    find = _first(path)

    def read(document: Document) -> bytes:
        key = find(document)
        if type(key) is int or type(key) is float:
            return orjson.dumps(key)
        if type(key) is str and not key.isspace() and key:
            return key.encode()
        raise RecordRejectedError(Reason.MISSING_NOISE_KEY, path.text)

    return read


def own_alpha(source: AlphaSource) -> Callable[[Document, InputRecord], float]:
    """A function from a record to its own alpha, in (0, 10]; NaN where it gives none and there is no default.

    A number, or a decimal number as a text. It raises Unfit (alpha_out_of_range) for anything else, null included.
    """
    default = OWN_ALPHA_ABSENT if source.default is None else source.default
    given = _of_header(source.header) if source.path is None else _of_field(source.path)
    blamed = source.header if source.path is None else source.path.text

    def read(document: Document, record: InputRecord) -> float:
        found = given(document, record)
        return default if found is _ABSENT else alpha_from(found, blamed)

    return read


_ABSENT: Final = object()


def alpha_from(given: Any, blamed: str | None = None) -> float:
    """A record's own alpha as it was given. Raises Unfit (alpha_out_of_range)."""
    if isinstance(given, str) and _DECIMAL.fullmatch(given):
        given = float(given)
    if type(given) in (int, float) and 0 < given <= MAX_RECORD_ALPHA:
        return float(given)
    raise RecordRejectedError(Reason.ALPHA_OUT_OF_RANGE, blamed)


def _of_field(path: Path) -> Callable[[Document, InputRecord], Any]:
    find = _first(path)
    return lambda document, _: find(document)


def _of_header(name: str | None) -> Callable[[Document, InputRecord], Any]:
    """The last header of the name, as Kafka's clients read it."""

    def find(_: Document, record: InputRecord) -> Any:
        found = [value for key, value in record.headers if key == name]
        return (found[-1] or b"").decode("utf-8", "replace") if found else _ABSENT

    return find


def _first(path: Path) -> Callable[[Document], JsonValue]:
    """What the path selects first; ``_ABSENT`` where there is nothing, None where the way there has another shape."""
    find = matching_slots(path)

    def first(document: Document) -> JsonValue:
        try:
            found = find(document)
        except RecordRejectedError:
            return None
        return found[0][0][found[0][1]] if found else _ABSENT

    return first
