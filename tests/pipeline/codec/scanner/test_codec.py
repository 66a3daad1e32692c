"""The compiled reader against the literal one: the same outcomes, blocks and rejections, byte for byte."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.codecs import Pair
from support.documents import CODES, JUNK, NUMBERS, ODD_CODES, ODD_TEXTS, TEXTS, places, put, written

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
PLANS = {"numbered": NUMBERED, "flat": FLAT, "nested": NESTED, "fhir": FHIR, "deep": DEEP}


@pytest.fixture(scope="module", params=list(PLANS))
def pair(bench, request):
    attributes, given = PLANS[request.param]
    return Pair(bench, attributes, **given)


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


@pytest.mark.parametrize("name", list(PLANS))
def test_common_records_are_taken_by_the_compiled_reader(bench, name):
    attributes, given = PLANS[name]
    both = Pair(bench, attributes, **given)
    for text in (orjson.dumps(GOOD[name]), json.dumps(GOOD[name], ensure_ascii=False, indent=3).encode()):
        both.check([text, text])
        assert both.taken(text)


@pytest.mark.parametrize("name", list(PLANS))
def test_a_record_torn_at_any_byte(bench, name):
    attributes, given = PLANS[name]
    both, text = Pair(bench, attributes, **given), orjson.dumps(GOOD[name])
    both.check([text[:end] for end in range(len(text))])
    both.check([text[start:] for start in range(len(text))])


@pytest.mark.parametrize("name", list(PLANS))
def test_a_record_with_any_byte_changed(bench, name):
    attributes, given = PLANS[name]
    both, text, chance = Pair(bench, attributes, **given), orjson.dumps(GOOD[name]), random.Random(7)
    changed = [text[:at] + bytes([chance.choice(JUNK)]) + text[at + 1 :] for at in range(len(text)) for _ in range(6)]
    added = [text[:at] + bytes([chance.choice(JUNK)]) + text[at:] for at in range(len(text)) for _ in range(3)]
    taken_out = [text[:at] + text[at + 1 :] for at in range(len(text))]
    both.check(changed + added + taken_out)


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


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
def test_any_documents(pair, data):
    name = next(
        name
        for name, (attributes, _) in PLANS.items()
        if next(iter(attributes.values()))["path"] == pair.bench.plan.attributes[0].path.text
    )
    good = GOOD[name]
    chance = random.Random(data.draw(st.integers(0, 2**32)))
    values: list[bytes | None] = []
    for _ in range(data.draw(st.integers(1, 6))):
        document = good
        for _ in range(data.draw(st.integers(0, 3))):
            document = put(document, chance.choice(list(places(document))), data.draw(JSON))
        values.append(written(document, chance).encode("utf-8", "surrogatepass"))
    if data.draw(st.booleans()):
        values.append(None)
    pair.check(values)


def all_damaged(text: bytes, chance: random.Random) -> list[bytes]:
    """A record torn at every byte, and with a byte changed at every place, whole and torn later on."""
    whole = [text[:end] for end in range(len(text) + 1)]
    changed = [text[:at] + bytes([chance.choice(JUNK)]) + text[at + 1 :] for at in range(len(text))]
    return [*whole, *changed, *(one[: chance.randint(1, len(one))] for one in changed)]


CHECKED = """
import random, sys
import checked_kernels
import conftest, test_codec
from support.codecs import as_plain
from stream_masker.pipeline.records import InputRecord, Inputs
for number, (name, (attributes, given)) in enumerate(test_codec.PLANS.items()):
    on_bench = conftest.Bench(attributes, **given)
    both = on_bench.masker._codec.scanner, on_bench.masker._reference
    text = test_codec.orjson.dumps(test_codec.GOOD[name])
    for value in test_codec.all_damaged(text, random.Random(number))[number % 2 :: 2]:
        records = Inputs.of([InputRecord(1, value)])
        scanned = both[0].read(records)
        if len(scanned.indices):
            literally = both[1].read(records)
            assert as_plain(scanned.batch) == as_plain(literally.batch)
            masked = [on_bench.mechanism.mask_batch(one.batch, range(one.batch.size)) for one in (scanned, literally)]
            assert both[0].render(scanned, masked[0]) == both[1].render(literally, masked[1])
print("no index out of bounds")
"""


def test_kernels_never_reach_beyond_their_arrays():
    """Each record alone in its array, so that a step too far is one beyond the array."""
    here, tests = Path(__file__).parent, Path(__file__).parents[3]
    path = os.pathsep.join(map(str, (here, here.parents[1], tests / "support", tests)))
    environment = {**os.environ, "PYTHONPATH": path, "NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run([sys.executable, "-c", CHECKED], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "no index out of bounds", done.stderr[-2000:]
