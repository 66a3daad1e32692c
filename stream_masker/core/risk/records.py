"""The law of records of the window, and of their masks given the record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from stream_masker.core.batch import ABSENT, Batch, Column, MaskedBatch
from stream_masker.core.dtypes import Float64Array, Float64Matrix, Int32Array, Int64Array
from stream_masker.core.random import Keys, PositionKeys
from stream_masker.core.risk.channel import Channel
from stream_masker.core.statistics.counts import Counts, SparseCounts

SECRET = b"random words of an assessment"
"""The secret of the random words of an assessment. It needs no protection: the masked records are never published."""


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
    def of(cls, counts: Counts, attributes: tuple[int, ...], sizes: Sequence[int]) -> Tuples:
        """Return the combinations of the counts.

        ``attributes``: one index, or two ascending ones. ``sizes``: the number of concepts of every taxonomy.
        """
        if len(attributes) == 1:
            values, prior = value_law(counts.values[attributes[0]])
            return cls(attributes, (values,), prior)
        column = counts.pairs[attributes[0], attributes[1]]
        first, second = np.divmod(column.keys, sizes[attributes[1]])
        return cls(attributes, (first.astype(np.int32), second.astype(np.int32)), column.counts / column.rows)


class MaskLaw(Protocol):
    """The probability of masks given the original values of a record."""

    def likelihoods(self, masked: Sequence[tuple[int, ...]]) -> Float64Matrix:
        """Return (n, t) float64: the probability of n combinations of a position for each attribute, given each
        combination of ``Tuples``.

        Probabilities may have a common factor.
        """


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

    def likelihoods(self, masked: Sequence[tuple[int, ...]]) -> Float64Matrix:
        result = np.ones((len(masked), self.indices[0].size))
        for channel, rows, positions in zip(self.channels, self.indices, np.array(masked).T, strict=True):
            result *= channel.rows[rows, channel.classes.class_of[positions][:, None]]
        return result


def value_law(column: SparseCounts) -> tuple[Int32Array, Float64Array]:
    """Return the values of one attribute, (n,) int32 ascending positions, and the share of each, (n,) float64."""
    return column.keys.astype(np.int32), column.counts / column.rows


class RecordMasker(Protocol):
    """A mechanism with statistics in force, which masks encoded records."""

    @property
    def attributes(self) -> tuple[str, ...]: ...

    def mask_batch(self, batch: Batch, keys: Keys) -> MaskedBatch: ...


def masked_columns(
    masker: RecordMasker,
    columns: Mapping[int, Column],
    size: int,
    *,
    number: int = 0,
    context: Int64Array | None = None,
) -> dict[int, Int32Array]:
    """Mask n records of which some columns are given, by attribute; return their masks, by attribute.

    Every value has noise of its own, also one that occurs twice in a record.

    * ``number``: distinguishes independent random words. ``context``: (n,), if the mechanism has one.
    """
    absent = Column(np.full(size, ABSENT, np.int32))
    whole = tuple(columns.get(j, absent) for j in range(len(masker.attributes)))
    keys = PositionKeys(SECRET, "", number, np.arange(size))
    masked = masker.mask_batch(Batch(size, whole, context=context), keys)
    return {j: masked.columns[j].codes for j in columns}


def hoeffding_bound(draws: float, error: float = 0.05) -> float:
    """Return √(ln(2/δ) / 2n): with confidence 1 − δ, the mean of n independent terms in [0, 1] differs from its
    expectation by no more (Hoeffding 1963)."""
    return float(np.sqrt(np.log(2.0 / error) / (2.0 * draws)))
