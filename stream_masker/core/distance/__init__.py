"""Semantic distances: Wu–Palmer (2017) and the logarithmic taxonomic distance (2013)."""

from stream_masker.core.distance.measures import (
    DISTANCES,
    ConceptsLike,
    Distance,
    LogTaxonomic,
    WuPalmer,
    distance_by_name,
)

__all__ = ["DISTANCES", "ConceptsLike", "Distance", "LogTaxonomic", "WuPalmer", "distance_by_name"]
