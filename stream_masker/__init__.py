"""stream-masker: semantic noise for nominal health data in Kafka.

The public interface is the names below and ``stream_masker.errors``. Modules are imported on first use, so that
importing the package, which every command does, is cheap.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stream_masker.core.distance import LogTaxonomic as LogTaxonomic
    from stream_masker.core.distance import WuPalmer as WuPalmer
    from stream_masker.core.mechanisms.markov import Exponential as Exponential
    from stream_masker.core.mechanisms.markov import NaiveDistortion as NaiveDistortion
    from stream_masker.core.mechanisms.markov import Pram as Pram
    from stream_masker.core.mechanisms.markov import ProbabilisticDistortion as ProbabilisticDistortion
    from stream_masker.core.mechanisms.microaggregation import Microaggregation as Microaggregation
    from stream_masker.core.mechanisms.rank_swapping import RankSwapping as RankSwapping
    from stream_masker.core.mechanisms.semantic_noise import SemanticNoise as SemanticNoise
    from stream_masker.core.mechanisms.transport.mechanism import SemanticTransport as SemanticTransport
    from stream_masker.core.mechanisms.vicus import RandomTransitions as RandomTransitions
    from stream_masker.core.mechanisms.vicus import Vicus as Vicus
    from stream_masker.core.ontology import UNKNOWN as UNKNOWN
    from stream_masker.core.ontology import ConceptMap as ConceptMap
    from stream_masker.core.ontology import Match as Match
    from stream_masker.core.ontology import Ontology as Ontology
    from stream_masker.core.ontology import Taxonomy as Taxonomy
    from stream_masker.core.ontology.concepts import read_mapping as read_mapping
    from stream_masker.core.statistics import Statistics as Statistics
    from stream_masker.core.statistics import distance_correlation as distance_correlation
    from stream_masker.core.statistics import distance_covariance as distance_covariance
    from stream_masker.core.statistics import distance_variance as distance_variance
    from stream_masker.core.statistics import semantic_mean as semantic_mean
    from stream_masker.core.statistics import semantic_variance as semantic_variance
    from stream_masker.core.statistics.drift import Utility as Utility
    from stream_masker.frames import FrameMasker as FrameMasker
    from stream_masker.frames import mask_frame as mask_frame
    from stream_masker.measures import measure_drift as measure_drift
    from stream_masker.measures import measure_utility as measure_utility

__version__ = "0.1.0"

_MODULES = {
    "core.distance": ("LogTaxonomic", "WuPalmer"),
    "core.mechanisms.markov": ("Exponential", "NaiveDistortion", "Pram", "ProbabilisticDistortion"),
    "core.mechanisms.microaggregation": ("Microaggregation",),
    "core.mechanisms.semantic_noise": ("SemanticNoise",),
    "core.mechanisms.rank_swapping": ("RankSwapping",),
    "core.mechanisms.transport.mechanism": ("SemanticTransport",),
    "core.mechanisms.vicus": ("RandomTransitions", "Vicus"),
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
    "core.statistics.drift": ("Utility",),
    "frames": ("FrameMasker", "mask_frame"),
    "measures": ("measure_drift", "measure_utility"),
}
_HOMES = dict(sorted((name, module) for module, names in _MODULES.items() for name in names))

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}: it has {', '.join(__all__)}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
