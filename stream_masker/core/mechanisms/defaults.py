"""The default mechanism: the best one for the given attributes and parameters.

Semantic transport is the default. At an equal distance between originals and masks, it preserves the joint law of the
attributes and tells an attacker less than every other mechanism that masks records one by one. Where transport cannot
be used, semantic noise is the default, with parameters according to 2017's Table 9.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass
from functools import cache
from inspect import signature
from typing import Any

from stream_masker.core.mechanisms.noise.semantic import SemanticNoise
from stream_masker.core.mechanisms.transport.mechanism import SemanticTransport


@dataclass(frozen=True, slots=True)
class DefaultMechanism:
    """The default mechanism, and the reason why it is not semantic transport; empty if it is."""

    name: str
    reason: str = ""


def default_mechanism(
    parameters: Collection[str],
    *,
    arrays: Collection[str] = (),
    numeric: Collection[str] = (),
    record_alpha: bool = False,
) -> DefaultMechanism:
    """Return the mechanism for these parameters and attributes.

    * ``parameters``: the names of the given parameters of the mechanism.
    * ``arrays``: the attributes that are arrays. Transport can mask them, but its calibration then takes seconds.
    * ``numeric``: the numeric attributes.
    * ``record_alpha``: whether records have their own noise levels.
    """
    of_noise = sorted(set(parameters) & (_parameters(SemanticNoise) - _parameters(SemanticTransport)))
    of_transport = set(parameters) & (_parameters(SemanticTransport) - _parameters(SemanticNoise))
    if numeric:
        reason = f"semantic_transport masks no numbers, and {', '.join(numeric)} has them"
    elif record_alpha:
        reason = "records bring their own alpha, and semantic_transport has one noise level for all"
    elif arrays and not of_transport:
        reason = f"calibrating semantic_transport takes long with arrays: {', '.join(arrays)}"
    elif of_noise:
        reason = f"only semantic_noise has {', '.join(of_noise)}"
    else:
        return DefaultMechanism(SemanticTransport.name)
    return DefaultMechanism(SemanticNoise.name, reason)


def noise_defaults(
    taxonomies: Mapping[str, Hashable], arrays: Collection[str], given: Mapping[str, Any], *, numeric: bool = False
) -> dict[str, Any]:
    """Return ``correlated`` and ``reference`` of semantic noise: the given values, and the best ones for the rest.

    One attribute gets uncorrelated noise with reference ``mean``; two of one taxonomy get ``pair``; others get ``root``
    (2017: Table 9). The noise of several arrays is not correlated.

    * ``taxonomies``: what identifies the taxonomy of each nominal attribute.
    * ``arrays``: the attributes that are arrays.
    * ``given``: the given parameters with their values.
    * ``numeric``: whether there are numeric attributes, with which the noise of one attribute can be correlated.
    """
    alone = len(taxonomies) == 1 and not numeric
    chosen = {"correlated": not alone and len(arrays) < 2, "reference": _reference(taxonomies, arrays, given)}
    return {name: given.get(name, value) for name, value in chosen.items()}


def _reference(taxonomies: Mapping[str, Hashable], arrays: Collection[str], given: Mapping[str, Any]) -> str:
    if given.get("pairs") is not None:
        return "pair"
    if len(taxonomies) == 1:
        return "mean"
    one_taxonomy = len(set(taxonomies.values())) == 1
    return "pair" if len(taxonomies) == 2 and one_taxonomy and len(arrays) < 2 else "root"


@cache
def _parameters(kind: type[SemanticNoise | SemanticTransport]) -> frozenset[str]:
    return frozenset(signature(kind).parameters) - {"alpha", "numeric"}
