"""Numbers in any notation: the scanner decodes the records that have them, and writes them as the reference codec."""

from __future__ import annotations

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.codecs import CodecPair

RECORD = {"diag_1": "I10", "diag_2": "E11.9", "kept": "@@", "dropped": 1, "list": [1, 2], "hidden": 3}
UNUSUAL = [
    "1e5",
    "1E+5",
    "1e-5",
    "-0",
    "-0.0",
    "-0e0",
    "0e0",
    "1.5e300",
    "0.00001",
    "123456789.123456789012345678",
    "18446744073709551615",
    "9999999999999999999",
    "-9223372036854775808",
    "12345678901234567890",
]
OUT_OF_RANGE = [
    "18446744073709551616",
    "19999999999999999999",
    "99999999999999999999",
    "-9223372036854775809",
    "1" * 21,
    "1e999",
    "1e400",
    "-1e309",
    "1" * 310 + ".5",
]
NOT_NUMBERS = [
    "1e",
    "1e+",
    "1.e5",
    ".5e1",
    "01e1",
    "-e1",
    "1e5.5",
    "1ee5",
    "-",
    "+1",
    "1.",
    "--1",
    "0x1",
    "1e 5",
    "1 e5",
]


@pytest.fixture(scope="module")
def pair(bench):
    return CodecPair(
        bench,
        {"a": {"path": "diag_1"}, "b": {"path": "diag_2"}},
        unlisted="drop",
        fields={"keep": ["kept", "list[*].x", "list[1]"], "pseudonymize": ["hidden"]},
    )


def record(place: str, number: str) -> bytes:
    return orjson.dumps({**RECORD, "kept": 1, place: "@@"}).replace(b'"@@"', number.encode())


@pytest.mark.parametrize("place", ["kept", "dropped"])
def test_unusual_numbers_are_scanned(pair, place):
    values = [record(place, number) for number in UNUSUAL]
    assert [value for value in values if not pair.is_scanned(value)] == []
    result = pair.check(values)
    assert result.rejected == {}


def test_a_batch_with_many_unusual_numbers(pair):
    values = [record("kept", "[" + ",".join(UNUSUAL[first:]) + "]") for first in range(len(UNUSUAL))]
    assert all(map(pair.is_scanned, values))
    pair.check(values * 3)


@pytest.mark.parametrize("place", ["kept", "dropped", "hidden", "diag_1", "list"])
def test_every_number_gives_the_same_result_in_both_codecs(pair, place):
    pair.check([record(place, number) for number in [*UNUSUAL, *OUT_OF_RANGE, *NOT_NUMBERS]])


DIGITS = st.text("0123456789", min_size=1, max_size=22)
NUMBERS = st.builds(
    lambda sign, whole, fraction, exponent: sign + whole + fraction + exponent,
    st.sampled_from(["", "-"]),
    st.one_of(DIGITS, st.integers(0, 2**66).map(str)),
    st.just("") | DIGITS.map(lambda digits: "." + digits),
    st.just("")
    | st.builds(lambda e, digits: e + digits, st.sampled_from(["e", "E", "e+", "e-"]), DIGITS.map(lambda d: d[:4])),
)


@given(numbers=st.lists(NUMBERS, min_size=1, max_size=8))
def test_any_number(pair, numbers):
    pair.check([record("kept", number) for number in numbers])


def test_a_filter_that_compares_numbers(bench):
    """A filter compares the number as the encoder writes it."""
    pair = CodecPair(bench, {"a": {"path": "c[?k=1].code", "missing": "keep"}}, unlisted="keep")
    texts = ["1", "1.0", "1e0", "1E0", "10e-1", "-0", "true", "18446744073709551615", '"1"', "1 "]
    pair.check([b'{"c":[{"k":%b,"code":"I10"}]}' % text.encode() for text in texts])
