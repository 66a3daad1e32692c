"""Mechanisms that mask groups: the records of a call are one group, masked together or not at all."""

from __future__ import annotations

import pytest
from support.results import inputs, outcomes

from stream_masker.errors import ParameterError
from stream_masker.pipeline.masker import BLOCK_RECORDS, GroupTooSmallError, RecordMasker
from tests.pipeline.conftest import SECRET, GroupMechanism

CODE = {"a": {"path": "code"}}

EVENT = {"code": "I10", "n": 1}


def grouping(bench, noise_key=None):
    """A bench with a mechanism that needs groups of three units or more."""
    on_bench = bench(CODE, noise_key=noise_key)
    on_bench.mechanism = GroupMechanism(on_bench.mechanism)
    on_bench.masker = RecordMasker(on_bench.plan, on_bench.mechanism, SECRET)
    return on_bench


@pytest.fixture
def grouped(bench):
    return grouping(bench)


def hold(on_bench, *values):
    """Mask a group, or hold it if it is too small."""
    records = [on_bench.record(100 + i, value) for i, value in enumerate(values)]
    return on_bench.masker.mask("t", 0, inputs(records), statistics_version=1, hold=True)


def reasons(given):
    return [getattr(outcome, "reason", None) for outcome in given]


def test_any_number_of_records_is_one_group_that_headers_name_by_its_offsets(grouped):
    size = BLOCK_RECORDS + 7
    result = hold(grouped, *[EVENT] * (size - 1), None)
    assert grouped.mechanism.sizes == [size - 1]
    assert sum(block.original.records for block in result.blocks) == size - 1
    assert {dict(one.headers)["stream-masker-group"] for one in outcomes(result)} == {b"100-%d" % (99 + size)}


def test_a_group_that_is_too_small_is_held_or_rejected_and_its_tombstones_pass(grouped):
    values = [EVENT, None, b"x", EVENT]
    with pytest.raises(GroupTooSmallError) as raised:
        hold(grouped, *values)
    assert raised.value.lacking == 1
    found = grouped.mask(*values)
    assert reasons(found) == ["group_too_small", None, "not_json", "group_too_small"]
    assert found[1].value is None
    assert grouped.mechanism.sizes == []
    (block,) = grouped.result([grouped.record(k, EVENT) for k in range(2)]).blocks
    assert block.original.records == 0


@pytest.mark.parametrize("values", [[b"x", b"y"], [None], [None, b"x"], []])
def test_a_group_without_records_to_mask_is_never_held(grouped, values):
    assert len(outcomes(hold(grouped, *values))) == len(values)
    assert grouped.mechanism.sizes == []


def test_too_little_data_makes_a_group_too_small(grouped):
    grouped.mechanism.error = ParameterError("k is more than there are values")
    assert set(reasons(grouped.mask(*[EVENT] * 5))) == {"group_too_small"}
    with pytest.raises(GroupTooSmallError):
        hold(grouped, *[EVENT] * 5)


def test_a_mechanism_error_rejects_the_whole_group_without_retrying_records(grouped, caplog):
    grouped.mechanism.error = RuntimeError("E11.9")
    found = grouped.mask(*[EVENT] * 4, None, b"x")
    assert reasons(found) == ["internal_error"] * 4 + [None, "not_json"]
    assert grouped.mechanism.sizes == [4]
    assert "offsets 100 to 105 failed (RuntimeError)" in caplog.text
    assert "E11.9" not in caplog.text


@pytest.mark.parametrize(
    ("patients", "firsts"), [(["a", "b", "a", "c"], [0, 1, 0, 3]), ([7, "7", 8, 9.5], [0, 0, 2, 3])]
)
def test_groups_count_noise_keys(bench, patients, firsts):
    on_bench = grouping(bench, "patient.id")
    hold(on_bench, *({**EVENT, "patient": {"id": patient}} for patient in patients))
    ((batch, _),) = on_bench.mechanism.mechanism.seen
    units = batch.units.tolist()
    assert list(map(units.index, units)) == firsts


def test_a_group_of_few_noise_keys_is_too_small(bench):
    on_bench = grouping(bench, "patient")
    few = [*({**EVENT, "patient": "ab"[k % 2]} for k in range(10)), {"code": "no code", "patient": "c"}, None]
    with pytest.raises(GroupTooSmallError) as caught:
        hold(on_bench, *few)
    assert caught.value.lacking == 1
    assert reasons(on_bench.mask(*few)) == ["group_too_small"] * 10 + ["unknown_code", None]
