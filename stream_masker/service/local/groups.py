"""Groups of a file's records: by count only, because a file has no delays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from stream_masker.pipeline.records import Result
from stream_masker.pipeline.runs import GroupTooSmallError
from stream_masker.service.worker.groups import MAX_GROWTH, ShortGroupPolicy

NumberedRecords = list[tuple[int, bytes]]
"""Lines with their numbers."""

MaskGroup = Callable[[NumberedRecords, bool], Result]
"""Masks records as one group. If the group is too small: True raises GroupTooSmallError, False rejects its records."""


def mask_groups(batches: Iterable[NumberedRecords], mask: MaskGroup, *, short: ShortGroupPolicy) -> Iterator[Result]:
    """Yield the results of consecutive groups. ``batches``: the records split by group size; the last may be smaller.

    A group that is too small is merged with the following records (hold, merge) or rejected (suppress). At the end of
    the file it is rejected (hold) or merged with the previous group (merge).
    """
    if short == "suppress":
        return (mask(batch, False) for batch in batches)
    groups = _sufficient_groups(batches, mask)
    return _merged_groups(groups, mask) if short == "merge" else (_final_result(group, mask) for group in groups)


FileGroup = tuple[NumberedRecords, Result | None]
"""Records and their result; None for a group that is too small, which only the last group can be."""


def _sufficient_groups(batches: Iterable[NumberedRecords], mask: MaskGroup) -> Iterator[FileGroup]:
    """Yield groups as they become large enough."""
    records: NumberedRecords = []
    attempts = 0
    for batch in batches:
        records, attempts = [*records, *batch], attempts + 1
        result = _attempt(records, mask, may_hold=attempts < MAX_GROWTH)
        if result is not None:
            yield records, result
            records, attempts = [], 0
    if records:
        yield records, None


def _attempt(records: NumberedRecords, mask: MaskGroup, *, may_hold: bool) -> Result | None:
    """Return the result of a group; None if it is too small and may wait for more records."""
    try:
        return mask(records, may_hold)
    except GroupTooSmallError:
        return None


def _final_result(group: FileGroup, mask: MaskGroup) -> Result:
    records, result = group
    return mask(records, False) if result is None else result


def _merged_groups(groups: Iterable[FileGroup], mask: MaskGroup) -> Iterator[Result]:
    """Yield each group's result once the next group is known to be large enough."""
    last: FileGroup | None = None
    for group in groups:
        if last is not None and group[1] is None:
            last = ([*last[0], *group[0]], None)
            break
        if last is not None:
            yield _final_result(last, mask)
        last = group
    if last is not None:
        yield _final_result(last, mask)
