"""Masking mechanisms, by the name that the configuration gives them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stream_masker.core.mechanisms.base import Mechanism, Record, Value
from stream_masker.core.mechanisms.exponential.mechanism import Exponential
from stream_masker.core.mechanisms.microaggregation.mechanism import Microaggregation
from stream_masker.core.mechanisms.noise.semantic import SemanticNoise
from stream_masker.core.mechanisms.swapping.data import DataSwapping
from stream_masker.core.mechanisms.swapping.frequency import DistributionalRankSwapping
from stream_masker.core.mechanisms.swapping.rank.mechanism import RankSwapping
from stream_masker.core.mechanisms.transition.naive import NaiveDistortion
from stream_masker.core.mechanisms.transition.pram import Pram
from stream_masker.core.mechanisms.transition.probabilistic import ProbabilisticDistortion
from stream_masker.core.mechanisms.transition.random import RandomTransitions
from stream_masker.core.mechanisms.transition.vicus.mechanism import Vicus
from stream_masker.core.mechanisms.windowed import WindowedMechanism
from stream_masker.errors import ParameterError

MECHANISMS: dict[str, type[WindowedMechanism[Any]]] = {
    kind.name: kind
    for kind in (
        SemanticNoise,
        Microaggregation,
        RankSwapping,
        DataSwapping,
        DistributionalRankSwapping,
        Vicus,
        RandomTransitions,
        NaiveDistortion,
        ProbabilisticDistortion,
        Pram,
        Exponential,
    )
}
"""Every mechanism by name; the contract suite checks each of them."""

__all__ = [
    "MECHANISMS",
    "DataSwapping",
    "DistributionalRankSwapping",
    "Exponential",
    "Mechanism",
    "Microaggregation",
    "NaiveDistortion",
    "Pram",
    "ProbabilisticDistortion",
    "RandomTransitions",
    "RankSwapping",
    "Record",
    "SemanticNoise",
    "Value",
    "Vicus",
    "WindowedMechanism",
    "mechanism",
]


def mechanism(name: str) -> Callable[..., WindowedMechanism[Any]]:
    """The mechanism of that name: its class, called with parameters of its own. Raises ParameterError."""
    if name not in MECHANISMS:
        raise ParameterError(f"mechanism={name!r} is not allowed: use {' or '.join(MECHANISMS)}")
    return MECHANISMS[name]
