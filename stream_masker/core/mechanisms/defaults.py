"""The mechanism for attributes and parameters that leave it open: semantic noise, the mechanism of the papers.

Numbers are masked by microaggregation alone, and parameters that only semantic transport has ask for it.
"""

from __future__ import annotations

from collections.abc import Collection
from inspect import signature
from typing import NamedTuple

from stream_masker.core.mechanisms.microaggregation import Microaggregation
from stream_masker.core.mechanisms.noise.semantic import SemanticNoise, noise_defaults
from stream_masker.core.mechanisms.transport.mechanism import SemanticTransport

__all__ = ["DefaultMechanism", "default_mechanism", "noise_defaults"]


class DefaultMechanism(NamedTuple):
    """The default mechanism, and the reason why it is not semantic noise; empty if it is."""

    name: str
    reason: str = ""


def default_mechanism(parameters: Collection[str], *, numeric: Collection[str] = ()) -> DefaultMechanism:
    """Return the mechanism for these names of parameters and of numeric attributes."""
    if numeric:
        return DefaultMechanism(Microaggregation.name, f"no other masks numbers, and {', '.join(numeric)} has them")
    only = signature(SemanticTransport).parameters.keys() - signature(SemanticNoise).parameters.keys()
    if of_transport := sorted(only.intersection(parameters)):
        return DefaultMechanism(SemanticTransport.name, f"only semantic_transport has {', '.join(of_transport)}")
    return DefaultMechanism(SemanticNoise.name)
