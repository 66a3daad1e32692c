"""The transition probabilities of single values, by concept."""

from __future__ import annotations

import numpy as np

from stream_masker.core.mechanisms import Mechanism


def channel(made: Mechanism, attribute: str, value: str) -> dict[str, float]:
    """Return the probabilities P(a* | a) of a value that are not 0, by concept id."""
    j = made.attributes.index(attribute)
    tau = made.distances[j].taxonomy
    found = made.attribute_channel(j, tau.encode([value]), made.counts)
    masks = np.flatnonzero(found.class_of >= 0)
    classes = found.class_of[masks]
    shares = found.rows[0][classes] / np.bincount(classes)[classes]
    return {concept: float(p) for concept, p in zip(tau.decode(masks), shares, strict=True) if p != 0.0}
