"""The reader of structs does what the reader of dictionaries does, and leaves to it what is unusual."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.documents import encoded, places, put

from stream_masker.pipeline import codec
from stream_masker.pipeline.formats import LONG
from stream_masker.pipeline.structs import struct_reader, usual
from stream_masker.pipeline.transforms import Constant, NumberBands
from stream_masker.pipeline.walk import Branch
from stream_masker.service.configuration import load_configuration
from stream_masker.service.masking import Masking
from tests.pipeline.test_json_test_suite import CASES
from tests.pipeline.test_twin import check_masks

NESTED = Path(__file__).parents[2] / "examples" / "nested"
EVENT: dict[str, Any] = {
    "id": 17,
    "patient": {"ids": [{"value": "p-1"}], "name": "Jane", "tags": ["a", 7], "age": 47},
    "main": {"code": "I10", "text": "Hypertension", "billed": "I10", "more": {"note": "kept", "x": 1.5}},
    "other": [{"code": "E11.9", "text": "Diabetes", "rank": 1}, {"code": "E03"}],
    "codes": [["I10"], ["E119", "I11.0"]],
    "skipped": {"text": "é\n", "list": [{"k": [1, -2.5e3, "1e999"]}]},
}
SCALAR = {"path": "main.code", "label": "main.text", "copies": ["main.billed"]}
KEPT = ["id", "main.more.note", "other[*].rank"]
MANY = [
    ("keep", "suppress", None),
    ("reject", "ancestor", "patient.ids[0].value"),
    ("reject", "reject", "main.more.note"),
]
PLANS: list[dict[str, Any]] = [
    {
        "attributes": {
            "a": SCALAR | {"missing": missing, "unknown": unknown},
            "b": {"path": "other[*].code", "label": "other[*].text", "missing": missing, "unknown": unknown},
            "c": {"path": "codes[*][*]", "missing": missing, "unknown": unknown},
        },
        "unlisted": "drop",
        "fields": {"keep": KEPT, "pseudonymize": ["patient.tags[*]"], "drop": ["main.more"]},
        "transforms": {"patient.age": NumberBands(5), "main.more.x": Constant("c")},
        "noise_key": noise_key,
        "record_bytes": 1000,
    }
    for missing, unknown, noise_key in MANY
]
SCALARS = st.sampled_from([None, True, 7, -0.0, 1e300, 2**63, "I10", "e119", "no code", "", " ", 'é"\\', "x" * 400])
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner))
EVENTS = st.just(EVENT) | st.builds(put, st.just(EVENT), st.sampled_from(list(places(EVENT))), VALUES)
TOKENS = (
    b'1e999 -1E+0400 1e-999 -0 01 1. NaN null , 18446744073709551615 18446744073709551616 "\xff" "\xed\xa0\x80" "\x00"'
    b' "\\x" "\\ud800" "\\ud83d\\ude00" "I10","code":"E03" {"code":1},"main":{"code":"E03"} \xef\xbb\xbf'
).split()
LONG_TOKENS = [b"0." + b"1" * 40, b"[" * 70 + b"]" * 70, b"[" * 2000]


@st.composite
def texts(draw: st.DrawFn) -> bytes:
    """A record that is more or less JSON: some of its bytes may be replaced by a token, or by any bytes."""
    text = draw(encoded(draw(EVENTS)))
    for _ in range(draw(st.integers(0, 2))):
        at = draw(
            st.integers(0, len(text)) | st.sampled_from([k for k, byte in enumerate(text) if byte in b":[,"] or [0])
        )
        new = draw(st.sampled_from(TOKENS + LONG_TOKENS) | st.binary(max_size=3))
        text = text[: at + 1] + new + text[at + 1 + draw(st.integers(0, 4)) :]
    return text


@pytest.fixture(scope="module", params=range(len(PLANS)))
def benches(bench: Any, request: pytest.FixtureRequest) -> list[Any]:
    """Two benches of a plan: with and without a reader of structs. All codes become the root."""
    plan = PLANS[request.param] | {"tables": {name: {} for name in "abc"}}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(codec, "struct_reader", lambda *_: None)
        without = bench(**plan)
    return [bench(**plan), without]


def check_equal(benches: list[Any], values: list[bytes]) -> None:
    """Assert that both masked, rejected and counted the same."""
    one, other = (each.result([each.record(k, value) for k, value in enumerate(values)]) for each in benches)
    assert one.rejected == other.rejected
    assert (one.tally, repr(one.blocks)) == (other.tally, repr(other.blocks))
    for number in set(range(len(values))) - one.rejected.keys():
        assert read(one.values[number]) == read(other.values[number])
        check_masks(benches[0], orjson.loads(one.values[number]))


def test_no_byte_tells_which_reader_read_a_record(benches):
    """It depends on what is dropped, too."""
    values = [orjson.dumps(EVENT | {"id": 1e20, "skipped": text}) for text in ("short", "1" * LONG)]
    result = benches[0].result([benches[0].record(k, value) for k, value in enumerate(values)])
    assert result.values[0] == result.values[1] is not None


@pytest.mark.parametrize("text", [b"0", b"1e", b"1e1000,", b"{"])
def test_hostile_texts_take_bounded_memory(text):
    texts = [text * ((1 << 19) // len(text))] * 4
    tracemalloc.start()
    usual(texts, 1 << 20)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 30 * sum(map(len, texts))


def read(text: bytes) -> Any:
    """A value that tells integers from floats, and 0 from -0."""
    return json.loads(
        text, parse_int=lambda digits: ("int", int(digits)), parse_float=lambda digits: repr(float(digits))
    )


@settings(max_examples=3 * settings.default.max_examples)
@given(values=st.lists(texts(), min_size=1, max_size=4))
def test_both_readers_do_the_same(benches, values):
    check_equal(benches, values)


@pytest.mark.parametrize("place", ["id", "main", "skipped", "unlisted"])
def test_both_readers_accept_the_same_json(benches, place):
    event = orjson.dumps(EVENT)[:-1] + b',"%b":' % place.encode()
    check_equal(benches, [*CASES.values(), *(event + case + b"}" for case in CASES.values())])


def test_the_plans_and_the_example_are_read_as_structs(benches):
    configuration = load_configuration(NESTED / "stream-masker.yaml", {})
    lines = gzip.decompress((NESTED / "events.jsonl.gz").read_bytes()).splitlines()
    for plan, texts in [
        (benches[0].plan, [orjson.dumps(EVENT)] * 3),
        (Masking(configuration, is_trial=True).plan, lines),
    ]:
        reader = struct_reader(plan, Branch.of(plan))
        assert reader is not None
        odd = texts[1].replace(b"{", b'{"x":1e999,', 1)
        assert [record is None for record in reader([texts[0], odd, *texts[2:]])] == [k == 1 for k in range(len(texts))]


@pytest.mark.parametrize("kept", ["main", "other[0]", "other[?a=b].c", "main[*].x", '["a\\"b"]', None])
def test_plans_that_read_more_are_not_read_as_structs(bench, kept):
    """None stands for ``unlisted: keep``."""
    plan = bench({"a": SCALAR}, unlisted="drop", fields={"keep": [kept]}).plan if kept else bench({"a": SCALAR}).plan
    assert struct_reader(plan, Branch.of(plan)) is None


@pytest.mark.parametrize("shift", range(9))
def test_texts_are_usual_within_the_bounds(shift):
    good = [b"", b"1" * 18, b"1e99,", b'"0e1234"', b"1e-999,", b"[" * 64, b"{[" * 32, b"x" * 100, "é".encode()]
    bad = [b"1" * 19, b"1e999,", b"1E+0400]", b"1.5e400\n", b"[" * 65, b"{[" * 33, b"x" * 111, b"\xc3", b"\xed\xa0\x80"]
    texts = [b" " * shift + text for pair in zip(good, bad, strict=True) for text in pair]
    assert usual(texts, 110).tolist() == [usual([text], 110).item() for text in texts] == [True, False] * len(good)
