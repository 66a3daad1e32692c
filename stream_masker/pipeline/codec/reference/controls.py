"""The fields of a decoded record that control masking: the noise key, the alpha and the counted fields."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import orjson

from stream_masker.pipeline.codec.numbers import default_alpha, header_alpha, parse_alpha
from stream_masker.pipeline.codec.reference.json_decoder import decoder
from stream_masker.pipeline.codec.reference.matching import Matches, matcher
from stream_masker.pipeline.path_trie import PathTrie
from stream_masker.pipeline.paths import JsonValue, Path
from stream_masker.pipeline.plan import AlphaSource, CountedField, RecordLimits
from stream_masker.pipeline.reasons import Reason, RecordRejectedError
from stream_masker.pipeline.records import InputRecord

Document: TypeAlias = dict[str, Any]

_ABSENT: Final = object()


def noise_key_reader(path: Path) -> Callable[[Document], bytes]:
    """Return a function from a record to the text of its noise key in UTF-8. It raises like ``read_noise_key``."""
    match = matcher(PathTrie.of([(path, 0)]))
    return lambda document: read_noise_key(match(document), 0, path)


def read_noise_key(matches: Matches, number: int, path: Path) -> bytes:
    """Return the text of a record's noise key in UTF-8; number: that of the key's path among the matches.

    The text of a number is its JSON. Raises RecordRejectedError (missing_noise_key) for null, a truth value, an object,
    a list, and an empty or blank text.
    """
    key = _first_value(matches, number, path)
    if type(key) is int or type(key) is float:
        return orjson.dumps(key)
    if type(key) is str and not key.isspace() and key:
        return key.encode()
    raise RecordRejectedError(Reason.MISSING_NOISE_KEY, path.text)


def unit_reader(path: Path, limits: RecordLimits) -> Callable[[bytes], bytes]:
    """Return a function from the bytes of a record to the text of its unit.

    The text is formed like that of a noise key. The records must have been decoded before. All records without such a
    text belong to one unit, the empty text.
    """
    decode, read = decoder(limits), noise_key_reader(path)

    def unit(value: bytes) -> bytes:
        try:
            return read(decode(value))
        except RecordRejectedError:
            return b""

    return unit


def alpha_reader(source: AlphaSource, number: int | None) -> Callable[[Matches, InputRecord], float]:
    """Return a function from a record to its alpha, in [``source.least``, 10]; NaN for a record without one, if there
    is no default.

    number: that of the alpha's path among the matches; None if the alpha is in a header. The function raises
    RecordRejectedError (alpha_out_of_range) for a field or header that is not an alpha. A null counts as no alpha.
    """
    path = source.path
    if path is None or number is None:
        from_header = header_alpha(source)
        return lambda _, record: from_header(record)
    default = default_alpha(source)

    def read(matches: Matches, _: InputRecord) -> float:
        value = _first_value(matches, number, path)
        return default if value is _ABSENT else parse_alpha(value, path.text, least=source.least)

    return read


def kind_reader(fields: Sequence[CountedField], numbers: Sequence[int]) -> Callable[[Matches], list[int]]:
    """Return a function from a record to the kind of each counted field; never a rejection.

    numbers: those of the fields' paths among the matches. A field that is absent is of the other kind, as is one that
    has another shape than its path requires.
    """

    def read(matches: Matches) -> list[int]:
        values = [_first_value(matches, number, field.path) for number, field in zip(numbers, fields, strict=True)]
        return [field.other if v is _ABSENT else field.kind_of(v) for v, field in zip(values, fields, strict=True)]

    return read


def _first_value(matches: Matches, number: int, path: Path) -> JsonValue:
    """Return the first value that a path selects.

    Return ``_ABSENT`` if the path selects nothing, and None if a value has another shape than the path requires.
    """
    try:
        slots = matches.slots_of(number, path)
    except RecordRejectedError:
        return None
    return slots[0][0][slots[0][1]] if slots else _ABSENT
