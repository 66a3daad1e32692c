"""The comparison of semantic noise, the default mechanism, with semantic transport."""

from __future__ import annotations

import secrets
from typing import Any

from stream_masker.core.mechanisms.base import Mechanism
from stream_masker.core.mechanisms.noise.semantic import SemanticNoise, noise_defaults
from stream_masker.core.mechanisms.transport.mechanism import SemanticTransport
from stream_masker.core.statistics.counts import Counts

__all__ = ["alternative", "noise_defaults"]


def alternative(mechanism: Mechanism, counts: Counts) -> Mechanism | None:
    """Return the other one of semantic noise and semantic transport, with its defaults, for these counts of a window.

    None for other mechanisms. With many different pairs of values it takes minutes.
    """
    taxonomies = {name: d.taxonomy for name, d in zip(mechanism.attributes, mechanism.distances, strict=True)}
    shared: dict[str, Any] = {"distance": mechanism.parameters.distance, "seed": secrets.token_bytes(32)}
    other: Mechanism
    if mechanism.name == SemanticNoise.name:
        other = SemanticTransport(taxonomies, **shared)
    elif mechanism.name == SemanticTransport.name:
        chosen = noise_defaults(taxonomies, [mechanism.attributes[j] for j in counts.lengths], {})
        other = SemanticNoise(taxonomies, **chosen, **shared)
    else:
        return None
    return other.with_statistics(other.compute(counts, version=1), counts)
