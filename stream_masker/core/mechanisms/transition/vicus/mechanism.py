"""VICUS (2012): values change within parts of similar values more readily than between them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from stream_masker.core.mechanisms.method_card import MethodCard
from stream_masker.core.mechanisms.transition.transitions import PartTransition
from stream_masker.core.mechanisms.transition.vicus.model import PartitionMechanism, stay_probability


class Vicus(PartitionMechanism):
    """Replaces each value by transition probabilities that keep to parts of values which occur with the same ones.

    With S the part of a value of the attribute's v values and S' all other values: the value stays with the probability
    Ps = k1·k2 / (k1·k2 + k2·(|S| − 1) + |S'|), becomes each other value of S with psp = Ps / k1, and each one of S'
    with pdp = Ps / (k1·k2) (2012: equations 8 to 11). Similarity: ``core.similarity``; the parts:
    ``core.mechanisms.transition.vicus.partition``. Both are of the window, and so follow it.

    Where the paper is open: the values of an attribute are those of the window; a value that it does not hold becomes
    one of them by frequency. An attribute with one value in the window is masked to it. Elements of an array occur
    together with the record's other attributes, not with each other.

    The more values an attribute has, the less often one stays: k1·k2 is what they weigh against, so that hundreds of
    values need a product of hundreds (the paper advises 100 or more, with a low k1, for attributes of up to twelve).
    """

    name: ClassVar[str] = "vicus"
    declaration: ClassVar[MethodCard] = MethodCard(
        source="2012: sections 2 and 3",
        attributes="two or more nominal ones",
        taxonomies="any; not used for masking",
        preserves=("association between attributes", "similarity by what values occur with"),
        guarantee="none in a strict sense: each value may have been any other, with known probabilities",
        latency="none: each record by itself",
        cost="O(1); a calibration, O(v²) for v values of the window",
    )

    def _transition(self, attribute: str, model: Mapping[str, Any]) -> PartTransition:
        domain, low, high = self._parts(attribute, model)
        v, part = domain.values.size, (high - low).astype(np.float64)
        keep = stay_probability(self._k1, self._k2, part, v - part)
        within = np.where(part == v, 1.0, keep + (part - 1.0) * keep / self._k1)
        return PartTransition(domain, keep, within, low, high)
