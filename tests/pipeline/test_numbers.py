"""Numeric attributes in records: extraction, masking, rendering and rejections."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import orjson
import pytest

from stream_masker.core.numeric import Numeric
from stream_masker.core.statistics.counts import merge
from stream_masker.errors import ConfigurationError, ParameterError
from stream_masker.pipeline import blocks as cutting
from stream_masker.pipeline.blocks import BLOCK_RECORDS
from stream_masker.pipeline.masker import RecordMasker
from stream_masker.pipeline.paths import compile_path
from stream_masker.pipeline.plan import NumericPlan
from stream_masker.pipeline.records import InputRecord

CODE = {"a": {"path": "code"}}
AGE = {"age": {"path": "patient.age", "minimum": 0, "maximum": 120, "integer": True}}
BOTH = {**AGE, "charge": {"path": "charge", "missing": "keep"}}


def event(age, **more):
    return {"code": "I10", "patient": {"age": age, "id": 7}, **more}


def test_numbers_are_masked_in_place_and_integers_stay_integers(bench):
    masked = bench(CODE, numeric=BOTH).mask_one(event(41, charge=12.5))
    assert masked == {"code": "E11.9", "patient": {"age": 42, "id": 7}, "charge": 13.5}
    assert type(masked["patient"]["age"]) is int


def test_integers_may_be_written_with_a_decimal_point(bench):
    on_bench = bench(CODE, numeric=AGE)
    assert on_bench.mask_one(event(41.0))["patient"]["age"] == 42
    (outcome,) = on_bench.mask(event(41.0))
    assert b'"age":42,' in outcome.value


@pytest.mark.parametrize("wrong", ["41", "", True, False, None, [41], {"years": 41}])
def test_rejects_a_value_that_is_not_a_number(bench, wrong):
    assert bench(CODE, numeric=AGE).mask_one(event(wrong)) == ("not_a_number", "patient.age")


@pytest.mark.parametrize("beyond", [-1, 121, 40.5, 1e300, 2**60, -(2**63)])
def test_rejects_a_number_outside_the_attributes_range(bench, beyond):
    assert bench(CODE, numeric=AGE).mask_one(event(beyond)) == ("number_out_of_range", "patient.age")


@pytest.mark.parametrize("beyond", [1e300, 2**53 + 2, -(2**60)])
def test_without_bounds_the_range_ends_where_floats_skip_integers(bench, beyond):
    on_bench = bench(CODE, numeric={"n": {"path": "n"}})
    assert on_bench.mask_one({"code": "I10", "n": beyond}) == ("number_out_of_range", "n")
    assert on_bench.mask_one({"code": "I10", "n": 2**52})["n"] == 2**52 + 1


def test_a_missing_number_is_rejected_or_stays_missing_by_policy(bench):
    assert bench(CODE, numeric=AGE).mask_one({"code": "I10"}) == ("missing", "patient.age")
    assert bench(CODE, numeric=AGE).mask_one({"code": "I10", "patient": None}) == ("missing", "patient.age")
    assert bench(CODE, numeric=AGE).mask_one({"code": "I10", "patient": 3}) == ("wrong_shape", "patient.age")
    on_bench = bench(CODE, numeric=BOTH)
    assert on_bench.mask_one(event(41)) == {"code": "E11.9", "patient": {"age": 42, "id": 7}}
    assert on_bench.mask_one(event(41, charge=None))["charge"] is None


def test_all_matches_of_a_filter_get_the_number_of_the_first(bench):
    on_bench = bench(CODE, numeric={"n": {"path": "vitals[?kind=weight].value"}})
    vitals = [{"kind": "height", "value": 180}, {"kind": "weight", "value": 80}, {"kind": "weight", "value": 81}]
    masked = on_bench.mask_one({"code": "I10", "vitals": vitals})["vitals"]
    assert [vital["value"] for vital in masked] == [180, 81, 81]


def test_numbers_are_kept_when_unlisted_fields_are_dropped(bench):
    assert bench(CODE, numeric=BOTH, unlisted="drop").mask_one(event(41, charge=2, x=1)) == {
        "code": "E11.9",
        "patient": {"age": 42},
        "charge": 3,
    }


def test_rejected_records_do_not_change_the_numbers_of_others(bench):
    on_bench = bench({"a": {"path": "code"}, "b": {"path": "codes[*]"}}, numeric=BOTH)
    values = [event(i, charge=i / 2, codes=["I10"] * (i % 3)) for i in range(20)]
    values[3]["patient"]["age"], values[7]["charge"], values[11]["code"] = "x", "y", "nothing"
    outcomes = on_bench.mask(*values)
    reasons = {i: outcome.reason for i, outcome in enumerate(outcomes) if hasattr(outcome, "reason")}
    assert reasons == {3: "not_a_number", 7: "not_a_number", 11: "unknown_code"}
    for i, outcome in enumerate(outcomes):
        if i not in reasons:
            masked = orjson.loads(outcome.value)
            assert (masked["patient"]["age"], masked["charge"]) == (i + 1, i / 2 + 1)
            assert masked["codes"] == ["E11.9"] * (i % 3)


def test_blocks_hold_the_moments_of_original_and_masked_numbers(bench):
    on_bench = bench(CODE, numeric=BOTH)
    (block,) = on_bench.result([InputRecord(i, orjson.dumps(event(i, charge=2 * i))) for i in range(5)]).blocks
    assert block.original.numeric.mean.tolist() == [[2, 2], [4, 4]]
    assert block.masked.numeric.mean.tolist() == [[3, 3], [5, 5]]
    assert block.original.numeric.covariance.tolist() == [[2, 4], [4, 8]]


def test_split_blocks_hold_the_moments_of_their_own_records(bench, monkeypatch):
    monkeypatch.setattr(cutting, "MAX_BLOCK_ROWS", 2)
    on_bench = bench(CODE, numeric=AGE)
    records = [InputRecord(i, orjson.dumps(event(i))) for i in range(50)]
    blocks = on_bench.result(records).blocks
    assert len(blocks) > 5
    first = range(blocks[0].first_offset, blocks[0].last_offset + 1)
    assert blocks[0].original.numeric.mean[0, 0] == pytest.approx(np.mean(first))
    assert merge(block.masked for block in blocks).numeric.mean[0, 0] == pytest.approx(25.5)


def test_a_sample_also_counts_numbers(bench):
    sample = bench(CODE, numeric=BOTH).masker.count([orjson.dumps(event(i)) for i in range(BLOCK_RECORDS + 1)][:100])
    assert sample.counts.numeric.count.tolist() == [[100, 0], [0, 0]]
    assert bench(CODE, numeric=AGE).masker.count([]).counts.numeric.count.tolist() == [[0]]


def test_a_batch_without_records_to_mask_has_a_block(bench):
    (block,) = bench(CODE, numeric=AGE).result([InputRecord(0, b"x")]).blocks
    assert (block.rejected, block.original.numeric.count.tolist()) == ({"not_json": 1}, [[0]])


class WrongNumbersMechanism:
    """Masks codes correctly; ``numbers`` computes its masked numbers."""

    name, attributes, numeric_attributes, needs_group = "wrong_numbers", ("a",), ("age",), False

    def __init__(self, mechanism, numbers):
        self.mechanism, self.numbers = mechanism, numbers

    def mask_batch(self, batch, keys):
        return replace(self.mechanism.mask_batch(batch, keys), numeric=self.numbers(batch.numeric))


@pytest.mark.parametrize(
    "numbers",
    [lambda n: None, lambda n: n * np.nan, lambda n: n + 0.5, lambda n: n + 1_000, lambda n: n[:, :0], lambda n: n[1:]],
)
def test_records_with_wrongly_masked_numbers_are_rejected(bench, numbers):
    on_bench = bench(CODE, numeric=AGE)
    on_bench.masker = RecordMasker(on_bench.plan, WrongNumbersMechanism(on_bench.mechanism, numbers), b"secret")
    assert on_bench.mask_one(event(41)) == ("internal_error", None)


def test_plan_and_mechanism_must_agree(bench):
    on_bench = bench(CODE, numeric=AGE)
    on_bench.mechanism.numeric_attributes = ("weight",)
    with pytest.raises(ParameterError, match=r"numeric attributes are .*age.*weight"):
        RecordMasker(on_bench.plan, on_bench.mechanism, b"secret")


@pytest.mark.parametrize(("path", "problem"), [("ages[*]", "has a"), ("ages[?kind=x]", "ends with a filter")])
def test_rejects_paths_that_may_select_several_numbers(path, problem):
    with pytest.raises(ConfigurationError, match=problem):
        NumericPlan(name="age", path=compile_path(path), kind=Numeric())


def test_rejects_overlapping_paths_of_numbers_and_codes(bench):
    with pytest.raises(ConfigurationError, match="can select the same value"):
        bench(CODE, numeric={"n": {"path": "code"}})
    with pytest.raises(ConfigurationError, match="belongs to an attribute"):
        bench(CODE, numeric=AGE, fields={"drop": ["patient.age"]})
