"""All masking mechanisms."""

from __future__ import annotations

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

__all__ = [
    "Exponential",
    "Microaggregation",
    "NaiveDistortion",
    "Pram",
    "ProbabilisticDistortion",
    "RandomTransitions",
    "RankSwapping",
    "SemanticNoise",
    "SemanticTransport",
    "Vicus",
]
