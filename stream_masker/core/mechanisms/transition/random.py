"""The Random method, against which the paper holds VICUS (2012: section 3.1.1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from stream_masker.core.mechanisms.method_card import MethodCard
from stream_masker.core.mechanisms.transition.transitions import PartTransition
from stream_masker.core.mechanisms.transition.vicus.model import PartitionMechanism, stay_probability


class RandomTransitions(PartitionMechanism):
    """Keeps each value as often as VICUS does, and else replaces it by any other value of the attribute.

    Ps is that of VICUS, from the same parts; every other value has Pc = (1 − Ps) / (|S| + |S'| − 1), by the
    paper's equation 12. Parameters, and values that the window does not hold: as ``Vicus``.
    """

    name: ClassVar[str] = "random"
    declaration: ClassVar[MethodCard] = MethodCard(
        source="2012: section 3.1.1, as a baseline",
        attributes="two or more nominal ones",
        taxonomies="any; not used for masking",
        preserves=("a share of the values",),
        guarantee="none in a strict sense: each value may have been any other, with known probabilities",
        latency="none: each record by itself",
        cost="O(1); a calibration, O(v²) for v values of the window",
    )

    def _transition(self, attribute: str, model: Mapping[str, Any]) -> PartTransition:
        domain, low, high = self._parts(attribute, model)
        part = (high - low).astype(np.float64)
        return PartTransition.whole(domain, stay_probability(self._k1, self._k2, part, domain.values.size - part))
