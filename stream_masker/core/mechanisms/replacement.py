"""Choosing replacements (2017: algorithms 1 to 3); the rule itself is written out in ``candidates``."""

from __future__ import annotations

from stream_masker.core.distance import DISTANCES, Distance
from stream_masker.core.mechanisms.candidates import ROUNDINGS, Replacer, require_one_of
from stream_masker.core.mechanisms.level_replacement import LevelReplacer
from stream_masker.core.mechanisms.tree_replacement import TreeReplacer


def replacer(distance: Distance, *, rounding: str = "calibrated", candidates: str = "all") -> Replacer:
    """The fastest ``Replacer`` for the distance's taxonomy.

    ``rounding``: calibrated or ceil; ``candidates``: all or leaves. Raises ParameterError.
    """
    require_one_of("rounding", rounding, ROUNDINGS)
    chosen = TreeReplacer if _by_depths_alone(distance) else LevelReplacer
    return chosen(distance, candidates=candidates, calibrated=rounding == "calibrated")


def _by_depths_alone(distance: Distance) -> bool:
    """Whether ``tree_distance`` is the distance: for the known ones, in a tree."""
    return distance.taxonomy.is_tree and type(distance) in DISTANCES.values()
