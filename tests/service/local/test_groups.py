"""Groups of a file's records, and what becomes of those that are too small."""

from __future__ import annotations

import pytest

from stream_masker.pipeline.groups import GroupTooSmallError
from stream_masker.service.local.groups import mask_groups
from stream_masker.service.worker.micro_windows import MAX_GROWTH

LEAST = 3


def mask(records: list[int], hold: bool) -> tuple[str, list[int]]:
    """Odd numbers count; of less than three of them no group is made."""
    odd = sum(record % 2 for record in records)
    if odd >= LEAST:
        return "masked", records
    if hold:
        raise GroupTooSmallError(LEAST - odd)
    return "rejected", records


def groups(short: str, *parts: list[int]) -> list[tuple[str, list[int]]]:
    return list(mask_groups(parts, mask, short=short))


ENOUGH, FEW = [1, 3, 5, 7], [9]


@pytest.mark.parametrize("short", ["hold", "suppress", "merge"])
def test_groups_that_are_large_enough_are_masked_in_order(short):
    assert groups(short) == []
    assert groups(short, ENOUGH) == [("masked", ENOUGH)]
    assert groups(short, ENOUGH, ENOUGH, ENOUGH) == [("masked", ENOUGH)] * 3


def test_a_short_rest_is_rejected_or_merged_with_the_group_before():
    parts = (ENOUGH, ENOUGH, FEW)
    assert groups("suppress", *parts) == [("masked", ENOUGH), ("masked", ENOUGH), ("rejected", FEW)]
    assert groups("hold", *parts) == [("masked", ENOUGH), ("masked", ENOUGH), ("rejected", FEW)]
    assert groups("merge", *parts) == [("masked", ENOUGH), ("masked", ENOUGH + FEW)]


def test_a_group_with_too_few_that_count_takes_in_the_records_that_follow():
    poor = [2, 4, 6, 1]
    assert groups("hold", poor, ENOUGH, FEW) == [("masked", poor + ENOUGH), ("rejected", FEW)]
    assert groups("merge", poor, ENOUGH, FEW) == [("masked", poor + ENOUGH + FEW)]
    assert groups("suppress", poor, ENOUGH) == [("rejected", poor), ("masked", ENOUGH)]


@pytest.mark.parametrize("short", ["hold", "suppress", "merge"])
def test_nothing_to_merge_with_is_rejected(short):
    assert groups(short, FEW) == [("rejected", FEW)]


@pytest.mark.parametrize("short", ["hold", "merge"])
def test_records_are_not_held_for_ever(short):
    found = groups(short, *[[2, 4]] * MAX_GROWTH, ENOUGH)
    assert found == [("rejected", [2, 4] * MAX_GROWTH), ("masked", ENOUGH)]
