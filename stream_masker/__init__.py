"""stream-masker: semantic noise for nominal health data in Kafka.

The public interface is the names below and ``stream_masker.errors``. Modules are imported on first use, so that
importing the package, which every command does, is cheap.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stream_masker.core.distance import LogTaxonomic, WuPalmer
    from stream_masker.core.mechanisms.exponential import Exponential
    from stream_masker.core.mechanisms.markov import (
        NaiveDistortion,
        Pram,
        ProbabilisticDistortion,
        RandomTransitions,
        Vicus,
    )
    from stream_masker.core.mechanisms.microaggregation import Microaggregation
    from stream_masker.core.mechanisms.noise.semantic import SemanticNoise
    from stream_masker.core.mechanisms.rank_swapping import RankSwapping
    from stream_masker.core.mechanisms.transport.mechanism import SemanticTransport
    from stream_masker.core.ontology import UNKNOWN, ConceptMap, Match, Ontology, Taxonomy
    from stream_masker.core.ontology.concepts import read_mapping
    from stream_masker.core.statistics import (
        Statistics,
        distance_correlation,
        distance_covariance,
        distance_variance,
        semantic_mean,
        semantic_variance,
    )
    from stream_masker.core.statistics.utility import Utility
    from stream_masker.frames import FrameMasker, mask_frame
    from stream_masker.measures import measure_drift, measure_utility

__version__ = "0.1.0"

__all__ = [
    "UNKNOWN",
    "ConceptMap",
    "Exponential",
    "FrameMasker",
    "LogTaxonomic",
    "Match",
    "Microaggregation",
    "NaiveDistortion",
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
    "distance_correlation",
    "distance_covariance",
    "distance_variance",
    "mask_frame",
    "measure_drift",
    "measure_utility",
    "read_mapping",
    "semantic_mean",
    "semantic_variance",
]

_MODULES = {
    "core.distance": ("LogTaxonomic", "WuPalmer"),
    "core.mechanisms.exponential": ("Exponential",),
    "core.mechanisms.markov": ("NaiveDistortion", "Pram", "ProbabilisticDistortion", "RandomTransitions", "Vicus"),
    "core.mechanisms.microaggregation": ("Microaggregation",),
    "core.mechanisms.noise.semantic": ("SemanticNoise",),
    "core.mechanisms.rank_swapping": ("RankSwapping",),
    "core.mechanisms.transport.mechanism": ("SemanticTransport",),
    "core.ontology": ("ConceptMap", "Match", "Ontology", "Taxonomy", "UNKNOWN"),
    "core.ontology.concepts": ("read_mapping",),
    "core.statistics": (
        "Statistics",
        "distance_correlation",
        "distance_covariance",
        "distance_variance",
        "semantic_mean",
        "semantic_variance",
    ),
    "core.statistics.utility": ("Utility",),
    "frames": ("FrameMasker", "mask_frame"),
    "measures": ("measure_drift", "measure_utility"),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}: it has {', '.join(__all__)}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
