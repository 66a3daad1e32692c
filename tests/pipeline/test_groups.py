"""Mechanisms that mask groups: the records of a call are one group, masked together or not at all."""

from __future__ import annotations

from dataclasses import replace

import orjson
import pytest

from stream_masker.errors import ParameterError
from stream_masker.pipeline.blocks import BLOCK_RECORDS
from stream_masker.pipeline.masker import GroupTooSmallError, RecordMasker
from stream_masker.pipeline.paths import compile_path
from stream_masker.pipeline.records import InputRecord
from tests.pipeline.conftest import GroupMechanism

CODE = {"a": {"path": "code"}}


@pytest.fixture
def grouped(bench):
    """A bench with a mechanism that needs groups of three records or more."""
    on_bench = bench(CODE)
    on_bench.mechanism = GroupMechanism(on_bench.mechanism)
    on_bench.masker = RecordMasker(on_bench.plan, on_bench.mechanism, b"secret")
    return on_bench


def records(*values):
    return [
        InputRecord(100 + i, v if v is None or isinstance(v, bytes) else orjson.dumps(v)) for i, v in enumerate(values)
    ]


def event(code="I10", n=1):
    return {"code": code, "n": n}


def test_any_number_of_records_is_one_group(grouped):
    result = grouped.result(records(*[event(n=i) for i in range(BLOCK_RECORDS + 7)]))
    assert grouped.mechanism.sizes == [BLOCK_RECORDS + 7]
    assert len(result.outcomes) == BLOCK_RECORDS + 7
    assert sum(block.original.records for block in result.blocks) == BLOCK_RECORDS + 7


def test_headers_name_the_group_by_its_offsets(grouped):
    for outcome in grouped.mask(*[event()] * 4, None):
        assert dict(outcome.headers)["stream-masker-group"] == b"100-104"


def test_a_group_that_is_too_small_is_rejected_and_its_tombstones_pass(grouped):
    outcomes = grouped.mask(event(), None, b"x", event())
    assert [getattr(o, "reason", None) for o in outcomes] == [
        "group_too_small",
        None,
        "not_json",
        "group_too_small",
    ]
    assert outcomes[1].value is None
    assert grouped.mechanism.sizes == []
    (block,) = grouped.result(records(event(), event())).blocks
    assert (block.original.records, block.rejected) == (0, {"group_too_small": 2})


def test_a_group_that_is_too_small_is_held_if_requested(grouped):
    with pytest.raises(GroupTooSmallError) as raised:
        grouped.masker.mask("t", 0, records(event(), b"x", None), statistics_version=1, hold=True)
    assert raised.value.lacking == 2
    done = grouped.masker.mask("t", 0, records(*[event()] * 3), statistics_version=1, hold=True)
    assert not done.rejected


@pytest.mark.parametrize("values", [[b"x", b"y"], [None], [None, b"x"], []])
def test_a_group_without_records_to_mask_is_never_held(grouped, values):
    result = grouped.masker.mask("t", 0, records(*values), statistics_version=1, hold=True)
    assert len(result.outcomes) == len(values)
    assert grouped.mechanism.sizes == []


def test_too_little_data_makes_a_group_too_small(grouped):
    grouped.mechanism.error = ParameterError("k is more than there are values")
    assert {outcome.reason for outcome in grouped.mask(*[event()] * 5)} == {"group_too_small"}
    with pytest.raises(GroupTooSmallError):
        grouped.masker.mask("t", 0, records(*[event()] * 5), statistics_version=1, hold=True)


def test_a_mechanism_error_rejects_the_whole_group_without_retrying_records(grouped, caplog):
    grouped.mechanism.error = RuntimeError("E11.9")
    outcomes = grouped.mask(*[event()] * 4, None, b"x")
    assert [getattr(o, "reason", None) for o in outcomes] == ["internal_error"] * 4 + [None, "not_json"]
    assert grouped.mechanism.sizes == [4]
    assert "offsets 100 to 105 failed (RuntimeError)" in caplog.text
    assert "E11.9" not in caplog.text


@pytest.fixture
def by_patient(bench):
    """A bench whose groups need records of three different patients."""
    on_bench = bench(CODE)
    on_bench.mechanism = GroupMechanism(on_bench.mechanism)
    plan = replace(on_bench.plan, unit=compile_path("patient.id"))
    on_bench.masker = RecordMasker(plan, on_bench.mechanism, b"secret")
    return on_bench


@pytest.mark.parametrize(
    ("patients", "units"),
    [
        (["a", "b", "a", "c"], [0, 1, 0, 2]),
        ([7, "7", 8, 9.5], [0, 0, 1, 2]),
        ([None, "a", "b", ""], [0, 1, 2, 0]),
        ([{}, "a", "b", True], [0, 1, 2, 0]),
    ],
)
def test_groups_count_units(by_patient, patients, units):
    by_patient.result(records(*({**event(), "patient": {"id": patient}} for patient in patients)))
    ((batch, _),) = by_patient.mechanism.mechanism.seen
    assert batch.units.tolist() == units


def test_a_group_of_few_units_is_too_small(by_patient):
    few = records(*({**event(), "patient": {"id": "ab"[k % 2]}} for k in range(10)), event(code="no code"), None)
    with pytest.raises(GroupTooSmallError) as caught:
        by_patient.masker.mask("t", 0, few, statistics_version=1, hold=True)
    assert caught.value.lacking == 1
    outcomes = by_patient.result(few).outcomes
    assert [getattr(o, "reason", None) for o in outcomes] == ["group_too_small"] * 10 + ["unknown_code", None]
