"""Arbitrary input: one outcome per record, no exception, no value in a rejection or log, no effect on other records."""

from __future__ import annotations

import logging
import re

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.documents import places, put
from support.results import InputRecord, Refused, outcomes

from stream_masker.pipeline.records import Reason

GOOD = {
    "patient": {"id": "PATIENT-0001", "name": "Jane"},
    "alpha": 0.5,
    "d": {"principal": {"code": "I10", "text": "Essential hypertension"}, "secondary": [{"code": "E119"}]},
    "coding": [{"system": "icd", "code": "I11.0"}],
}
SECRETS = ["PATIENT-0001", "Jane", "Essential hypertension"]


@pytest.fixture(scope="module", params=["keep", "drop"])
def full(bench, request):
    """A masker that uses every option."""
    secondary = {"path": "d.secondary[*].code", "copies": ["again[*]"], "missing": "keep", "unknown": "suppress"}
    return bench(
        {
            "principal": {"path": "d.principal.code", "label": "d.principal.text", "copies": ["copy"]},
            "secondary": secondary,
            "coding": {"path": "coding[?system=icd].code", "unknown": "ancestor", "label": "display"},
        },
        unlisted=request.param,
        fields={"keep": ["alpha"], "drop": ["patient.name"], "pseudonymize": ["patient.id"]},
        message={"headers": ("alpha",)},
        noise_key="patient.id",
        record_bytes=5000,
    )


WORDS = st.sampled_from(
    ["I10", "E119", "x", "", "icd", "d", "principal", "secondary", "code", "text", "patient", "id", "coding", "system"]
)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | WORDS
    | st.text(max_size=5)
)
JSON = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=4), max_leaves=12
)

SPOILED = st.builds(put, st.just(GOOD), st.sampled_from(list(places(GOOD))), JSON)
CUT_OFF = st.builds(lambda cut, junk: orjson.dumps(GOOD)[:cut] + junk, st.integers(0, 120), st.binary(max_size=8))
VALUES = st.none() | st.binary(max_size=40) | CUT_OFF | (SPOILED | JSON).map(orjson.dumps)


@given(values=st.lists(VALUES, max_size=4), key=st.none() | st.binary(max_size=9))
def test_each_record_has_one_outcome(full, values, key):
    between = [b for value in values for b in (value, orjson.dumps(GOOD))]
    records = [InputRecord(i, value, key, [("alpha", None)]) for i, value in enumerate(between)]
    found = outcomes(full.result(records))
    assert [outcome.offset for outcome in found] == list(range(len(records)))
    for record, outcome in zip(records, found, strict=True):
        check(record, outcome)
    good = [outcome.value for outcome in found[1::2]]
    assert good == [outcomes(full.result([InputRecord(1, orjson.dumps(GOOD))]))[0].value] * len(good)


def check(record, outcome):
    if isinstance(outcome, Refused):
        assert outcome.reason in set(Reason) - {"internal_error"}
        assert outcome.field is None or re.split(r"[.\[]", outcome.field)[0] in {*GOOD, "display", "copy", "again"}
    elif record.value is None:
        assert outcome.value is None
    else:
        check_masked(orjson.loads(record.value), orjson.loads(outcome.value))


def check_masked(before, after):
    assert after["d"]["principal"]["code"] != before["d"]["principal"]["code"]
    assert "Jane" not in str(after)
    assert "PATIENT-0001" not in str(after)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda text: text[:-1],
        lambda text: text.replace("I10", "I10-PATIENT-0001"),
        lambda text: text.replace('"I10"', '["PATIENT-0001"]'),
        lambda text: text.replace('"code"', '"kode"'),
        lambda text: text.replace('"PATIENT-0001"', "{}"),
        lambda text: text.replace("Jane", "Jane" * 2000),
        lambda text: text.replace('"Jane"', "[" * 3000),
        lambda text: "[" + text + "]",
        lambda text: text.replace('"Jane"', "9" * 40),
        lambda text: text.replace('[{"system"', '["Jane",{"system"'),
    ],
)
def test_rejections_and_logs_hold_no_value(full, caplog, spoil):
    with caplog.at_level(logging.DEBUG):
        (outcome,) = full.mask(spoil(orjson.dumps(GOOD).decode()).encode(), key=b"PATIENT-0001")
    assert isinstance(outcome, Refused)
    assert not any(secret in f"{outcome!r} {caplog.text}" for secret in (*SECRETS, "I10"))
