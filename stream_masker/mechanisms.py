"""All masking mechanisms."""

from __future__ import annotations

from stream_masker.core.mechanisms.exponential import Exponential
from stream_masker.core.mechanisms.microaggregation.mechanism import Microaggregation
from stream_masker.core.mechanisms.noise import SemanticNoise
from stream_masker.core.mechanisms.swapping.data import DataSwapping
from stream_masker.core.mechanisms.swapping.interval import DistributionalRankSwapping
from stream_masker.core.mechanisms.swapping.rank import RankSwapping
from stream_masker.core.mechanisms.transition.baselines import NaiveDistortion, ProbabilisticDistortion
from stream_masker.core.mechanisms.transition.pram import Pram
from stream_masker.core.mechanisms.transition.vicus.mechanism import RandomTransitions, Vicus
from stream_masker.core.mechanisms.transport.mechanism import SemanticTransport
from stream_masker.core.numeric import Numeric

__all__ = [
    "DataSwapping",
    "DistributionalRankSwapping",
    "Exponential",
    "Microaggregation",
    "NaiveDistortion",
    "Numeric",
    "Pram",
    "ProbabilisticDistortion",
    "RandomTransitions",
    "RankSwapping",
    "SemanticNoise",
    "SemanticTransport",
    "Vicus",
]
