"""The scanner gives the same outcomes, blocks and rejections as the reference codec, byte for byte."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.codecs import CodecPair
from support.documents import CODES, JUNK, NUMBERS, ODD_CODES, ODD_TEXTS, TEXTS, edited, encoded

from stream_masker.pipeline.paths import compile_path
from stream_masker.pipeline.records import Masked, Rejected
from stream_masker.pipeline.transforms import (
    Constant,
    DateShift,
    DateUnit,
    Encrypted,
    FieldCipher,
    FormattedPseudonym,
    LeadingCharacters,
    NumberBands,
)

FLAT = (
    {"a": {"path": "diag_1", "label": "text_1"}, "b": {"path": "diag_2", "missing": "keep", "unknown": "suppress"}},
    {"unlisted": "drop", "fields": {"keep": ["age", "n"], "pseudonymize": ["id", "n2"]}},
)
NESTED = (
    {
        "a": {"path": "d.p.code", "label": "d.p.text", "unknown": "ancestor"},
        "b": {"path": "d.s[*].code", "label": "d.s[*].text", "copies": ["again[*]"], "missing": "keep"},
    },
    {
        "unlisted": "keep",
        "fields": {"drop": ["n", "d.s[*].n", "age.n"], "pseudonymize": ["id", "n2", "d.p.n"]},
        "noise_key": "id",
        "alpha": {"path": "alpha", "default": 0.5},
    },
)
FHIR = (
    {
        "a": {"path": "coding[?system=icd].code", "label": "coding[?system=icd].text", "copies": ["copy"]},
        "b": {"path": "other[0].code", "missing": "keep"},
        "c": {"path": "codes[*]", "unknown": "suppress"},
    },
    {
        "unlisted": "drop",
        "fields": {
            "keep": ["n", "other[?kind=1].n", "other[?kind.x=true]", "other[2].id", "age", "id.n"],
            "drop": ["other[1].n", "coding[*].n"],
            "pseudonymize": ["other[*].id", "id", "n2[*].x"],
        },
        "noise_key": "id[?system=icd].n",
        "limits": {"depth": 6, "record_bytes": 2000},
    },
)
DEEP = (
    {"a": {"path": "x[?k=1].y[*].code", "missing": "keep"}, "b": {"path": "b", "copies": ["c", "e[0][1]"]}},
    {"unlisted": "drop", "fields": {"pseudonymize": ["x"], "keep": ["x[*].z", "e[1]"], "drop": ["x[*].z.n"]}},
)
NUMBERED = (
    {"a": {"path": "code", "label": "text"}, "b": {"path": "d.s[*]", "missing": "keep"}},
    {
        "unlisted": "drop",
        "fields": {"keep": ["x"], "pseudonymize": ["id"]},
        "numeric": {
            "n": {"path": "n", "integer": True, "minimum": 0, "maximum": 90},
            "m": {"path": "d.p[?k=1].n", "missing": "keep"},
        },
    },
)
TRANSFORMED = (
    {"a": {"path": "code"}},
    {
        "unlisted": "keep",
        "fields": {"drop": ["x.n"]},
        "noise_key": "id",
        "transforms": {
            "id": FormattedPseudonym("p-", 8),
            "age": NumberBands(10, 90),
            "x.born": DateShift(30, compile_path("id")),
            "x.visits[*]": DateUnit("month"),
            "x": Constant("x"),
            "place": LeadingCharacters(2),
            "sealed": Encrypted(lambda: FieldCipher(b"0123456789abcdef")),
            "flag": Constant(1),
        },
    },
)
PLANS = {"numbered": NUMBERED, "flat": FLAT, "nested": NESTED, "fhir": FHIR, "deep": DEEP, "transformed": TRANSFORMED}


@pytest.fixture(scope="module", params=list(PLANS))
def name(request):
    return request.param


@pytest.fixture(scope="module")
def pair(bench, name):
    attributes, more = PLANS[name]
    return CodecPair(bench, attributes, **more)


GOOD = {
    "flat": {
        "diag_1": "I10",
        "text_1": "Diabetes",
        "diag_2": "e119",
        "age": 5,
        "id": "P1",
        "n": 1.5,
        "n2": 7,
        "x": [1, {}],
    },
    "nested": {
        "id": "P1",
        "age": {"n": 1, "m": None},
        "alpha": 0.25,
        "n": [1],
        "n2": {"x": [1, "y", True, None]},
        "d": {
            "p": {"code": "I10", "text": "ESSENTIAL", "n": 3},
            "s": [{"code": "E119", "text": "x", "n": 1}, {"code": "E11.65"}, {"text": "y"}, {"code": None}],
        },
        "again": ["i10", "E1165"],
    },
    "fhir": {
        "coding": [{"system": "snomed", "code": "1", "n": 2}, {"code": "I10", "system": "icd", "text": "état"}],
        "copy": "I110",
        "codes": ["E03", "zz", "E11.9"],
        "n": {"deep": [1]},
        "age": "[0-10)",
        "other": [{"code": "E03", "id": 1, "n": 1}, {"kind": 1, "n": 3, "id": "x"}, {"kind": {"x": True}, "n": 4}, 5],
        "id": [{"system": "x"}, {"system": "icd", "n": "KEY"}],
        "n2": [{"x": 1}, {"y": 2}, 3],
    },
    "transformed": {
        "id": "P1",
        "code": "I10",
        "age": 41.5,
        "n": 7,
        "x": {"born": "1980-02-29", "visits": ["2024-01-05", None, "2024-03-01"], "n": 1, "m": 2},
        "place": '80\u00e9"331',
        "sealed": "Ada",
        "flag": None,
    },
    "numbered": {
        "code": "I10",
        "text": "Diabetes",
        "id": 12,
        "n": 41,
        "x": [0.5, "\\", "é"],
        "d": {"s": ["E03", "I110"], "p": [{"k": 2, "n": 5}, {"k": 1, "n": -0.125}, None]},
    },
    "deep": {
        "x": [{"k": 1, "y": [{"code": "I10"}, {}], "z": {"n": 1, "m": 2}}, {"k": 2, "y": [{"code": "E03"}]}],
        "b": "E11.9",
        "c": "e119",
        "e": [[1, "I10", 2], {"keep": [1]}],
    },
}


def test_the_scanner_decodes_common_records(pair, name):
    for text in (orjson.dumps(GOOD[name]), json.dumps(GOOD[name], ensure_ascii=False, indent=3).encode()):
        pair.check([text, text])
        assert pair.is_scanned(text)


def test_a_record_with_thousands_of_members_is_scanned(bench):
    """The table of keys grows with the largest record."""
    pair = CodecPair(bench, {"a": {"path": "code"}}, unlisted="keep")
    members = {"code": "I10", **{f"{number:x}": 1 for number in range(40_000)}}
    texts = [orjson.dumps(members), orjson.dumps({**members, "nested": members, "": {}})]
    assert all(map(pair.is_scanned, texts))
    pair.check([*texts, texts[0][:-1] + b',"1":2}'])


@pytest.mark.parametrize("size", [100, 256, 20_000])
def test_a_long_list_is_scanned(bench, size):
    """All elements of a list have the same keys; each is in the table of keys once for each element."""
    pair = CodecPair(bench, {"a": {"path": "s[*].code", "label": "s[*].text"}})
    elements = [{"code": "I10", "text": "x", "k": k, "more": {}} for k in range(size)]
    text = orjson.dumps({"s": elements})
    assert pair.is_scanned(text)
    pair.check([text, text.replace(b'"k":%d' % (size - 1), b'"code":1')])


def test_a_record_with_many_new_texts_is_scanned(bench):
    """The table of texts grows while the record is scanned."""
    codes = [f"C{number}" for number in range(20_000)]
    edges = [(code, "ROOT") for code in codes]
    pair = CodecPair(bench, {"a": {"path": "s[*]"}}, edges=edges, tables={"a": {}})
    assert pair.is_scanned(orjson.dumps({"s": codes}))
    pair.check([orjson.dumps({"s": codes})])


def test_a_record_cut_off_at_any_byte(pair, name):
    text = orjson.dumps(GOOD[name])
    pair.check([text[:end] for end in range(len(text))])
    pair.check([text[start:] for start in range(len(text))])


def test_a_record_with_any_byte_changed(pair, name):
    text = orjson.dumps(GOOD[name])
    changed = [text[:at] + junk(at, k) + text[at + 1 :] for at in range(len(text)) for k in range(6)]
    added = [text[:at] + junk(at, k) + text[at:] for at in range(len(text)) for k in range(3)]
    removed = [text[:at] + text[at + 1 :] for at in range(len(text))]
    pair.check(changed + added + removed)


def junk(at: int, k: int) -> bytes:
    """The k-th of six junk bytes for a place; at places next to each other they differ."""
    number = (7 * at + 5 * k) % len(JUNK)
    return JUNK[number : number + 1]


DAMAGE = st.tuples(
    st.floats(0, 1), st.integers(0, 1), st.sampled_from([b"", *(JUNK[k : k + 1] for k in range(len(JUNK)))])
)
"""Where to damage a record, how many bytes to remove there, and what to insert."""


@given(damages=st.lists(st.lists(DAMAGE, min_size=1, max_size=3), min_size=1, max_size=8))
def test_any_damage(pair, name, damages):
    pair.check([damaged(orjson.dumps(GOOD[name]), damage) for damage in damages])


def damaged(text: bytes, damage: list[tuple[float, int, bytes]]) -> bytes:
    for where, removed, inserted in damage:
        at = int(where * len(text))
        text = text[:at] + inserted + text[at + removed :]
    return text


WORDS = """diag_1 diag_2 text_1 age n n2 id d p s code text again alpha coding system copy other kind codes x y z k b c
e é"""
KEYS = st.just("") | st.sampled_from(WORDS.split())
LEAVES = (
    st.sampled_from([None, True, False, "icd", "1", 1, 2, 0.3, "0.3", *CODES, *TEXTS])
    | st.sampled_from([*ODD_CODES, *ODD_TEXTS, *NUMBERS])
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.integers(-(2**64), 2**65)
    | st.text(max_size=6)
)
JSON = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=5), max_leaves=12
)


@pytest.mark.exhaustive
@given(data=st.data(), tombstone=st.booleans())
def test_any_documents(pair, name, data, tombstone):
    values = data.draw(st.lists(edited(GOOD[name], JSON).flatmap(encoded), min_size=1, max_size=6))
    pair.check([*values, *[None] * tombstone])


def all_damaged(text: bytes) -> list[bytes]:
    """A record cut off at every byte, and with a byte changed at every place, complete and cut off later on."""
    cut = [text[:end] for end in range(len(text) + 1)]
    changed = [text[:at] + junk(at, 0) + text[at + 1 :] for at in range(len(text))]
    return [*cut, *changed, *(record[: 1 + 31 * at % len(record)] for at, record in enumerate(changed))]


def test_the_corpus_of_the_fuzzer(pair, name):
    """Every input that a run of the fuzzer kept for this plan; the first byte of a file is the number of the plan."""
    number, corpus = list(PLANS).index(name), Path(__file__).parents[3] / "fuzz" / "corpus"
    inputs = [path.read_bytes() for path in sorted(corpus.iterdir())]
    values = [data[1:] for data in inputs if data[0] % len(PLANS) == number]
    assert len(values) > 20
    outcomes = pair.check(values).outcomes
    assert {type(outcome) for outcome in outcomes} == {Masked, Rejected}


CHECKED = """
import checked_kernels
import conftest, test_codec
from support.codecs import as_plain
from stream_masker.pipeline.records import InputRecord, Inputs
for number, (name, (attributes, given)) in enumerate(test_codec.PLANS.items()):
    on_bench = conftest.Bench(attributes, **given)
    scanner, reference = on_bench.masker._codec.scanner, on_bench.masker._reference
    text = test_codec.orjson.dumps(test_codec.GOOD[name])
    for value in test_codec.all_damaged(text)[number % 4 :: 4]:
        records = Inputs.of([InputRecord(1, value)])
        one = scanner.read(records)
        if len(one.indices):
            other = reference.read(records)
            assert as_plain(one.batch) == as_plain(other.batch)
            masked = [on_bench.mechanism.mask_batch(each.batch, range(each.batch.size)) for each in (one, other)]
            assert scanner.render(one, masked[0]) == reference.render(other, masked[1])
print("no index out of bounds")
"""


@pytest.mark.exhaustive
def test_kernels_stay_inside_their_arrays():
    """Each record is alone in its array, so that a step too far leaves the array."""
    here, tests = Path(__file__).parent, Path(__file__).parents[3]
    path = os.pathsep.join(map(str, (here, here.parents[1], tests / "support", tests)))
    environment = {**os.environ, "PYTHONPATH": path, "NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run([sys.executable, "-c", CHECKED], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "no index out of bounds", done.stderr[-2000:]
