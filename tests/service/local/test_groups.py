"""Groups of a file's records, including groups that are too small."""

from __future__ import annotations

import pytest

from stream_masker.pipeline.runs import GroupTooSmallError
from stream_masker.service.local.groups import mask_groups
from stream_masker.service.worker.groups import MAX_GROWTH

LEAST = 3


def mask(records: list[int], hold: bool) -> tuple[str, list[int]]:
    """Mask a group with at least three odd numbers."""
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
def test_sufficient_groups_are_masked_in_order(short):
    assert groups(short) == []
    assert groups(short, ENOUGH) == [("masked", ENOUGH)]
    assert groups(short, ENOUGH, ENOUGH, ENOUGH) == [("masked", ENOUGH)] * 3


def test_short_last_group_is_rejected_or_merged():
    parts = (ENOUGH, ENOUGH, FEW)
    assert groups("suppress", *parts) == [("masked", ENOUGH), ("masked", ENOUGH), ("rejected", FEW)]
    assert groups("hold", *parts) == [("masked", ENOUGH), ("masked", ENOUGH), ("rejected", FEW)]
    assert groups("merge", *parts) == [("masked", ENOUGH), ("masked", ENOUGH + FEW)]


def test_short_group_is_merged_with_the_following_records():
    poor = [2, 4, 6, 1]
    assert groups("hold", poor, ENOUGH, FEW) == [("masked", poor + ENOUGH), ("rejected", FEW)]
    assert groups("merge", poor, ENOUGH, FEW) == [("masked", poor + ENOUGH + FEW)]
    assert groups("suppress", poor, ENOUGH) == [("rejected", poor), ("masked", ENOUGH)]


@pytest.mark.parametrize("short", ["hold", "suppress", "merge"])
def test_single_short_group_is_rejected(short):
    assert groups(short, FEW) == [("rejected", FEW)]


@pytest.mark.parametrize("short", ["hold", "merge"])
def test_short_groups_are_held_for_a_limited_time(short):
    found = groups(short, *[[2, 4]] * MAX_GROWTH, ENOUGH)
    assert found == [("rejected", [2, 4] * MAX_GROWTH), ("masked", ENOUGH)]
