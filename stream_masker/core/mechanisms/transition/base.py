"""The common parts of mechanisms that replace each value by transition probabilities.

These mechanisms do not look at other values of the record. Arrays are masked element by element, absent values stay
absent, and every value takes two random words and a draw in O(1) or O(log v) for v values of the window.

A value that the window does not contain has no transition probabilities. It is never emitted unchanged: it becomes one
of the window's values, with the probabilities in the mechanism's docstring.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from stream_masker.core.batch import Batch, Column, MaskedBatch
from stream_masker.core.dtypes import Float64Array, Int32Array, UInt64Array
from stream_masker.core.mechanisms.base import distortion_of
from stream_masker.core.mechanisms.transition.transitions import Transition
from stream_masker.core.mechanisms.windowed import WindowedMechanism
from stream_masker.core.random.keys import Keys
from stream_masker.core.random.layout import WordLayout, draw_words
from stream_masker.core.risk.channel import Channel
from stream_masker.core.risk.classes import value_classes
from stream_masker.core.statistics.counts import Counts
from stream_masker.core.statistics.summary import Statistics
from stream_masker.errors import ParameterError, StatisticsError

CHOICE_WORDS = WordLayout(width=2, first=6)
"""Two random words per value."""


class TransitionDrawer(Protocol):
    """Draws new values of one attribute."""

    def draw(self, codes: Int32Array, words: UInt64Array) -> Int32Array:
        """Draw the new positions of k values: (k,) int32. Absent values stay absent.

        ``words``: (k, 2) random words.
        """


AnyDrawer = TypeVar("AnyDrawer", bound=TransitionDrawer)


class DrawingMechanism(WindowedMechanism[tuple[AnyDrawer, ...]], Generic[AnyDrawer]):
    """A mechanism that masks with one ``TransitionDrawer`` per attribute."""

    def mask_batch(self, batch: Batch, keys: Keys) -> MaskedBatch:
        """Mask encoded records; ``keys`` gives the random words of each record.

        There is no noise, so the distortions' ``squared_noise`` is 0. Raises StatisticsError before the first
        statistics, and ParameterError if the batch has other attributes, or another size than the keys.
        """
        drawers = self._prepared_statistics()
        self._check(batch, keys)
        words = draw_words(keys, batch, CHOICE_WORDS)
        before = [column.codes for column in batch.columns]
        after = [drawer.draw(codes, two) for drawer, codes, two in zip(drawers, before, words, strict=True)]
        return MaskedBatch(
            tuple(Column(codes, column.offsets) for codes, column in zip(after, batch.columns, strict=True)),
            tuple(distortion_of(old, new, d) for old, new, d in zip(before, after, self._distances, strict=True)),
        )


class MarkovMechanism(DrawingMechanism[Transition]):
    """A mechanism that masks with one ``Transition`` per attribute, derived from the window's model."""

    def transition_matrix(self, attribute: str) -> tuple[list[str], Float64Array]:
        """Return the window's values of an attribute, v concept ids, and their (v, v) float64 transition probabilities.

        Raises StatisticsError before the first statistics, and ParameterError for an unknown attribute.
        """
        transition = self._prepared_statistics()[self._index(attribute)]
        return self._taxonomies[attribute].decode(transition.domain.values), transition.matrix()

    def _index(self, attribute: str) -> int:
        """Return the index of an attribute. Raises ParameterError if there is none of this name."""
        if attribute not in self._attributes:
            raise ParameterError(f"{attribute!r} is not an attribute: use one of {self._attributes}")
        return self._attributes.index(attribute)

    def _prepare(self, statistics: Statistics) -> tuple[Transition, ...]:
        if set(statistics.model) != set(self._attributes):
            raise StatisticsError("the statistics have no model of these attributes")
        return tuple(self._transition(name, statistics.model[name]) for name in self._attributes)

    def attribute_channel(self, j: int, values: Int32Array, counts: Counts | None) -> Channel:
        transition = self._prepared_statistics()[j]
        domain = transition.domain
        indices = domain.index_of[values]
        rows = np.where((indices >= 0)[:, None], transition.matrix()[indices], domain.shares[None, :])
        return Channel(values, rows, value_classes(domain.values, len(self._distances[j].taxonomy)))

    @abstractmethod
    def _transition(self, attribute: str, model: Mapping[str, Any]) -> Transition:
        """Create the transition of an attribute from its model. Raises StatisticsError if the model is invalid."""

    def _taxonomy_size(self, attribute: str) -> int:
        return len(self._taxonomies[attribute])
