"""Masking mechanisms, by the name that the configuration gives them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stream_masker.core.mechanisms.base import Mechanism, Record, Value
from stream_masker.core.mechanisms.data_swapping import DataSwapping
from stream_masker.core.mechanisms.microaggregation import Microaggregation
from stream_masker.core.mechanisms.rank_swapping import RankSwapping
from stream_masker.core.mechanisms.semantic_noise import SemanticNoise
from stream_masker.core.mechanisms.swapping_by_frequency import DistributionalRankSwapping
from stream_masker.core.mechanisms.windowed import WindowedMechanism
from stream_masker.errors import ParameterError

MECHANISMS: dict[str, type[WindowedMechanism[Any]]] = {
    kind.name: kind
    for kind in (SemanticNoise, Microaggregation, RankSwapping, DataSwapping, DistributionalRankSwapping)
}
"""Every mechanism by name; the contract suite checks each of them."""

__all__ = [
    "MECHANISMS",
    "DataSwapping",
    "DistributionalRankSwapping",
    "Mechanism",
    "Microaggregation",
    "RankSwapping",
    "Record",
    "SemanticNoise",
    "Value",
    "WindowedMechanism",
    "mechanism",
]


def mechanism(name: str) -> Callable[..., WindowedMechanism[Any]]:
    """The mechanism of that name: its class, called with parameters of its own. Raises ParameterError."""
    if name not in MECHANISMS:
        raise ParameterError(f"mechanism={name!r} is not allowed: use {' or '.join(MECHANISMS)}")
    return MECHANISMS[name]
