"""Decoding: a value that is not exactly one JSON object is rejected with a specific reason."""

from __future__ import annotations

import json

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from stream_masker.pipeline.codec.reference.json_decoder import decoder, nesting
from stream_masker.pipeline.plan import RecordLimits
from stream_masker.pipeline.reasons import RecordRejectedError

decode = decoder(RecordLimits(record_bytes=4000, depth=12))


def reason(value: bytes) -> str:
    with pytest.raises(RecordRejectedError) as raised:
        decode(value)
    assert raised.value.field is None
    return str(raised.value.reason)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"", "not_json"),
        (b" ", "not_json"),
        (b"{", "not_json"),
        (b"{'a': 1}", "not_json"),
        (b'{"a": 1} {"a": 1}', "not_json"),
        (b'{"a": NaN}', "not_json"),
        (b'{"a": -Infinity}', "not_json"),
        (b'{"a": 1e999}', "not_json"),
        (b'{"a": "\\ud800"}', "not_json"),
        (b'\xef\xbb\xbf{"a": 1}', "not_json"),
        (b'{"a": "\xff"}', "not_utf8"),
        (b'{"a": "\xed\xa0\x80"}', "not_utf8"),
        ('{"a": "ä"}'.encode("latin-1"), "not_utf8"),
        ('{"a": 1}'.encode("utf-16"), "not_utf8"),
        (b"null", "not_an_object"),
        (b"[{}]", "not_an_object"),
        (b'"text"', "not_an_object"),
        (b"12", "not_an_object"),
        (b'{"a": 1, "a": 1}', "duplicate_key"),
        (b'{"a":{"b":[{"c":1,"c":2}]}}', "duplicate_key"),
        (b'{"a":1,"\\u0061":2}', "duplicate_key"),
        (b'{"x":":","a":1,"b":"\\u003a","b":2}', "duplicate_key"),
        (b'{"b":"\\u003A","b":"\\u003A"}', "duplicate_key"),
        (b'{"":1,"":2}', "duplicate_key"),
        (b'{"a":9223372036854775808,"b":18446744073709551616}', "number_too_large"),
        (b'{"a":-9223372036854775809}', "number_too_large"),
        (b'{"a":[' + b"9" * 300 + b"]}", "number_too_large"),
        (b'{"a":[' + b"9" * 3000 + b"]}", "not_json"),
        (b'{"a":"' + b"x" * 4000 + b'"}', "too_large"),
        (b'{"a":' * 12 + b"{}" + b"}" * 12, "too_deep"),
        (b'{"a":' + b"[" * 1999 + b"]" * 1900 + b"}", "too_deep"),
        (b"[" * 3999, "too_deep"),
    ],
)
def test_rejects_with_a_reason(value, expected):
    assert reason(value) == expected


@pytest.mark.parametrize(
    "value",
    [
        b"{}",
        b' { "a" : 1 } ',
        b'{"a":"\\u003a:","b":"\\\\u003a"}',
        b'{"a":[{"b":1},{"b":1}],"b":{"b":1}}',
        b'{"a":18446744073709551615,"b":-9223372036854775808,"c":"99999999999999999999999"}',
        b'{"a":1.50,"b":1e5,"c":-0.0,"d":12345678901234567890.5}',
        b'{"a":"[[[[[[[[[[[[[[[[[[","b":"\\"{{{{{{{{{{{{{{"}',
        b'{"a":{"a":{"a":{"a":{"a":{"a":{"a":{}}}}}}}}',
        '{"ä:": "😀", "x": "\\ud83d\\ude00"}'.encode(),
    ],
)
def test_decodes(value):
    assert decode(value) == json.loads(value)


def test_accepts_a_member_that_only_resembles_a_duplicate():
    assert decode(b'{"a":"\\"a\\":1","b":"\\u003a"}') == {"a": '"a":1', "b": ":"}


def test_decoding_the_deepest_value_strictly_does_not_overflow():
    deepest = decoder(RecordLimits(depth=250))
    value = b'{"a":' * 249 + b'{"b":"\\u003a"}' + b"}" * 249
    assert deepest(value) == json.loads(value)


def test_the_depth_of_a_long_string_of_escapes_is_measured_in_one_pass():
    assert nesting(b'{"' + b'\\"' * 400_000 + b"\\") == 1


KEYS = st.sampled_from(["a", "b", ":", "a:", '"', "\\", "\\u003a"])
LEAVES = (
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False) | KEYS
)


def written(members: object, escape: bool) -> str:
    """Encode lists of pairs as objects (keys may repeat), other lists as arrays, and leaves, as JSON."""
    if isinstance(members, tuple):
        return "{" + ", ".join(f"{text(k, escape)} :{written(v, escape)}" for k, v in members) + "}"
    if isinstance(members, list):
        return "[" + ",".join(written(v, escape) for v in members) + "]"
    return text(members, escape) if isinstance(members, str) else json.dumps(members)


def text(value: str, escape: bool) -> str:
    return json.dumps(value).replace(":", "\\u003A") if escape else json.dumps(value)


def has_duplicate_key(members: object) -> bool:
    if isinstance(members, tuple):
        return len({k for k, _ in members}) < len(members) or any(has_duplicate_key(v) for _, v in members)
    return isinstance(members, list) and any(has_duplicate_key(v) for v in members)


def has_huge(members: object) -> bool:
    inner = [v for _, v in members] if isinstance(members, tuple) else members
    if isinstance(inner, list):
        return any(has_huge(v) for v in inner)
    return type(members) is int and not -(2**63) <= members < 2**64


def objects(inner: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    return st.lists(st.tuples(KEYS, inner), max_size=4).map(tuple)


@given(objects(st.recursive(LEAVES, lambda v: st.lists(v, max_size=3) | objects(v), max_leaves=8)), st.booleans())
@example((("a", ":"), ("a", "x")), True)
def test_duplicate_keys_and_huge_integers_are_found_exactly(members, escape):
    value = written(members, escape).encode()
    if has_duplicate_key(members) or has_huge(members):
        assert reason(value) in ("duplicate_key", "number_too_large")
    else:
        assert decode(value) == json.loads(value)


@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_any_bytes_are_decoded_or_rejected(value):
    try:
        document = decoder(RecordLimits())(value)
    except RecordRejectedError:
        return
    assert orjson.loads(value) == document
