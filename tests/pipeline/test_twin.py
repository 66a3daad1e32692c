"""Any plan and any document: the codec does what its literal twin does, and writes nothing at an attribute's paths but
masks."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from support.plans import documents, plans

from stream_masker.errors import ConfigurationError
from stream_masker.pipeline.paths import selected
from tests.pipeline.twin import check_record


@settings(max_examples=4 * settings.default.max_examples)
@given(plan=plans(), data=st.data())
def test_the_codec_does_what_its_twin_does_and_writes_nothing_but_masks(bench, plan, data):
    """The second time all codes become the root, so that every other text at an attribute's path is a canary.

    Documents that are masked together become what each becomes alone.
    """
    attributes, more = plan
    values = list[bytes]()
    for tables in (None, {name: {} for name in attributes}):
        try:
            on_bench = bench(attributes, tables=tables, **more)
        except ConfigurationError:
            assume(condition=False)
        values = values or [orjson.dumps(data.draw(documents(on_bench.plan))) for _ in range(data.draw(SIZES))]
        alone = [check_record(on_bench, value) for value in values]
        together = on_bench.mask(*values)
        assert [one._replace(offset=0) for one in together] == [one._replace(offset=0) for one in alone]
    for outcome in together:
        if hasattr(outcome, "value"):
            check_masks(on_bench, orjson.loads(outcome.value))


SIZES = st.integers(1, 3)


def check_masks(on_bench: Any, masked: Any) -> None:
    for attribute in on_bench.plan.attributes:
        for place in attribute.places:
            for path in place.written:
                assert {*selected(masked, path.steps)} <= ({None, ""} if path == place.label else {None, "ROOT"})


ICD = "coding[?system=icd]"


@pytest.mark.parametrize("unlisted", ["keep", "drop"])
@pytest.mark.parametrize("missing", ["keep", "reject"])
@given(
    codes=st.lists(st.sampled_from([None, "", " ", "I10", "E11.9", "no code", 7, ["I10"], {"I10": "I10"}]), min_size=1)
)
@example(codes=[None, "I10"])
@example(codes=["", "I10"])
@example(codes=["I10", None, {"I10": "I10"}])
def test_all_codes_that_a_filter_selects_are_masked(bench, unlisted, missing, codes):
    given = {"path": f"{ICD}.code", "label": f"{ICD}.text", "missing": missing, "unknown": "suppress"}
    on_bench = bench({"a": given}, tables={"a": {}}, unlisted=unlisted)
    value = {"coding": [{"system": "icd", "code": code, "text": f"text of {code}"} for code in codes]}
    outcome = check_record(on_bench, orjson.dumps(value))
    if hasattr(outcome, "value"):
        check_masks(on_bench, orjson.loads(outcome.value))
        assert b"I10" not in outcome.value
        assert b"E11" not in outcome.value


def test_labels_and_copies_in_other_lists_belong_to_the_code_at_the_same_place(bench):
    given = {"path": "a[*].codes[*]", "label": "a[*].texts[*]", "copies": ["b[*].codes[*]"], "missing": "keep"}
    on_bench = bench({"x": given})
    value = {
        "a": [{"codes": ["I10", "E03"], "texts": ["x"]}, {"codes": ["E11.9"], "texts": ["y", "z"]}],
        "b": [{"codes": ["I10"]}, {"codes": ["E11.9", "surplus"]}, {"codes": ["surplus"]}],
    }
    check_record(on_bench, orjson.dumps(value))
    assert on_bench.mask_one(value) == {
        "a": [
            {"codes": ["E11.9", "E03"], "texts": ["Type 2 diabetes"]},
            {"codes": ["I11.0"], "texts": ["Hypertensive heart disease", None]},
        ],
        "b": [{"codes": ["E11.9"]}, {"codes": ["I11.0", None]}, {"codes": [None]}],
    }
