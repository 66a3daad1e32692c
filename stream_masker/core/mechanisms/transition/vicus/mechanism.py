"""VICUS (2012): transition probabilities that favour values of the same part."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from stream_masker.core.mechanisms.method_card import MethodCard
from stream_masker.core.mechanisms.transition.transitions import PartTransition
from stream_masker.core.mechanisms.transition.vicus.base import PartitionMechanism, stay_probability


class Vicus(PartitionMechanism):
    """Replaces each value by transition probabilities that favour its part of similar values.

    Similar values occur together with the same values of other attributes. Let S be the part of a value among the
    attribute's v values, and S' all other values. The value stays with probability Ps = k1·k2 / (k1·k2 + k2·(|S| − 1) +
    |S'|). It becomes each other value of S with psp = Ps / k1, and each value of S' with pdp = Ps / (k1·k2) (2012:
    equations 8 to 11). The similarity (``core.similarity``) and the parts (``partition``) are computed from the window.

    Where the paper leaves a choice: the values of an attribute are those of the window; a value that the window does
    not contain becomes one of them by frequency. An attribute with a single value in the window is masked to it.
    Elements of an array occur together with the record's other attributes, not with each other.

    The more values an attribute has, the less often a value stays, because their number is weighed against k1·k2.
    For attributes of up to twelve values the paper advises a product of 100 or more, with a low k1. With hundreds of
    values hardly any value stays at such a product, and similarity by co-occurrence puts most of them into one part, in
    which all values are equally probable: no association is left. Give ``parts``, ``part_size`` and a greater k2. VICUS
    then keeps more association than Random, but not much more, because attributes are masked independently of each
    other.
    """

    name: ClassVar[str] = "vicus"
    method_card: ClassVar[MethodCard] = MethodCard(
        summary="replaces a value preferably by one that occurs together with the same values of other attributes",
        use_when="similarity must follow from the data, because no meaningful taxonomy exists, and attributes have few "
        "values",
        source="2012: sections 2 and 3",
        attributes="two or more nominal ones",
        taxonomies="any; not used for masking",
        preserves=("similarity by co-occurrence", "more association than Random"),
        guarantee="none in a strict sense: every value is a possible original, with known probabilities",
        latency="none: each record is masked alone",
        cost="O(log v); a calibration takes O(v²) for v values of the window",
    )

    def _transition(self, attribute: str, model: Mapping[str, Any]) -> PartTransition:
        domain, low, high = self._part_ranges(attribute, model)
        v, part = domain.values.size, (high - low).astype(np.float64)
        keep = stay_probability(self._k1, self._k2, part, v - part)
        within = np.where(part == v, 1.0, keep + (part - 1.0) * keep / self._k1)
        return PartTransition.of(domain, keep, within, low, high)
