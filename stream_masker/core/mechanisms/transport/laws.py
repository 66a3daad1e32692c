"""The transports of contexts: one law for each context, and one for rare contexts that share their first kinds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from stream_masker.core.arrays import located
from stream_masker.core.batch import Batch, Column, Distortion, MaskedBatch
from stream_masker.core.context import Context
from stream_masker.core.dtypes import Float64Array, Float64Matrix, Int32Array, Int64Array, UInt64Array
from stream_masker.core.mechanisms.transport.disclosure import Disclosure
from stream_masker.core.mechanisms.transport.prepared import PreparedTransport
from stream_masker.core.risk.channel import Channel
from stream_masker.core.risk.classes import value_classes


@dataclass(frozen=True, slots=True, eq=False)
class Law:
    """The transport of some contexts.

    * ``kinds``: their common first kinds; those of all context attributes for a single context.
    * ``contexts``: (k,) int64, the contexts that are masked by it. ``records``: their records in the window.
    * ``learned``: the number of records whose law it keeps. It exceeds ``records`` if they were too few.
    """

    kinds: tuple[int, ...]
    contexts: Int64Array
    records: int
    learned: int
    transport: PreparedTransport


@dataclass(frozen=True, eq=False)
class Laws:
    """The transports of all contexts. ``law_of``: (c,) int64, the index of each context's law."""

    context: Context
    laws: tuple[Law, ...]
    law_of: Int64Array

    def make_channels(self) -> None:
        """Compute the channels of all laws (``PreparedTransport.make_channels``)."""
        for law in self.laws:
            law.transport.make_channels()

    def transport_of(self, kinds: tuple[int, ...]) -> PreparedTransport | None:
        """Return the transport of the contexts with these first kinds; None if there is none."""
        return next((law.transport for law in self.laws if law.kinds == kinds), None)

    def mask(self, batch: Batch, words: Sequence[UInt64Array]) -> MaskedBatch:
        """Mask records, each by the law of its context; see ``PreparedTransport.mask``."""
        assert batch.context is not None
        own = self.law_of[batch.context]
        codes = [np.full(column.codes.size, -1, np.int32) for column in batch.columns]
        distortions = [Distortion()] * len(codes)
        for index in np.unique(own).tolist():
            chosen = own == index
            rows = [column.of_records(chosen) for column in batch.columns]
            part = [each[inside] for each, inside in zip(words, rows, strict=True)]
            masked = self.laws[index].transport.mask(batch.select(chosen), part)
            for j, (column, inside) in enumerate(zip(masked.columns, rows, strict=True)):
                codes[j][inside] = column.codes
                distortions[j] += masked.distortions[j]
        columns = tuple(Column(each, column.offsets) for each, column in zip(codes, batch.columns, strict=True))
        return MaskedBatch(columns, tuple(distortions))

    def channel(self, j: int, values: Int32Array) -> Channel:
        """Return the transition probabilities of some values of attribute j, averaged over their contexts."""
        each = [law.transport.values[j] for law in self.laws]
        positions = np.unique(np.concatenate([one.positions for one in each]))
        rows = np.zeros((values.size, positions.size))
        for share, law, one in zip(self._shares(j, values), self.laws, each, strict=True):
            rows[:, np.searchsorted(positions, one.positions)] += share[:, None] * law.transport.channel(j, values).rows
        return Channel(values, rows, value_classes(positions, len(each[0].distance.taxonomy)))

    def changed_at_least(self, j: int) -> float:
        """Return a lower bound of the share of an attribute's values that change."""
        return float(self._weights @ [law.transport.changed_at_least(j) for law in self.laws])

    def disclosure(self, names: tuple[str, ...]) -> Disclosure:
        """Return what masked records tell an attacker who reads their context: averages, and the greatest certainty."""
        return Disclosure.averaged([law.transport.disclosure(names) for law in self.laws], self._weights)

    @cached_property
    def _weights(self) -> Float64Array:
        """(l,) float64: the share of records of each law."""
        records = np.array([law.records for law in self.laws], np.float64)
        return np.asarray(records / records.sum())

    def _shares(self, j: int, values: Int32Array) -> Float64Matrix:
        """Return (l, n) float64: P(law | value); the shares of all records for a value of no law."""
        rows = np.zeros((len(self.laws), values.size))
        for row, law in zip(rows, self.laws, strict=True):
            own = law.transport.values[j]
            place, known = located(own.positions, values)
            row[:] = np.where(known, own.counts[place] * (law.records / law.learned), 0.0)
        total = rows.sum(axis=0)
        return np.where(total > 0.0, rows / np.where(total > 0.0, total, 1.0), self._weights[:, None])
