"""Semantic distances: Wu–Palmer (2017) and the logarithmic taxonomic distance (2013).

``measures`` has the public classes. Two implementations compute the same floats: ``kernels`` for pairs, and ``many``
for many concepts to many.
"""

from stream_masker.core.distance.measures import (
    DISTANCES,
    ConceptsLike,
    Distance,
    DistanceChoice,
    LogTaxonomic,
    WuPalmer,
    distance_on,
    require_distance,
)

__all__ = [
    "DISTANCES",
    "ConceptsLike",
    "Distance",
    "DistanceChoice",
    "LogTaxonomic",
    "WuPalmer",
    "distance_on",
    "require_distance",
]
