"""The baselines of 2017, section 5: replacement by any other value of the window, or by its frequencies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from stream_masker.core.mechanisms.base import MethodCard
from stream_masker.core.mechanisms.transition.base import MarkovMechanism
from stream_masker.core.mechanisms.transition.serialization import (
    pack_array,
    pack_counts,
    read_model_field,
    unpack_array,
    unpack_counts,
)
from stream_masker.core.mechanisms.transition.transitions import PartTransition, ShareTransition
from stream_masker.core.mechanisms.transition.trie import Domain
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

    def _transition(self, attribute: str, model: Mapping[str, Any]) -> PartTransition:
        values = unpack_array(read_model_field(model, "values"), np.int32)
        domain = Domain.of(np.sort(values), np.ones(values.size), self._taxonomy_size(attribute))
        return PartTransition.whole(domain, np.full(values.size, 1.0 / values.size if values.size <= 2 else 0.0))


class ProbabilisticDistortion(MarkovMechanism):
    """Replaces each value by one drawn with the frequencies of the window, independent of the original.

    A baseline of 2017: "the probability of selecting a value as replacement corresponds to the occurrence frequency of
    that value in the input dataset". It is read here as covering all values, so that a value can be drawn for itself:
    the marginal distribution is preserved in expectation, and a masked value reveals nothing about the original.
    """

    name: ClassVar[str] = "probabilistic_distortion"
    method_card: ClassVar[MethodCard] = MethodCard(
        summary="replaces a value by one drawn with the frequencies of the window, independent of the original",
        use_when="only the marginals matter, and masked values must reveal nothing, or as a baseline",
        source="2017: section 5, as a baseline",
        attributes="any number of nominal ones",
        taxonomies="any; not used for masking",
        preserves=("marginals", "mean", "dispersion"),
        guarantee="masked values are independent of the originals: they reveal only the window's frequencies",
        latency="none: each record is masked alone",
        cost="O(log v) for v values of the window",
    )

    def _model(self, counts: Counts, statistics: Statistics) -> Mapping[str, Any]:
        return {name: pack_counts(column) for name, column in zip(self._attributes, counts.values, strict=True)}

    def _transition(self, attribute: str, model: Mapping[str, Any]) -> ShareTransition:
        return ShareTransition(unpack_counts(model, self._taxonomy_size(attribute)), 0.0)
