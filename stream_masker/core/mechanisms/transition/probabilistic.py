"""Probabilistic distortion (2017: section 5): replacement by a value of the window, drawn by frequency."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from stream_masker.core.mechanisms.method_card import MethodCard
from stream_masker.core.mechanisms.transition.base import MarkovMechanism
from stream_masker.core.mechanisms.transition.serialization import pack_counts, unpack_counts
from stream_masker.core.mechanisms.transition.transitions import ShareTransition
from stream_masker.core.statistics.counts import Counts
from stream_masker.core.statistics.summary import Statistics


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
