"""The default mechanism: the best one for the given attributes and parameters.

Semantic transport is the default. It preserves the joint law of the attributes. At an equal distance between originals
and masks, it tells an attacker less about two attributes than every other mechanism that preserves some correlation.
Where transport cannot be used, semantic noise is the default, with parameters according to 2017's Table 9. Numbers are
masked by microaggregation alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cache
from inspect import signature

from stream_masker.core.mechanisms.microaggregation import Microaggregation
from stream_masker.core.mechanisms.noise import SemanticNoise, noise_defaults
from stream_masker.core.mechanisms.transport.mechanism import SemanticTransport

__all__ = ["BUILT_IN_CODES", "DefaultMechanism", "default_candidates", "default_mechanism", "noise_defaults"]

BUILT_IN_CODES = "icd10cm"
"""The built-in ontology, whose inner concepts (chapters, blocks and categories) are no codes that can be billed."""


@dataclass(frozen=True, slots=True)
class DefaultMechanism:
    """The default mechanism, and the reason why it is not semantic transport; empty if it is."""

    name: str
    reason: str = ""


def default_mechanism(
    parameters: Collection[str],
    *,
    numeric: Collection[str] = (),
    record_alpha: bool = False,
) -> DefaultMechanism:
    """Return the mechanism for these parameters and attributes.

    * ``parameters``: the names of the given parameters of the mechanism.
    * ``numeric``: the numeric attributes.
    * ``record_alpha``: whether records have their own noise levels.
    """
    of_noise = sorted(set(parameters) & (_parameters(SemanticNoise) - _parameters(SemanticTransport)))
    if numeric:
        return DefaultMechanism(Microaggregation.name, f"no other masks numbers, and {', '.join(numeric)} has them")
    if record_alpha:
        reason = "records bring their own alpha, and semantic_transport has one noise level for all"
    elif of_noise:
        reason = f"only semantic_noise has {', '.join(of_noise)}"
    else:
        return DefaultMechanism(SemanticTransport.name)
    return DefaultMechanism(SemanticNoise.name, reason)


def default_candidates(built_in: Iterable[bool]) -> str:
    """Return ``candidates`` of semantic noise and the exponential mechanism: ``leaves`` or ``all``.

    ``built_in``: whether each attribute has the codes of ``BUILT_IN_CODES``; one of them suffices for ``leaves``.
    """
    return "leaves" if any(built_in) else "all"


@cache
def _parameters(kind: type[SemanticNoise | SemanticTransport]) -> frozenset[str]:
    return frozenset(signature(kind).parameters) - {"alpha"}
