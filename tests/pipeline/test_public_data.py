"""What people's files and topics have: Debezium and Connect envelopes, and HL7 texts."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from stream_masker.pipeline.hl7v2 import Hl7Format, hl7_path
from stream_masker.pipeline.masker import RecordMasker
from stream_masker.pipeline.paths import Path, alternatives, compile_path, first_values
from stream_masker.pipeline.plan import Place
from stream_masker.pipeline.transforms import DateShift, Pseudonym, Pseudonyms
from tests.pipeline.conftest import SECRET

P = partial(Pseudonym().of_value, pseudonyms=Pseudonyms(SECRET))


def test_removed_and_generalized_codes_are_counted(bench):
    on_bench = bench({"a": {"path": "a", "unknown": "suppress"}, "b": {"path": "b[*]", "unknown": "ancestor"}})
    events = [{"a": "zz", "b": ["E11.99", "I10"]}, {"a": "I10", "b": ["E11.65", "E1199"]}]
    result = on_bench.result([on_bench.record(k, event) for k, event in enumerate(events)])
    assert result.tally == {("suppressed", "a"): 1, ("generalized", "b"): 2}
    assert not result.rejected


def envelope(before, after, *, connect=False):
    payload = {"before": before, "after": after, "op": "u", "source": {"table": "Jane"}}
    return {"schema": {"type": "struct"}, "payload": payload} if connect else payload


def row(code="I10"):
    return {"patient_id": "P-7", "code": code, "name": "Jane"}


@pytest.mark.parametrize("connect", [False, True], ids=["Debezium", "Connect"])
@pytest.mark.parametrize(("before", "after"), [(None, row()), (row("E03"), row()), (row(), None), (row(), row(None))])
def test_change_events_have_one_noise_key_and_one_code(bench, connect, before, after):
    at = "payload." if connect else ""
    on_bench = bench(
        {"code": {"path": f"{at}after.code", "also": [f"{at}before.code"]}},
        unlisted="drop",
        fields={"keep": [f"{at}op", "schema"], "pseudonymize": [f"{at}after.patient_id", f"{at}before.patient_id"]},
    )
    paths = list(map(compile_path, alternatives(f"{at}after.patient_id | {at}before.patient_id")))
    plan = replace(on_bench.plan, noise_key=Path("either", paths[0].steps, paths[1]))
    on_bench.masker = RecordMasker(plan, on_bench.mechanism, SECRET)
    masked = on_bench.mask_one(envelope(before, after, connect=connect))
    written = [side and {"patient_id": P("P-7"), "code": side["code"] and "E11.9"} for side in (before, after)]
    inner = {"before": written[0], "after": written[1], "op": "u"}
    assert masked == ({"schema": {"type": "struct"}, "payload": inner} if connect else inner)
    digests = {bytes(keys.digests[0]) for _, keys in on_bench.mechanism.seen}
    on_bench.mask_one(envelope(row(), row(), connect=connect))
    assert digests == {bytes(on_bench.mechanism.seen[-1][1].digests[0])}


def test_the_alternatives_of_a_key():
    assert alternatives("a.b|c[?x=1|2].d | ['e|f']") == ["a.b", "c[?x=1|2].d", "['e|f']"]
    first, second = map(compile_path, ("a.id", "b.id"))
    documents = [{"a": {"id": 1}, "b": {"id": 2}}, {"a": None, "b": {"id": 2}}, {"b": {"id": 2}}]
    assert first_values(documents, Path("a.id | b.id", first.steps, second)) == [1, 2, 2]


def test_two_dates_are_shifted_by_keys_that_differ_in_their_alternatives_alone(bench):
    first, second = map(compile_path, ("after.id", "before.id"))
    either = Path("after.id | before.id", first.steps, second)
    rules = {"one": DateShift(9, first), "other": DateShift(9, either)}
    made = bench({"code": {"path": "code"}}, transforms=rules)
    masked = made.mask_one({"code": "I10", "before": {"id": "P-7"}, "one": "2024-03-14", "other": "2024-03-14"})
    assert "one" not in masked, "the record has no key for it"
    assert masked["other"] not in ("2024-03-14", None)
    assert first != either


def test_a_text_beside_a_code_of_hl7_is_the_label_of_its_own_segment(bench):
    made = bench({"code": {"path": "code"}})
    code, label = hl7_path(compile_path("DG1.3.1")), hl7_path(compile_path("DG1.4"))
    attribute = replace(made.plan.attributes[0], places=(Place(code, label),))
    plan = replace(
        made.plan, attributes=(attribute,), fields=replace(made.plan.fields, unlisted="keep"), noise_key=None
    )
    made.masker = RecordMasker(plan, made.mechanism, SECRET, record_format=Hl7Format())
    head = "MSH|^~\\&|A|B|C|D|2024||ADT^A01|1|P|2.5\r"
    (outcome,) = made.mask((head + "DG1|1||I10\rDG1|2||E11.9|Type 2 diabetes\rDG1|3||E11.65|text\r").encode())
    assert outcome.value.decode().split("\r")[:3] == [
        "DG1|||E11.9",
        "DG1|||I11.0|Hypertensive heart disease",
        "DG1|||I10|Essential hypertension",
    ]
