"""Naive distortion (2017: section 5): replacement by any other value of the window."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from stream_masker.core.mechanisms.method_card import MethodCard
from stream_masker.core.mechanisms.transition.base import MarkovMechanism
from stream_masker.core.mechanisms.transition.domain import Domain
from stream_masker.core.mechanisms.transition.serialization import pack_array, read_model_field, unpack_array
from stream_masker.core.mechanisms.transition.transitions import OtherTransition
from stream_masker.core.statistics.counts import Counts
from stream_masker.core.statistics.summary import Statistics


class NaiveDistortion(MarkovMechanism):
    """Replaces each value by one of the other values of the window, with equal probability.

    A baseline of 2017: "original values are randomly replaced by other values of the same dataset". It is read here as
    the distinct values of the dataset, not its records (``ProbabilisticDistortion`` uses records), and as values other
    than the original. A value that the window does not contain becomes any of its values.

    If there were only two values, each would always become the other, and every mask would determine its original. In
    that case each value stays with probability 1/2. A single value stays.
    """

    name: ClassVar[str] = "naive_distortion"
    method_card: ClassVar[MethodCard] = MethodCard(
        summary="replaces a value by any other value of the window with equal probability",
        use_when="utility does not matter, or as a baseline",
        source="2017: section 5, as a baseline",
        attributes="any number of nominal ones",
        taxonomies="any; not used for masking",
        preserves=("the set of values",),
        guarantee="none in a strict sense: all other values are equally probable originals",
        latency="none: each record is masked alone",
        cost="O(log v) for v values of the window",
    )

    def _model(self, counts: Counts, statistics: Statistics) -> Mapping[str, Any]:
        return {
            name: {"values": pack_array(column.keys.astype(np.int32))}
            for name, column in zip(self._attributes, counts.values, strict=True)
        }

    def _transition(self, attribute: str, model: Mapping[str, Any]) -> OtherTransition:
        values = unpack_array(read_model_field(model, "values"), np.int32)
        domain = Domain.of(values, np.ones(values.size), self._taxonomy_size(attribute))
        return OtherTransition(domain, np.full(values.size, 1.0 / values.size if values.size <= 2 else 0.0))
