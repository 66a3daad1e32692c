"""The Random method, the paper's baseline for VICUS (2012: section 3.1.1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from stream_masker.core.mechanisms.method_card import MethodCard
from stream_masker.core.mechanisms.transition.transitions import OtherTransition
from stream_masker.core.mechanisms.transition.vicus.base import PartitionMechanism, stay_probability


class RandomTransitions(PartitionMechanism):
    """Keeps each value as often as VICUS does, and otherwise replaces it by any other value of the attribute.

    Ps is that of VICUS, with the same parts. Every other value has Pc = (1 − Ps) / (|S| + |S'| − 1) (2012: equation
    12). Parameters, and values that the window does not contain: see ``Vicus``.
    """

    name: ClassVar[str] = "random"
    method_card: ClassVar[MethodCard] = MethodCard(
        summary="keeps a value as often as VICUS does, and otherwise replaces it by any other value",
        use_when="as the baseline for VICUS",
        source="2012: section 3.1.1, as a baseline",
        attributes="two or more nominal ones",
        taxonomies="any; not used for masking",
        preserves=("a share of the values",),
        guarantee="none in a strict sense: every value is a possible original, with known probabilities",
        latency="none: each record is masked alone",
        cost="O(log v); a calibration takes O(v²) for v values of the window",
    )

    def _transition(self, attribute: str, model: Mapping[str, Any]) -> OtherTransition:
        domain, low, high = self._part_ranges(attribute, model)
        part = (high - low).astype(np.float64)
        return OtherTransition(domain, stay_probability(self._k1, self._k2, part, domain.values.size - part))
