"""The compiled reader against the literal one: the same outcomes, blocks and rejections, byte for byte."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stream_masker.errors import ConfigurationError
from stream_masker.pipeline.masker import RecordMasker
from stream_masker.pipeline.paths import Index, Name, Where
from stream_masker.pipeline.records import InputRecord, Inputs

CODES = [
    "I10",
    "i10",
    "I11.0",
    "I110",
    "E11.9",
    "e119",
    "E1165",
    "E11.65",
    "E03",
    "E11.99",
    "I11",
    "Diabetes",
    "type 2 diabetes",
]
ODD_CODES = ["", " ", "nothing", "I10 ", "E11é", "ÉTAT", "ß", "I10" * 100]
TEXTS = ["Diabetes", "DIABETES", "état", "ÉTAT", "a b", "ab", "42", "x" * 200, "日本語", "🙂", "I10"]
ODD_TEXTS = ['say "x"', "back\\slash", "tab\t", "nul\x00", "\x1f", "\x7f", "\u2028", "/", "a/b"]
NUMBERS = [
    0,
    1,
    -1,
    42,
    10**17,
    10**18,
    10**19,
    2**64 - 1,
    2**64,
    -(2**63),
    0.5,
    -0.5,
    1.5,
    1e-3,
    1e-7,
    1e22,
    123456.789,
]
RAW_NUMBERS = [
    "-0",
    "-0.0",
    "1.0",
    "1.50",
    "0.000",
    "1e5",
    "1E5",
    "0.10",
    "00",
    "01",
    "1.",
    ".5",
    "-",
    "+1",
    "NaN",
    "1e400",
    "0.1e1",
]


JUNK = b'"\\{}[],: 0-.eEtfn/u\x00\x1f\x7f\x80\xc3\xed\xf4\xff\xef\xbb'


class Pair:
    """The same plan read in both ways."""

    def __init__(self, bench: Any, attributes: dict[str, Any], **given: Any) -> None:
        self.bench = bench(attributes, **given)
        self.compiled = self.bench.masker
        self.literal = RecordMasker(self.bench.plan, self.bench.mechanism, b"a secret of the tests", compiled=False)
        assert self.compiled.is_compiled
        assert not self.literal.is_compiled

    def check(self, values: list[bytes | None], **record: Any) -> Any:
        records = [InputRecord(10 + i, value, **{"key": b"k%d" % i, **record}) for i, value in enumerate(values)]
        compiled = self.compiled.mask("t", 1, records, statistics_version=3)
        (batch, keys), *_ = self.bench.mechanism.seen[-1:] or [(None, None)]
        literal = self.literal.mask("t", 1, records, statistics_version=3)
        assert compiled.outcomes == literal.outcomes
        assert as_plain(compiled.blocks) == as_plain(literal.blocks)
        if len(values) and batch is not None and any(value is not None for value in compiled.values):
            (other, other_keys) = self.bench.mechanism.seen[-1]
            assert as_plain(batch) == as_plain(other)
            assert np.array_equal(keys.words(0), other_keys.words(0))
        assert as_plain(self.compiled.count(values)) == as_plain(self.literal.count(values))
        return compiled

    def taken(self, value: bytes, **record: Any) -> bool:
        """Whether the compiled reader takes a record itself."""
        reader = self.compiled._reader
        _, left = reader._compiled.take(type(self).inputs(value, **record))
        return not len(left)

    @staticmethod
    def inputs(value: bytes, headers: Any = ()) -> Any:
        return Inputs.of([InputRecord(1, value, None, headers)])


def as_plain(value: Any) -> Any:
    """Arrays as lists, so that results can be compared."""
    if isinstance(value, np.ndarray):
        return [str(x) for x in value.tolist()]
    if isinstance(value, list | tuple):
        return [as_plain(one) for one in value]
    if isinstance(value, dict):
        return {str(key): as_plain(one) for key, one in value.items()}
    fields = getattr(value, "__dataclass_fields__", None)
    return {name: as_plain(getattr(value, name)) for name in fields} if fields else value


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


def places(value, place=()):
    yield place
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from places(inner, (*place, key))


def put(value, place, new):
    if not place:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[place[0]] = put(value[place[0]], place[1:], new)
    return copy


class Raw(str):
    """JSON as it is."""


def written(value: Any, chance: random.Random) -> str:
    """A value as JSON in one of many ways: white space, escapes, keys there twice, numbers as nobody writes them."""
    space = chance.choice(["", "", "", " ", "\n\t", "\r"])
    if isinstance(value, dict):
        members = [(key, inner) for key, inner in value.items()]
        if members and chance.random() < 0.03:
            members.append(chance.choice(members))
        chance.random() < 0.3 and chance.shuffle(members)
        parts = [f"{written(key, chance)}{space}:{space}{written(inner, chance)}" for key, inner in members]
        return "{" + space + f"{space},{space}".join(parts) + space + "}"
    if isinstance(value, list):
        return "[" + space + f",{space}".join(written(inner, chance) for inner in value) + space + "]"
    if chance.random() < 0.01:
        return chance.choice(RAW_NUMBERS)
    try:
        text = json.dumps(value, ensure_ascii=chance.random() < 0.3)
        return text.replace("a", chance.choice(["\\u0061", "\\/"])) if chance.random() < 0.03 else text
    except ValueError:
        return "null"


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


STEPS = [".a", ".b", ".c", "[0]", "[1]", "[*]", "[?a=1]", "[?b=x]", "[?a='1']", "[?a.b=1]"]
SMALL = [None, True, 1, "1", "x", "I10", "e119", "E11.9", 1.5, "I110", [], {}, {"a": 1}, [1, "x"], {"b": "x", "c": 1}]


def random_path(chance: random.Random, *, arrays: int) -> str:
    steps = [step for step in chance.choices(STEPS, k=chance.randint(0, 3)) if step != "[*]"]
    steps = steps[:-1] if steps and steps[-1].startswith("[?") else steps
    steps[0:0] = ["[*]"] * (arrays and not steps)
    if arrays and "[*]" not in steps:
        steps.insert(chance.randint(0, max(0, len(steps) - 1)), "[*]")
    return chance.choice("abc") + "".join(steps)


def random_plan(chance: random.Random) -> tuple[dict[str, Any], dict[str, Any]]:
    attributes: dict[str, Any] = {}
    for number in range(chance.choice([1, 1, 2, 3])):
        arrays = int(chance.random() < 0.4)
        given: dict[str, Any] = {"path": random_path(chance, arrays=arrays)}
        given["missing"] = chance.choice(["keep", "keep", "keep", "reject"])
        given["unknown"] = chance.choice(["suppress", "ancestor", "reject"])
        if chance.random() < 0.4:
            given["label"] = random_path(chance, arrays=arrays)
        given["copies"] = [random_path(chance, arrays=arrays) for _ in range(chance.choice([0, 0, 1, 2]))]
        attributes[f"x{number}"] = given
    names = ["keep", "drop", "pseudonymize"]
    fields = {
        n: [random_path(chance, arrays=chance.choice([0, 1])) for _ in range(chance.randint(0, 3))] for n in names
    }
    more: dict[str, Any] = {"unlisted": chance.choice(["keep", "drop"]), "fields": fields}
    if chance.random() < 0.2:
        more["noise_key"] = random_path(chance, arrays=0)
    if chance.random() < 0.2:
        more["alpha"] = {"path": random_path(chance, arrays=0)}
    if chance.random() < 0.4:
        number = {"path": random_path(chance, arrays=0), "missing": chance.choice(["keep", "reject"])}
        more["numeric"] = {"y": {**number, "integer": chance.random() < 0.5}}
    return attributes, more


def grown(value: Any, steps: list[Any], chance: random.Random) -> Any:
    """A value in which the steps of a path lead on, most often."""
    if not steps or chance.random() < 0.03:
        return chance.choice(SMALL if chance.random() < 0.3 else ["I10", "e119", "E11.9", "I110", "E03", 7, 0.25])
    step, rest = steps[0], steps[1:]
    if isinstance(step, Name):
        value = dict(value) if isinstance(value, dict) else {}
        return {**value, step.key: grown(value.get(step.key), rest, chance)}
    value = list(value) if isinstance(value, list) else [chance.choice(SMALL) for _ in range(chance.choice([0, 1, 2]))]
    where = step.position if isinstance(step, Index) else chance.randint(0, len(value))
    value += [{}] * (where + 1 - len(value))
    value[where] = grown(value[where], rest, chance)
    if isinstance(step, Where):
        wanted: Any = step.value if step.quoted or step.value == "x" else int(step.value)
        for key in reversed(step.field[1:]):
            wanted = {key: wanted}
        value = [one if isinstance(one, dict) else {} for one in value]
        value[where] = {**value[where], step.field[0]: wanted}
    return value


def test_any_plans(bench):
    """Plans of few names, so that their paths meet, and records that their paths lead through."""
    chance, done, taken = random.Random(11), 0, 0
    while done < 250:
        attributes, more = random_plan(chance)
        try:
            on_bench = bench(attributes, **more)
        except ConfigurationError:
            continue
        if not on_bench.masker.is_compiled:
            continue
        done += 1
        taken += differences(on_bench, [random_document(on_bench.plan, chance) for _ in range(12)])
    assert taken > 300


def random_document(plan: Any, chance: random.Random) -> bytes:
    policy = plan.fields
    read = [path for a in plan.attributes for path in a.written if path == a.path or chance.random() < 0.6]
    read += [number.path for number in plan.numeric]
    read += [path for path in (plan.noise_key, plan.alpha and plan.alpha.path) if path is not None]
    kept = [path for path in (*policy.keep, *policy.drop, *policy.pseudonymize) if chance.random() < 0.5]
    document: Any = {"a": 1} if chance.random() < 0.1 else {}
    for path in [*kept, *read]:
        document = grown(document, list(path.steps), chance)
    return written(document, chance).encode()


def differences(on_bench: Any, values: list[bytes]) -> int:
    """Fails when there are any; how many records the compiled reader took."""
    literal = RecordMasker(on_bench.plan, on_bench.mechanism, b"a secret of the tests", compiled=False)
    records = [InputRecord(i, value) for i, value in enumerate(values)]
    one, other = (m.mask("t", 1, records, statistics_version=3) for m in (on_bench.masker, literal))
    assert one.outcomes == other.outcomes
    assert as_plain(one.blocks) == as_plain(other.blocks)
    return len(on_bench.masker._reader._compiled.take(Inputs.of(records))[0].indices)


def all_damaged(text: bytes, chance: random.Random) -> list[bytes]:
    """A record torn at every byte, and with a byte changed at every place, whole and torn later on."""
    whole = [text[:end] for end in range(len(text) + 1)]
    changed = [text[:at] + bytes([chance.choice(JUNK)]) + text[at + 1 :] for at in range(len(text))]
    return [*whole, *changed, *(one[: chance.randint(1, len(one))] for one in changed)]


CHECKED = """
import random, sys
import checked_kernels
import conftest, test_compiled
for number, (name, (attributes, given)) in enumerate(test_compiled.PLANS.items()):
    on_bench = conftest.Bench(attributes, **given)
    both = on_bench.masker._reader._compiled, on_bench.masker._reader._literal
    text = test_compiled.orjson.dumps(test_compiled.GOOD[name])
    for value in test_compiled.all_damaged(text, random.Random(number))[number % 2 :: 2]:
        records = test_compiled.Inputs.of([test_compiled.InputRecord(1, value)])
        taken, left = both[0].take(records)
        if len(taken.indices):
            (literally,) = [both[1].take(records)]
            assert test_compiled.as_plain(taken.batch) == test_compiled.as_plain(literally.batch)
            masked = [on_bench.mechanism.mask_batch(one.batch, range(one.batch.size)) for one in (taken, literally)]
            assert taken.write(masked[0]) == literally.write(masked[1])
print("no index out of bounds")
"""


def test_kernels_never_reach_beyond_their_arrays():
    """Each record alone in its array, so that a step too far is one beyond the array."""
    here = Path(__file__).parent
    path = os.pathsep.join(map(str, (here, here.parent / "support", here.parent)))
    environment = {**os.environ, "PYTHONPATH": path, "NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run([sys.executable, "-c", CHECKED], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "no index out of bounds", done.stderr[-2000:]
