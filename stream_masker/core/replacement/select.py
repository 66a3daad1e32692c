"""The selection of the fastest engine for replacements (2017: algorithms 1 to 3).

The engine depends on the distance and its taxonomy. ``rule`` specifies what all engines do.
"""

from __future__ import annotations

from collections.abc import Sequence

from stream_masker.core.distance import DISTANCES, Distance, WuPalmer
from stream_masker.core.ontology import Taxonomy
from stream_masker.core.replacement.dag.engine import DagReplacer
from stream_masker.core.replacement.dag.index import is_in_range
from stream_masker.core.replacement.level_bitsets import MAX_HEIGHT
from stream_masker.core.replacement.rows.engine import RowReplacer, equal_frequencies
from stream_masker.core.replacement.rule import ROUNDINGS, Candidates, Replacer
from stream_masker.core.replacement.tree_bitset import BitsetTreeReplacer
from stream_masker.core.validation import require_one_of


def replacer(distance: Distance, *, rounding: str = "calibrated", candidates: str = "all") -> Replacer:
    """Return the fastest ``Replacer`` for the distance and its taxonomy.

    ``RowReplacer`` is left for unknown distances, for the logarithmic distance in graphs and in high trees, and for
    graphs of millions of concepts or hundreds of levels.

    ``rounding``: calibrated or ceil; ``candidates``: all or leaves. Raises ParameterError.
    """
    require_one_of("rounding", rounding, ROUNDINGS)
    calibrated = rounding == "calibrated"
    if _is_low_tree(distance):
        return BitsetTreeReplacer(distance, candidates=candidates, calibrated=calibrated)
    if type(distance) is WuPalmer and is_in_range(distance.taxonomy):
        return DagReplacer(distance, candidates=candidates, calibrated=calibrated)
    frequencies = equal_frequencies(Candidates.of(distance.taxonomy, candidates))
    return RowReplacer(distance, frequencies, calibrated=calibrated, weak=False)


def replacers(distances: Sequence[Distance], *, rounding: str, candidates: str) -> tuple[Replacer, ...]:
    """Return a ``Replacer`` for each distance. Equal distances in equal taxonomies share one with its cache."""
    made: dict[tuple[type[Distance], Taxonomy], Replacer] = {}
    for distance in distances:
        key = type(distance), distance.taxonomy
        if key not in made:
            made[key] = replacer(distance, rounding=rounding, candidates=candidates)
    return tuple(made[type(distance), distance.taxonomy] for distance in distances)


def _is_low_tree(distance: Distance) -> bool:
    """Return whether the engines for low trees can be used, which need a distance that depends on depths alone."""
    tau = distance.taxonomy
    return type(distance) in DISTANCES.values() and tau.is_tree and bool(tau.depth.max() <= MAX_HEIGHT)
