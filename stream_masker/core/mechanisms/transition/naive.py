"""Naive distortion (2017: section 5): each value is replaced by any other value of the window."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from stream_masker.core.mechanisms.method_card import MethodCard
from stream_masker.core.mechanisms.transition.base import MarkovMechanism
from stream_masker.core.mechanisms.transition.packing import pack_array, read_model_field, unpack_array
from stream_masker.core.mechanisms.transition.transitions import Domain, PartTransition
from stream_masker.core.statistics.counts import Counts


class NaiveDistortion(MarkovMechanism):
    """Replaces each value by one of the other values that the window holds, all equally probable.

    2017's baseline: "original values are randomly replaced by other values of the same dataset". Read here as the
    dataset's different values, not its records (that is ``ProbabilisticDistortion``), and as other than the original:
    a value never stays, unless the window holds no other. A value that the window does not hold becomes any of it.
    """

    name: ClassVar[str] = "naive_distortion"
    declaration: ClassVar[MethodCard] = MethodCard(
        source="2017: section 5, as a baseline",
        attributes="any number of nominal ones",
        taxonomies="any; not used for masking",
        preserves=("the set of values",),
        guarantee="none in a strict sense: which of the other values it was cannot be told",
        latency="none: each record by itself",
        cost="O(1)",
    )

    def _model(self, counts: Counts) -> Mapping[str, Any]:
        return {
            name: {"values": pack_array(column.keys.astype(np.int32))}
            for name, column in zip(self._attributes, counts.values, strict=True)
        }

    def _transition(self, attribute: str, model: Mapping[str, Any]) -> PartTransition:
        values = unpack_array(read_model_field(model, "values"), np.int32)
        domain = Domain.of(values, np.ones(values.size), self._concepts(attribute))
        return PartTransition.whole(domain, np.full(values.size, 1.0 if values.size == 1 else 0.0))
