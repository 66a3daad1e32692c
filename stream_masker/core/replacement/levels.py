"""Distances as levels: the distances at which candidates lie around a value, outwards from each of its ancestors.

In a tree, and with the Wu-Palmer distance in a directed acyclic graph, two integers determine a distance: the depth of
the least common subsumer, and the links of the two paths up to it. At one depth, more links are always farther.
"""

from __future__ import annotations

from typing import NamedTuple

from stream_masker.core.distance.kernels import WU_PALMER, log_taxonomic, wu_palmer
from stream_masker.core.kernels.jit import inlined, int64


class Separation(NamedTuple):
    """The depth of the least common subsumer of two concepts, and the links from both up to it, in sum."""

    depth: int
    links: int


@inlined
def wu_palmer_level(depth: int, links: int) -> float:
    """Return the Wu-Palmer distance of two concepts (2017: equations 11, 12), by their ``Separation``."""
    return wu_palmer(int64(depth), int64(links))


@inlined
def level_of(kind: int, depth: int, links: int) -> float:
    """Return the distance of two concepts of a tree, by their ``Separation``. kind: of ``core.distance.kernels``."""
    return wu_palmer(depth, links) if kind == WU_PALMER else log_taxonomic(links + depth, depth)


@inlined
def is_beyond(sign: int, distance: float, own_distance: float) -> bool:
    """Return whether a candidate at a distance from the reference meets the sign condition; sign is not 0.

    own_distance: the distance of the value from the reference.
    """
    return distance > own_distance if sign > 0 else distance < own_distance


@inlined
def meets_sign(sign: int, separation: Separation, own_distance: Separation) -> bool:
    """Return ``is_beyond`` for the Wu-Palmer distance, in integers: distances are compared by links / depth."""
    candidate, own = separation.links * own_distance.depth, own_distance.links * separation.depth
    return candidate > own if sign > 0 else candidate < own


@inlined
def takes_upper(chance: float, lo: float, hi: float, target: float) -> bool:
    """Return whether the calibrated rounding takes the upper of the levels lo < target ≤ hi.

    chance: uniform in [0, 1). The result is true with probability p of ``core.replacement.rule``; false if hi is inf.
    """
    return chance * (hi * hi - lo * lo) < target * target - lo * lo
