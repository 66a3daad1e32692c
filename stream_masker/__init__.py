"""stream-masker: semantic noise for nominal health data in Kafka.

The names in ``__all__`` are the public interface of the library. Their modules are imported on first use, so that
importing the package, which every command does, is cheap.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stream_masker.core.distance import LogTaxonomic, WuPalmer
    from stream_masker.core.mechanisms.exponential.mechanism import Exponential
    from stream_masker.core.mechanisms.microaggregation.mechanism import Microaggregation
    from stream_masker.core.mechanisms.noise.semantic import SemanticNoise
    from stream_masker.core.mechanisms.swapping.data import DataSwapping
    from stream_masker.core.mechanisms.swapping.frequency import DistributionalRankSwapping
    from stream_masker.core.mechanisms.swapping.rank import RankSwapping
    from stream_masker.core.mechanisms.transition.naive import NaiveDistortion
    from stream_masker.core.mechanisms.transition.pram import Pram
    from stream_masker.core.mechanisms.transition.probabilistic import ProbabilisticDistortion
    from stream_masker.core.mechanisms.transition.vicus.baseline import RandomTransitions
    from stream_masker.core.mechanisms.transition.vicus.mechanism import Vicus
    from stream_masker.core.mechanisms.transport.mechanism import SemanticTransport
    from stream_masker.core.numeric import Numeric
    from stream_masker.core.ontology import ConceptMap, Ontology, Taxonomy
    from stream_masker.core.statistics import (
        Statistics,
        distance_correlation,
        distance_covariance,
        distance_variance,
        semantic_mean,
        semantic_variance,
    )
    from stream_masker.core.utility import Utility
    from stream_masker.frames import mask_frame
    from stream_masker.measures import measure_utility

__version__ = "0.1.0"

__all__ = [
    "ConceptMap",
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
    "SemanticTransport",
    "Statistics",
    "Taxonomy",
    "Utility",
    "Vicus",
    "WuPalmer",
    "__version__",
    "distance_correlation",
    "distance_covariance",
    "distance_variance",
    "mask_frame",
    "measure_utility",
    "semantic_mean",
    "semantic_variance",
]

_MODULES = {
    "core.distance": ("LogTaxonomic", "WuPalmer"),
    "core.mechanisms.swapping.data": ("DataSwapping",),
    "core.mechanisms.exponential.mechanism": ("Exponential",),
    "core.mechanisms.microaggregation.mechanism": ("Microaggregation",),
    "core.mechanisms.transition.naive": ("NaiveDistortion",),
    "core.mechanisms.transition.pram": ("Pram",),
    "core.mechanisms.transition.probabilistic": ("ProbabilisticDistortion",),
    "core.mechanisms.transition.vicus.baseline": ("RandomTransitions",),
    "core.mechanisms.swapping.rank": ("RankSwapping",),
    "core.mechanisms.noise.semantic": ("SemanticNoise",),
    "core.mechanisms.swapping.frequency": ("DistributionalRankSwapping",),
    "core.mechanisms.transition.vicus.mechanism": ("Vicus",),
    "core.mechanisms.transport.mechanism": ("SemanticTransport",),
    "core.numeric": ("Numeric",),
    "core.ontology": ("ConceptMap", "Ontology", "Taxonomy"),
    "core.statistics": (
        "Statistics",
        "distance_correlation",
        "distance_covariance",
        "distance_variance",
        "semantic_mean",
        "semantic_variance",
    ),
    "core.utility": ("Utility",),
    "frames": ("mask_frame",),
    "measures": ("measure_utility",),
}


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names:
            return getattr(importlib.import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
