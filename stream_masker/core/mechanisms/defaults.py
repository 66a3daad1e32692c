"""The default mechanism: the best one for the given attributes and parameters.

Semantic transport is the default. It preserves the joint law of the attributes. At an equal distance between originals
and masks, it tells an attacker less about two attributes than every other mechanism that preserves some correlation.
Where it cannot be used, semantic noise is the default. Numbers are masked by microaggregation alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from inspect import signature
from typing import NamedTuple

from stream_masker.core.mechanisms.microaggregation import Microaggregation
from stream_masker.core.mechanisms.noise.semantic import SemanticNoise, noise_defaults
from stream_masker.core.mechanisms.transport.mechanism import SemanticTransport

__all__ = ["BUILT_IN_CODES", "DefaultMechanism", "default_candidates", "default_mechanism", "noise_defaults"]

BUILT_IN_CODES = "icd10cm"
"""The built-in ontology, whose inner concepts (chapters, blocks and categories) are no codes that can be billed."""


class DefaultMechanism(NamedTuple):
    """The default mechanism, and the reason why it is not semantic transport; empty if it is."""

    name: str
    reason: str = ""


def default_mechanism(
    parameters: Collection[str], *, numeric: Collection[str] = (), record_alpha: bool = False
) -> DefaultMechanism:
    """Return the mechanism for these names of parameters and of numeric attributes.

    ``record_alpha``: whether records have their own noise levels.
    """
    if numeric:
        return DefaultMechanism(Microaggregation.name, f"no other masks numbers, and {', '.join(numeric)} has them")
    if record_alpha:
        reason = "records bring their own alpha, and semantic_transport has one noise level for all"
        return DefaultMechanism(SemanticNoise.name, reason)
    only = signature(SemanticNoise).parameters.keys() - signature(SemanticTransport).parameters.keys() - {"alpha"}
    if of_noise := sorted(only.intersection(parameters)):
        return DefaultMechanism(SemanticNoise.name, f"only semantic_noise has {', '.join(of_noise)}")
    return DefaultMechanism(SemanticTransport.name)


def default_candidates(built_in: Iterable[bool]) -> str:
    """Return ``candidates`` of semantic noise and the exponential mechanism: ``leaves`` or ``all``.

    ``built_in``: whether each attribute has the codes of ``BUILT_IN_CODES``; one of them suffices for ``leaves``.
    """
    return "leaves" if any(built_in) else "all"
