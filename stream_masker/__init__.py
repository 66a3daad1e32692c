"""stream-masker: semantic noise for nominal health data in Kafka.

The names below are the public interface of the library; they load on first use, so that importing the package (as
every command does) stays cheap.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stream_masker.core.distance import LogTaxonomic, WuPalmer
    from stream_masker.core.mechanisms.data_swapping import DataSwapping
    from stream_masker.core.mechanisms.exponential import Exponential
    from stream_masker.core.mechanisms.microaggregation import Microaggregation
    from stream_masker.core.mechanisms.naive_distortion import NaiveDistortion
    from stream_masker.core.mechanisms.pram import Pram
    from stream_masker.core.mechanisms.probabilistic_distortion import ProbabilisticDistortion
    from stream_masker.core.mechanisms.random_transitions import RandomTransitions
    from stream_masker.core.mechanisms.rank_swapping import RankSwapping
    from stream_masker.core.mechanisms.semantic_noise import SemanticNoise
    from stream_masker.core.mechanisms.swapping_by_frequency import DistributionalRankSwapping
    from stream_masker.core.mechanisms.vicus import Vicus
    from stream_masker.core.numeric import Numeric
    from stream_masker.core.ontology import Ontology, Taxonomy
    from stream_masker.core.statistics import (
        Statistics,
        distance_correlation,
        distance_covariance,
        distance_variance,
        semantic_mean,
        semantic_variance,
    )

__version__ = "0.1.0"

__all__ = [
    "DataSwapping",
    "DistributionalRankSwapping",
    "Exponential",
    "LogTaxonomic",
    "Microaggregation",
    "NaiveDistortion",
    "Numeric",
    "Ontology",
    "Pram",
    "ProbabilisticDistortion",
    "RandomTransitions",
    "RankSwapping",
    "SemanticNoise",
    "Statistics",
    "Taxonomy",
    "Vicus",
    "WuPalmer",
    "__version__",
    "distance_correlation",
    "distance_covariance",
    "distance_variance",
    "semantic_mean",
    "semantic_variance",
]

_HOMES = {
    "core.distance": ("LogTaxonomic", "WuPalmer"),
    "core.mechanisms.data_swapping": ("DataSwapping",),
    "core.mechanisms.exponential": ("Exponential",),
    "core.mechanisms.microaggregation": ("Microaggregation",),
    "core.mechanisms.naive_distortion": ("NaiveDistortion",),
    "core.mechanisms.pram": ("Pram",),
    "core.mechanisms.probabilistic_distortion": ("ProbabilisticDistortion",),
    "core.mechanisms.random_transitions": ("RandomTransitions",),
    "core.mechanisms.rank_swapping": ("RankSwapping",),
    "core.mechanisms.semantic_noise": ("SemanticNoise",),
    "core.mechanisms.swapping_by_frequency": ("DistributionalRankSwapping",),
    "core.mechanisms.vicus": ("Vicus",),
    "core.numeric": ("Numeric",),
    "core.ontology": ("Ontology", "Taxonomy"),
    "core.statistics": (
        "Statistics",
        "distance_correlation",
        "distance_covariance",
        "distance_variance",
        "semantic_mean",
        "semantic_variance",
    ),
}


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(f"{__name__}.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
