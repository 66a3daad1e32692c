"""The laws of a window with contexts: the model of each, and which contexts it masks.

A context of at least ``least`` records has a law of its own. The rare contexts with equal first kinds have one law
together, if together they have as many; otherwise that of all contexts with these kinds; otherwise they count as rare
among the contexts with one kind less in common. A law that cannot meet the target is not fitted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from stream_masker.core.arrays import located
from stream_masker.core.batch import Batch, Column, Distortion, MaskedBatch
from stream_masker.core.context import Context
from stream_masker.core.dtypes import Float64Array, Float64Matrix, Int32Array, Int64Array, UInt64Array
from stream_masker.core.mechanisms.transport.disclosure import Disclosure
from stream_masker.core.mechanisms.transport.model import ModelBuilder, TransportSettings, read_transport
from stream_masker.core.mechanisms.transport.prepared import PreparedTransport
from stream_masker.core.risk.channel import Channel
from stream_masker.core.risk.classes import value_classes
from stream_masker.core.statistics import compute_statistics
from stream_masker.core.statistics.counts import Counts, merge
from stream_masker.core.statistics.packing import read_model_field
from stream_masker.errors import StatisticsError


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


@dataclass(frozen=True, slots=True)
class ContextSettings:
    """``context``: its attributes. ``least``: the number of records that a law of its own needs."""

    context: Context
    least: int


@dataclass(frozen=True, slots=True)
class LawsBuilder:
    """Computes the laws of one window; ``previous``: those in force, whose solutions are the start."""

    settings: TransportSettings
    contexts: ContextSettings
    counts: Counts
    previous: Laws | None
    fitted: list[dict[str, Any]] = field(default_factory=list)

    def build(self) -> dict[str, Any]:
        """Return the model. Raises StatisticsError if the target cannot be met by the window."""
        context = self.contexts.context
        self._fit_below((), np.arange(context.size))
        return {"context": context.to_list(), "laws": self.fitted}

    def _fit_below(self, kinds: tuple[int, ...], contexts: Int64Array) -> Int64Array:
        """Fit the laws of the contexts with these first kinds; return the contexts that are left without one."""
        sizes = self.contexts.context.sizes
        if len(kinds) == len(sizes):
            return contexts[:0] if self._fits(kinds, contexts, contexts) else contexts
        parts = enumerate(contexts.reshape(sizes[len(kinds)], -1))
        left = np.concatenate([self._fit_below((*kinds, kind), part) for kind, part in parts])
        if not left.size or self._fits(kinds, left, left) or self._fits(kinds, left, contexts):
            return contexts[:0]
        return left

    def _fits(self, kinds: tuple[int, ...], contexts: Int64Array, learned: Int64Array) -> bool:
        """Fit the law of the ``learned`` contexts, for masking ``contexts``; return whether there is one."""
        whole = learned.size == self.contexts.context.size
        if not whole and self._records(learned) < self.contexts.least:
            return False
        try:
            model = self._model(kinds, self.counts if whole else self._counts_of(learned))
        except StatisticsError:
            if whole:
                raise
            return False
        records = [self._records(contexts), self._records(learned)]
        self.fitted.append({"kinds": list(kinds), "contexts": contexts.tolist(), "records": records, **model})
        return True

    def _records(self, contexts: Int64Array) -> int:
        found = self.counts.contexts
        return sum(found[c].records for c in contexts.tolist() if c in found)

    def _counts_of(self, contexts: Int64Array) -> Counts:
        found = self.counts.contexts
        return merge(found[c] for c in contexts.tolist() if c in found)

    def _model(self, kinds: tuple[int, ...], counts: Counts) -> dict[str, Any]:
        statistics = compute_statistics(counts, self.settings.attributes, self.settings.distances, version=1)
        before = () if self.previous is None else self.previous.laws
        previous = next((law.transport for law in before if law.kinds == kinds), None)
        model = ModelBuilder(self.settings, counts, statistics, previous).build()
        return {"spread": np.diag(statistics.covariance).tolist(), **model}


def read_laws(settings: TransportSettings, context: Context, model: Mapping[str, Any]) -> Laws:
    """Return what masking needs. Raises StatisticsError if the model is invalid, or of other contexts."""
    given, fitted = read_model_field(model, "context"), read_model_field(model, "laws")
    if given != context.to_list() or not isinstance(fitted, list):
        raise StatisticsError("the model's contexts are not those of this mechanism")
    laws = tuple(_read_law(settings, context, each) for each in fitted)
    law_of = np.full(context.size, -1, np.int64)
    for index, law in enumerate(laws):
        law_of[law.contexts] = index
    if law_of.min() < 0 or len({law.kinds for law in laws}) < len(laws):
        raise StatisticsError("the model does not have one law for each context")
    return Laws(context, laws, law_of)


def _read_law(settings: TransportSettings, context: Context, model: object) -> Law:
    kinds, contexts = (_whole_numbers(model, name) for name in ("kinds", "contexts"))
    records, spread = _whole_numbers(model, "records"), read_model_field(model, "spread")
    if not _begin_with(context, contexts, kinds) or records.shape != (2,) or not records[0] <= records[1] > 0:
        raise StatisticsError("a law of the model has other contexts, or no records")
    if not isinstance(spread, list) or not all(isinstance(each, float) for each in spread):
        raise StatisticsError("the spread of a law is not a list of numbers")
    transport = read_transport(settings, model, np.array(spread))
    return Law(tuple(kinds.tolist()), contexts, int(records[0]), int(records[1]), transport)


def _whole_numbers(model: object, name: str) -> Int64Array:
    """Return (n,) int64 of a model's field. Raises StatisticsError."""
    given = read_model_field(model, name)
    if not isinstance(given, list) or not all(type(each) is int and 0 <= each < 2**53 for each in given):
        raise StatisticsError(f"the {name} of a law are not whole numbers")
    return np.array(given, np.int64)


def _begin_with(context: Context, contexts: Int64Array, kinds: Int64Array) -> bool:
    """Return whether there are contexts, and all of them have these first kinds."""
    if not contexts.size or contexts.max() >= context.size or kinds.size > len(context.sizes):
        return False
    first = np.array(np.unravel_index(contexts, context.sizes))[: kinds.size]
    return bool((first == kinds[:, None]).all())
