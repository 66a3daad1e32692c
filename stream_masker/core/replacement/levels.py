"""Levels: the distances at which candidates lie around a value, from each of its ancestors outwards.

All is told by two integers: the depth of a least common subsumer, and the links from both concepts up to it. More
links are always farther (``level_of`` ascends in them).
"""

from __future__ import annotations

import numpy as np

from stream_masker.core.distance.kernels import WU_PALMER, log_taxonomic, wu_palmer
from stream_masker.core.kernels.jit import inlined, int64

MANY_LEVEL_LINKS = 1e9

NONE_ADMISSIBLE = -1
"""Instead of a replacement's flags: there is no admissible candidate."""


@inlined
def wu_palmer_level(depth: int, links: int) -> float:
    """The distance of two concepts so many links in all from their subsumer at a depth (2017: equations 11, 12)."""
    return wu_palmer(int64(depth), int64(links))


@inlined
def level_of(kind: int, depth: int, links: int) -> float:
    """As ``wu_palmer_level``, of any distance in a tree."""
    return wu_palmer(depth, links) if kind == WU_PALMER else log_taxonomic(links + depth, depth)


@inlined
def is_beyond(sign: int, distance: float, own: float) -> bool:
    """The sign condition; sign is not 0: a candidate ``distance`` from the reference, where the value is ``own``."""
    return distance > own if sign > 0 else distance < own


@inlined
def takes_upper(chance: float, lo: float, hi: float, target: float) -> bool:
    """Whether the calibrated choice between the levels next to a target is the upper one: with p as in ``candidates``,
    of which chance is uniform in [0, 1)."""
    return chance * (hi * hi - lo * lo) < target * target - lo * lo


@inlined
def passes(sign: int, depth: int, links: int, own: tuple[int, int]) -> bool:
    """The sign condition by Wu-Palmer, in whole numbers; sign is not 0: of a candidate so many links from the reference
    over a subsumer at that depth. own: (depth, links) between the value and the reference."""
    return links * own[0] > own[1] * depth if sign > 0 else links * own[0] < own[1] * depth


@inlined
def slope(kind: int, target: float) -> float:
    """About how many links, for each unit of depth, make a distance of ``target``."""
    if target >= 1.0:
        return np.inf
    return 2.0 * target / (1.0 - target) if kind == WU_PALMER else (2.0**target - 1.0) / (2.0 - 2.0**target)


@inlined
def first_links(kind: int, depth: int, target: float, ratio: float, beyond: bool) -> int:
    """The fewest links at a distance of at least ``target`` (``beyond``: of more) from a subsumer at that depth.

    ratio: ``slope`` of the target.
    """
    links = int64(min(depth * ratio, MANY_LEVEL_LINKS)) + 1
    while links > 0 and level_of(kind, depth, links - 1) >= target:
        links -= 1
    while level_of(kind, depth, links) < target and links < MANY_LEVEL_LINKS:
        links += 1
    if beyond and level_of(kind, depth, links) == target:
        links += 1
    return links
