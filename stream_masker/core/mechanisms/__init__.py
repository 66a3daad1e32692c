"""Masking mechanisms, by the name that the configuration gives them."""

from __future__ import annotations

from stream_masker.core.mechanisms.base import Mechanism, Record, Value
from stream_masker.core.mechanisms.semantic_noise import SemanticNoise
from stream_masker.errors import ParameterError

MECHANISMS: dict[str, type[SemanticNoise]] = {SemanticNoise.name: SemanticNoise}
"""Every mechanism by name; the contract suite checks each of them."""

__all__ = ["MECHANISMS", "Mechanism", "Record", "SemanticNoise", "Value", "mechanism"]


def mechanism(name: str) -> type[SemanticNoise]:
    """The mechanism of that name. Raises ParameterError."""
    if name not in MECHANISMS:
        raise ParameterError(f"mechanism={name!r} is not allowed: use {' or '.join(MECHANISMS)}")
    return MECHANISMS[name]
