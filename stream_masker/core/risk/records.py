"""The law of records of the window, and of their masks given the record."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol, Self, runtime_checkable

import numpy as np

from stream_masker.core.dtypes import Float64Array, Int32Array, Int64Array
from stream_masker.core.risk.channel import Channel
from stream_masker.core.statistics.counts import Counts, SparseCounts


@dataclass(frozen=True, slots=True, eq=False)
class Tuples:
    """The t distinct combinations of values of one or two attributes in the window. Immutable.

    * ``attributes``: the indices of the attributes.
    * ``codes``: for each of them, (t,) int32 positions.
    * ``prior``: (t,) float64, the share of each combination among the rows that have all of these values.
    """

    attributes: tuple[int, ...]
    codes: tuple[Int32Array, ...]
    prior: Float64Array

    @classmethod
    def of(cls, counts: Counts, attributes: tuple[int, ...], sizes: tuple[int, ...]) -> Tuples:
        """Return the combinations of the counts.

        ``attributes``: one index, or two ascending ones. ``sizes``: the number of concepts of every taxonomy.
        """
        if len(attributes) == 1:
            column = counts.values[attributes[0]]
            return cls(attributes, (column.keys.astype(np.int32),), column.counts / column.rows)
        first, second = attributes
        column = counts.pairs[first, second]
        codes = np.divmod(column.keys, sizes[second])
        return cls(attributes, (codes[0].astype(np.int32), codes[1].astype(np.int32)), column.counts / column.rows)

    def draw(self, generator: np.random.Generator, size: int) -> Int64Array:
        """Draw combinations by their shares: (size,) int64 indices."""
        return generator.choice(self.prior.size, size, p=self.prior)


class MaskLaw(Protocol):
    """The probability of masks given the original values of a record."""

    def likelihood(self, masked: tuple[int, ...]) -> Float64Array:
        """Return (t,) float64: the probability of one position for each attribute, given each combination of
        ``Tuples``.

        Probabilities may have a common factor.
        """


@runtime_checkable
class SelectableLaw(MaskLaw, Protocol):
    """A law of masks that can be restricted to some of the combinations."""

    def selected(self, indices: Int64Array) -> Self:
        """Return the law for these combinations only."""


@dataclass(frozen=True, slots=True, eq=False)
class IndependentMasks:
    """Masks that depend on the value of their own attribute alone; ``indices``: (t,) rows of each channel."""

    channels: tuple[Channel, ...]
    indices: tuple[Int64Array, ...]

    @classmethod
    def of(cls, tuples: Tuples, channels: tuple[Channel, ...]) -> IndependentMasks:
        """Return the law of masks drawn from these channels.

        ``channels``: one for each attribute of the combinations, with all of its values in ascending order.
        """
        indices = [np.searchsorted(c.values, codes) for c, codes in zip(channels, tuples.codes, strict=True)]
        return cls(channels, tuple(indices))

    def likelihood(self, masked: tuple[int, ...]) -> Float64Array:
        result = np.ones(self.indices[0].size)
        for channel, rows, position in zip(self.channels, self.indices, masked, strict=True):
            result *= channel.rows[rows, channel.classes.class_of[position]]
        return result

    def selected(self, indices: Int64Array) -> Self:
        return replace(self, indices=tuple(rows[indices] for rows in self.indices))


def value_law(column: SparseCounts) -> tuple[Int32Array, Float64Array]:
    """Return the values of one attribute, (n,) int32 ascending positions, and the share of each, (n,) float64."""
    return column.keys.astype(np.int32), column.counts / column.rows
