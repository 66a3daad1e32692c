"""Mechanisms with statistics in force, the transition probabilities of their values, and a test of draws."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from stream_masker.core.mechanisms import Mechanism

MIN_EXPECTED = 5.0
"""Outcomes expected less often than this are merged."""


def trained(made: Mechanism, records: Any, **keys: Any) -> Mechanism:
    """Return a mechanism that has learned records and is calibrated."""
    made.learn_many(records, **keys)
    made.calibrate()
    return made


def channel(made: Mechanism, attribute: str, value: str) -> dict[str, float]:
    """Return the probabilities P(a* | a) of a value that are not 0, by concept id."""
    j = made.attributes.index(attribute)
    tau = made.distances[j].taxonomy
    found = made.attribute_channel(j, tau.encode([value]), made.counts)
    masks = np.flatnonzero(found.class_of >= 0)
    classes = found.class_of[masks]
    shares = found.rows[0][classes] / np.bincount(classes)[classes]
    return {concept: float(p) for concept, p in zip(tau.decode(masks), shares, strict=True) if p != 0.0}


def assert_drawn_from(probabilities: Mapping[str, float], drawn: Iterable[str]) -> None:
    """Fail unless the draws agree with the probabilities: χ² is within six standard deviations of its expectation."""
    counts = Counter(drawn)
    assert set(counts) <= {concept for concept, p in probabilities.items() if p > 0.0}
    size = counts.total()
    common = {concept: p for concept, p in probabilities.items() if p * size >= MIN_EXPECTED}
    cells = [(counts[concept], p * size) for concept, p in common.items()]
    rare = size - sum(count for count, _ in cells), size * (1.0 - sum(common.values()))
    if rare[1] >= MIN_EXPECTED:
        cells.append(rare)
    else:
        assert rare[0] <= MIN_EXPECTED + 6.0 * math.sqrt(MIN_EXPECTED)
    freedom = len(cells) - 1
    chi_square = sum((count - expected) ** 2 / expected for count, expected in cells)
    assert chi_square <= freedom + 6.0 * math.sqrt(2.0 * max(freedom, 1)), (chi_square, freedom)
