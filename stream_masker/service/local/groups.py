"""Groups of a file's records: by count alone, for the end of a file waits for nobody."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from stream_masker.pipeline.groups import GroupTooSmallError
from stream_masker.pipeline.records import Result
from stream_masker.service.worker.micro_windows import MAX_GROWTH, ShortGroupPolicy

Records = list[tuple[int, bytes]]
"""Numbered lines."""

MaskGroup = Callable[[Records, bool], Result]
"""Masks records as one group; True: raises GroupTooSmallError where it is too small, False: rejects its records."""


def mask_groups(parts: Iterable[Records], mask: MaskGroup, *, short: ShortGroupPolicy) -> Iterator[Result]:
    """What becomes of consecutive records, group by group; ``parts``: as many of them as a group has, the last fewer.

    A group that is too small is joined with the records that follow (hold, merge), or rejected (suppress). At the end
    of the file it is rejected; with merge it is joined with the group before it.
    """
    if short == "suppress":
        return (mask(part, False) for part in parts)
    groups = _held(parts, mask)
    return _merged(groups, mask) if short == "merge" else (_settled(group, mask) for group in groups)


FileGroup = tuple[Records, Result | None]
"""Records, and what became of them; None: they are too small a group, which the last one alone can be."""


def _held(parts: Iterable[Records], mask: MaskGroup) -> Iterator[FileGroup]:
    """Groups as they become large enough."""
    records: Records = []
    tried = 0
    for part in parts:
        records, tried = [*records, *part], tried + 1
        result = _attempt(records, mask, may_hold=tried < MAX_GROWTH)
        if result is not None:
            yield records, result
            records, tried = [], 0
    if records:
        yield records, None


def _attempt(records: Records, mask: MaskGroup, *, may_hold: bool) -> Result | None:
    """What became of a group, or None if it is too small and may wait for more."""
    try:
        return mask(records, may_hold)
    except GroupTooSmallError:
        return None


def _settled(group: FileGroup, mask: MaskGroup) -> Result:
    records, result = group
    return mask(records, False) if result is None else result


def _merged(groups: Iterable[FileGroup], mask: MaskGroup) -> Iterator[Result]:
    """Each group once the next one is known to be large enough."""
    last: FileGroup | None = None
    for group in groups:
        if last is not None and group[1] is None:
            last = ([*last[0], *group[0]], None)
            break
        if last is not None:
            yield _settled(last, mask)
        last = group
    if last is not None:
        yield _settled(last, mask)
