"""The scanner at its limits: numbers, strings, and tables that fill up."""

from __future__ import annotations

import json
import logging

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_masker.pipeline.codec.scanner import buffers, lookups
from stream_masker.pipeline.masker import RecordMasker
from stream_masker.pipeline.pseudonyms import Pseudonyms
from stream_masker.pipeline.records import InputRecord, Inputs

SECRET = b"a secret of the tests"
CODE = {"a": {"path": "code"}}


def assert_same(on_bench, values):
    """Both codecs agree. Returns the outcomes, and the indices that the scanner leaves undecided."""
    records = Inputs.of([InputRecord(i, value) for i, value in enumerate(values)])
    literal = RecordMasker(on_bench.plan, on_bench.mechanism, SECRET, compiled=False)
    compiled, reference = (m.mask("t", 1, records, statistics_version=3).outcomes for m in (on_bench.masker, literal))
    assert compiled == reference
    left = on_bench.masker._codec.scanner.read(records).undecided
    return compiled, left.tolist()


def left_undecided(on_bench, values):
    """The indices of the records that the scanner leaves undecided. Both codecs agree on all records."""
    return assert_same(on_bench, values)[1]


@pytest.fixture(scope="module")
def keeping(bench):
    """Keeps x, pseudonymizes y, and masks z as a number."""
    fields = {"pseudonymize": ["y"]}
    return bench(CODE, fields=fields, numeric={"z": {"path": "z", "missing": "keep"}})


def with_number(text):
    return b'{"code":"I10","x":%b,"y":[%b],"z":%b}' % ((text.encode(),) * 3)


WHOLES = ("0", "7", "90", "123456789012345", "00", "")
POINTS = ("", ".", ".0", ".5", ".50", ".000", ".0001", ".00012", ".00001", ".123456789012345", ".5e1")


def test_numbers_are_read_and_written_as_the_decoder_and_the_encoder_do(keeping):
    texts = [f"{sign}{whole}{point}" for sign in ("", "-") for whole in WHOLES for point in POINTS]
    texts += [str(2**bits + off) for bits in range(50, 65) for off in (-1, 0, 1)]
    assert_same(keeping, [with_number(text) for text in texts])
    common = ["0", "7", "-7", "0.5", "-0.25", "12.50", "100.0", "0.001", "123456.789", "1234567890123456"]
    assert left_undecided(keeping, [with_number(text) for text in common]) == []


DIGITS = st.text("0123456789", min_size=1, max_size=12)
DECIMALS = st.builds("{}{}{}".format, DIGITS, st.sampled_from(["", "."]), DIGITS)
FLOATS = st.floats(-1e20, 1e20, allow_subnormal=False).map(repr)


@given(texts=st.lists(DECIMALS | FLOATS | st.integers().map(str), min_size=1, max_size=20))
def test_any_numbers_are_read_and_written_as_the_decoder_and_the_encoder_do(keeping, texts):
    assert_same(keeping, [with_number(text) for text in texts])


def test_strings_are_read_and_written_as_the_decoder_and_the_encoder_do(keeping):
    characters = [chr(c) for c in [*range(0x300), *range(0x7F0, 0x810), *range(0xD7F0, 0xD800), *range(0xE000, 0xE010)]]
    characters += ["\u2028", "\ufeff", "\uffff", "\U00010000", "\U0001f642", "\U0010ffff"]
    plain = [
        b'{"code":"I10","x":%b}' % json.dumps(c, ensure_ascii=ascii_).encode() for c in characters for ascii_ in (0, 1)
    ]
    assert left_undecided(keeping, plain) == []
    odd = [
        "\\/",
        "\\u00E9",
        "\\uD83D\\uDE42",
        "\\u0022\\u005c\\u0008\\u001F",
        "\\u12",
        "\\ud800",
        "\\ud800\\u0041",
        "\\udc00",
    ]
    odd += ["\\x41", "\\", "\\u00g0", "\\ud83d\\n", "\\ud83dx", "\\U0041"]
    _, left = assert_same(keeping, [b'{"code":"I10","x":"a%bz","w":"%b"}' % ((text.encode(),) * 2) for text in odd])
    assert left == list(range(4, len(odd)))


def test_bytes_that_are_not_utf8_are_rejected(keeping):
    pairs = [
        bytes([a, b])
        for a in range(0x80, 0x100)
        for b in (0x22, 0x41, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xFF)
    ]
    more = [
        pair + rest
        for pair in pairs
        if pair[0] >= 0xE0
        for rest in (b"\x80", b"\xbf", b"\xc0", b"\x80\x80", b"\xbf\xbf")
    ]
    assert_same(keeping, [b'{"code":"I10","x":"%b"}' % raw for raw in [*pairs, *more]])
    assert_same(keeping, [b'{"code":"I10","%b":1}' % raw for raw in [*pairs, *more]])


def test_the_reference_codec_decides_about_deep_and_large_records(bench):
    on_bench = bench(CODE, limits={"depth": 4, "record_bytes": 60})
    deep = [b'{"code":"I10","x":%b}' % (b"[" * n + b"]" * n) for n in range(6)]
    large = [b'{"code":"I10","x":"%b"}' % (b"x" * n) for n in range(34, 46)]
    outcomes, left = assert_same(on_bench, [*deep, *large])
    assert [getattr(outcome, "reason", None) for outcome in outcomes][3:6] == [None, "too_deep", "too_deep"]
    assert 3 not in left


def test_a_repeated_key_is_found_among_many(bench):
    on_bench = bench(CODE)
    keys = [f"k{n}" for n in range(3000)]
    once = orjson.dumps({"code": "I10", **dict.fromkeys(keys, 1)})
    twice = [once[:-1] + b',"%b":2}' % key.encode() for key in (keys[0], keys[1500], keys[-1], "code")]
    nested = b'{"code":"I10","x":{"k":1},"y":{"k":1,"j":{"k":{"k":1}}},"k":1}'
    outcomes, left = assert_same(on_bench, [once, *twice, nested])
    assert [getattr(outcome, "reason", None) for outcome in outcomes] == [None, *["duplicate_key"] * 4, None]
    assert left == [1, 2, 3, 4]


@pytest.fixture(scope="module")
def many(bench):
    """An ontology of 2,000 codes with labels."""
    edges = [(f"C{n:04d}", "ROOT") for n in range(2000)]
    return bench(
        {"a": {"path": "code", "label": "text", "unknown": "suppress"}, "b": {"path": "s[*]", "copies": ["c[*]"]}},
        edges=edges,
        labels={child: f"Label {child}" for child, _ in edges},
        tables={
            "a": {f"C{n:04d}": f"C{1999 - n:04d}" for n in range(2000)},
            "b": {f"C{n:04d}": f"C{n // 2:04d}" for n in range(2000)},
        },
    )


@st.composite
def records_of_many(draw):
    """A record with up to nine codes, some of them unknown, in upper or lower case."""
    codes = draw(
        st.lists(st.builds("{}{:04d}".format, st.sampled_from("Cc"), st.integers(0, 2099)), min_size=1, max_size=9)
    )
    good = [code for code in codes if int(code[1:]) < 2000]
    return orjson.dumps(
        {"code": codes[0], "text": draw(st.sampled_from(["x", "ÉTAT", codes[0]])), "s": good, "c": good}
    )


RUNS = st.lists(st.lists(records_of_many(), min_size=1, max_size=20), min_size=1, max_size=3)


@pytest.mark.parametrize("limits", [(3, 4, 4096), (4, 6, 3), (5, 5, 64)], ids=str)
@given(runs=RUNS)
def test_tables_that_fill_up_change_nothing(many, limits, runs):
    """``limits``: log2 of the first and of the largest number of slots, and the new texts of a batch."""
    first, largest, new_texts = limits
    many.masker = RecordMasker(many.plan, many.mechanism, SECRET)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lookups, "INTERN_FIRST_SLOTS", 1 << first)
        patch.setattr(lookups, "INTERN_MAX_SLOTS", 1 << largest)
        patch.setattr(
            many.masker._codec.scanner._interned,
            "table",
            lookups.no_texts(1 << first, 1 << 8, new_texts, lookups.random_key()),
        )
        for values in runs:
            assert_same(many, values)


@given(values=st.lists(records_of_many(), min_size=1, max_size=60))
def test_more_placeholders_than_expected_change_nothing(many, values):
    many.masker = RecordMasker(many.plan, many.mechanism, SECRET)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(buffers, "PLACEHOLDERS_EACH", 0)
        assert left_undecided(many, values) == []


def test_a_plan_that_cannot_be_compiled_uses_the_reference_codec_and_logs_why(bench, caplog):
    with caplog.at_level(logging.INFO):
        on_bench = bench({"a": {"path": "coding[?code=I10].code"}})
    assert not on_bench.masker.is_compiled
    assert (
        "records are read by the reference codec, one by one: a filter compares a field that masking replaces"
        in caplog.text
    )
    assert {record.levelname for record in caplog.records} == {"INFO"}, "commands with --quiet show warnings"
    assert on_bench.mask_one({"coding": [{"code": "I10"}]}) == {"coding": [{"code": "E11.9"}]}


def test_an_error_in_the_scanner_costs_only_speed(bench, monkeypatch):
    on_bench = bench(CODE)
    monkeypatch.setattr(on_bench.masker._codec.scanner, "read", lambda _: 1 / 0)
    assert on_bench.mask_one({"code": "I10"}) == {"code": "E11.9"}


def test_pseudonyms_of_many_values_are_those_of_single_ones():
    pseudonyms = Pseudonyms(SECRET)
    texts = [b"", b"x", *(b"y" * n for n in (15, 16, 127, 128, 129, 1000)), "é".encode()]
    each = [pseudonyms.of_bytes(text).encode() for text in texts]
    assert pseudonyms.of_all([None, *texts, *texts]) == [None, *each, *each]
    sizes = np.array([len(text) for text in texts])
    data = np.frombuffer(b"".join(texts), np.uint8)
    assert pseudonyms.of_slices(data, np.cumsum(sizes) - sizes, sizes).tobytes() == b"".join(each)


def test_inputs_are_sliced_and_selected():
    records = [InputRecord(i, b"%d" % i, None, [("h", b"%d" % i)], i) for i in range(5)]
    columns = Inputs.of(records)
    assert [columns.at([3, 1]).record(k) for k in range(2)] == [records[3], records[1]]
    assert [columns.part(2, 4).record(k) for k in range(2)] == records[2:4]
    assert np.array_equal(columns.offsets, range(5))
