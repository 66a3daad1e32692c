"""Probabilistic distortion (2017: section 5): each value is replaced by a value of the window, drawn by frequency."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from stream_masker.core.mechanisms.method_card import MethodCard
from stream_masker.core.mechanisms.transition.base import MarkovMechanism
from stream_masker.core.mechanisms.transition.packing import pack_counts, unpack_counts
from stream_masker.core.mechanisms.transition.transitions import ShareTransition
from stream_masker.core.statistics.counts import Counts


class ProbabilisticDistortion(MarkovMechanism):
    """Replaces each value by one drawn with the frequencies of the window's values, whatever it was.

    2017's baseline: "the probability of selecting a value as replacement corresponds to the occurrence frequency of
    that value in the input dataset". Read here as of every value, so that a value may be drawn for itself: the marginal
    distribution is kept in expectation, and a masked value tells nothing of the original one.
    """

    name: ClassVar[str] = "probabilistic_distortion"
    declaration: ClassVar[MethodCard] = MethodCard(
        source="2017: section 5, as a baseline",
        attributes="any number of nominal ones",
        taxonomies="any; not used for masking",
        preserves=("marginals", "mean", "dispersion"),
        guarantee="masked values are independent of the original ones: they tell the window's frequencies alone",
        latency="none: each record by itself",
        cost="O(log v) for v values of the window",
    )

    def _model(self, counts: Counts) -> Mapping[str, Any]:
        return {name: pack_counts(column) for name, column in zip(self._attributes, counts.values, strict=True)}

    def _transition(self, attribute: str, model: Mapping[str, Any]) -> ShareTransition:
        return ShareTransition(unpack_counts(model, self._concepts(attribute)), 0.0)
