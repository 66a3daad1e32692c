"""The tables and figures of 2012 on any data: similarity by co-occurrence, entropies and associations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from stream_masker.core.batch import Batch, Column, MaskedBatch
from stream_masker.core.dtypes import Float64Array, Int64Array
from stream_masker.core.mechanisms.transition.base import MarkovMechanism
from stream_masker.core.mechanisms.transition.vicus.mechanism import RandomTransitions, Vicus
from stream_masker.core.ontology import Taxonomy
from stream_masker.core.similarity import ValueGraph, most_frequent
from stream_masker.core.statistics import count_batch
from stream_masker.core.statistics.counts import Counts, SparseCounts
from stream_masker.errors import ParameterError, StatisticsError
from stream_masker.evaluation.candidates import TRANSITION_RATIOS
from stream_masker.evaluation.dataset import DataSet, keys_of
from stream_masker.evaluation.entropy import average_security


def contingency(pair: SparseCounts, size: int) -> Int64Array:
    """Return (r, c) int64: the counts of the pairs of values that two attributes have.

    ``size``: the number of concepts in the taxonomy of the second attribute.
    """
    a, b = np.divmod(pair.keys, size)
    rows, columns = np.unique(a), np.unique(b)
    table = np.zeros((rows.size, columns.size), np.int64)
    table[np.searchsorted(rows, a), np.searchsorted(columns, b)] = pair.counts
    return table


def chi_squares(counts: Counts, sizes: Sequence[int]) -> dict[tuple[int, int], float]:
    """Return Pearson's χ² of each pair of attributes that occur together, from the counts of a window.

    ``sizes``: the number of concepts in the taxonomy of each attribute.
    """
    return {(i, j): chi_square(contingency(pair, sizes[j])) for (i, j), pair in counts.pairs.items() if len(pair.keys)}


def chi_square(observed: Int64Array) -> float:
    """Return χ² = Σ (O − E)² / E of a contingency table, E = row · column / total; no row or column is empty."""
    expected = np.outer(observed.sum(axis=1), observed.sum(axis=0)) / observed.sum()
    return float(((observed - expected) ** 2 / expected).sum())


CHOSEN_RATIO = (5.0, 20.0)
"""k1 and k2 of figures 5 to 7."""

KNOWN_COUNTS = (1, 2, 3)
"""The numbers of known attributes in Figure 5, which also has the number of all of them."""

SHOWN_VALUES = 6
"""The number of values in the similarity matrices, as in Table 2."""

FILES = 10
"""The number of masked files whose associations are compared; the paper has 30."""

MAX_ENTROPY_RECORDS = 5_000
"""Entropies compare each record with each masked one, so they are measured on this many records at most."""

KINDS_OF_2012 = {"VICUS": Vicus, "Random": RandomTransitions}


@dataclass(frozen=True, slots=True)
class EntropyRow:
    """The average entropies of a method in bits (Table 3), if the intruder knows ``known`` attributes."""

    method: str
    k1: float
    k2: float
    known: int
    record: float
    confidential: float


@dataclass(frozen=True, slots=True)
class Similarities:
    """S', S'' and S of the most frequent values of an attribute (Table 2)."""

    attribute: str
    values: tuple[str, ...]
    direct: Float64Array
    transitive: Float64Array
    total: Float64Array


@dataclass(frozen=True, slots=True)
class CoOccurrence:
    """The measures of 2012: entropies by parameters, then by known attributes; similarities; χ² of a pair.

    ``pair``: the attributes of the χ². ``original``: their χ². ``files``: that of each masked file, by method.
    ``reason``: why there are no measures; empty if there are.
    """

    confidential: str
    entropies: tuple[EntropyRow, ...] = ()
    by_knowledge: tuple[EntropyRow, ...] = ()
    similarities: Similarities | None = None
    pair: tuple[str, str] = ("", "")
    original: float = 0.0
    files: tuple[tuple[str, tuple[float, ...]], ...] = ()
    reason: str = ""


def co_occurrence(
    data: DataSet,
    *,
    confidential: str,
    files: int = FILES,
    pair: tuple[str, str] | None = None,
    records: int = MAX_ENTROPY_RECORDS,
    **options: Any,
) -> CoOccurrence:
    """Measure VICUS and Random.

    ``confidential``: the attribute that the intruder wants to know. ``files``: the number of masked files whose χ² is
    measured. ``pair``: the attributes of the χ², by default those of the greatest one. ``records``: the number of
    records that are measured at most, the first ones. ``options``: further parameters of both methods.

    Of arrays, the first elements are measured; records that lack a value are left out. Attributes with a single value
    carry no information and do not count as known.
    """
    batch = scalar_records(data, records)
    try:
        return _Measures(data, batch, confidential, options).all(files, pair)
    except (ParameterError, StatisticsError) as error:
        return CoOccurrence(confidential, reason=str(error))


def scalar_records(data: DataSet, limit: int) -> Batch:
    """Return the first ``limit`` records that have every nominal attribute, with the first element of arrays."""
    values = np.stack([column.first_codes for column in data.whole.columns], axis=1)
    rows = values[(values >= 0).all(axis=1)][:limit]
    return Batch(len(rows), tuple(Column(np.ascontiguousarray(rows[:, j])) for j in range(rows.shape[1])))


@dataclass(frozen=True, slots=True)
class _Measures:
    data: DataSet
    batch: Batch
    confidential: str
    options: dict[str, Any]

    def all(self, files: int, names: tuple[str, str] | None) -> CoOccurrence:
        attributes = self.data.attributes
        if not self.batch.size or not self._informative:
            raise ParameterError(f"the measures of 2012 need an attribute with two values beside {self.confidential}")
        pair = self._strongest_pair() if names is None else (attributes.index(names[0]), attributes.index(names[1]))
        return CoOccurrence(
            confidential=self.confidential,
            entropies=tuple(self._entropies(TRANSITION_RATIOS, [1])),
            by_knowledge=tuple(self._entropies([CHOSEN_RATIO], self._known_counts)),
            similarities=self._similarities(),
            pair=(attributes[pair[0]], attributes[pair[1]]),
            original=self._pearson(self.batch.columns, pair),
            files=tuple((method, tuple(self._of_files(method, pair, files))) for method in KINDS_OF_2012),
        )

    @property
    def _informative(self) -> int:
        """The number of attributes with several values, without the confidential one."""
        columns = zip(self.data.attributes, self.batch.columns, strict=True)
        return sum(name != self.confidential and np.unique(column.codes).size > 1 for name, column in columns)

    @property
    def _known_counts(self) -> list[int]:
        return sorted({self._informative, *(count for count in KNOWN_COUNTS if count < self._informative)})

    @property
    def _taxonomies(self) -> dict[str, Taxonomy]:
        return dict(self.data.taxonomies)

    @property
    def _sizes(self) -> list[int]:
        return [len(tau) for tau in self._taxonomies.values()]

    def _mechanism(self, method: str, k1: float, k2: float) -> MarkovMechanism:
        kind = KINDS_OF_2012[method]
        made = kind(self._taxonomies, k1=k1, k2=k2, window=self.batch.size, seed=self.data.secret, **self.options)
        made.restore(made.snapshot_of(made.compute(count_batch(self.batch, self._sizes), version=1)))
        return made

    def _masked(self, mechanism: MarkovMechanism, number: int) -> MaskedBatch:
        return mechanism.mask_batch(self.batch, keys_of(self.data.secret, number * self.batch.size, self.batch.size))

    def _entropies(self, ratios: Sequence[tuple[float, float]], known: Sequence[int]) -> Iterator[EntropyRow]:
        for (k1, k2), method in product(ratios, KINDS_OF_2012):
            mechanism = self._mechanism(method, k1, k2)
            masked = self._masked(mechanism, 0)
            for count in known:
                average = average_security(mechanism, self.batch, masked, confidential=self.confidential, known=count)
                yield EntropyRow(method, k1, k2, count, average.record, average.confidential)

    def _similarities(self) -> Similarities:
        counts = count_batch(self.batch, self._sizes)
        graph = ValueGraph.of(counts, tuple(self._sizes), multigraph=True, most_values=1_000)
        direct = graph.direct()
        transitive = graph.transitive(direct, 0.6)
        shown = np.searchsorted(graph.values[0], most_frequent(counts.values[0], SHOWN_VALUES))
        first, second = (matrices[0][np.ix_(shown, shown)] for matrices in (direct, transitive))
        name = self.data.attributes[0]
        values = tuple(self._taxonomies[name].decode(graph.values[0][shown]))
        return Similarities(name, values, first, second, 0.6 * first + 0.4 * second)

    def _strongest_pair(self) -> tuple[int, int]:
        associations = chi_squares(count_batch(self.batch, self._sizes), self._sizes)
        return max(sorted(associations), key=associations.__getitem__)

    def _pearson(self, columns: Sequence[Column], pair: tuple[int, int]) -> float:
        sizes = [self._sizes[j] for j in pair]
        counts = count_batch(Batch(self.batch.size, tuple(columns[j] for j in pair)), sizes)
        return chi_squares(counts, sizes)[0, 1]

    def _of_files(self, method: str, pair: tuple[int, int], files: int) -> Iterator[float]:
        mechanism = self._mechanism(method, *CHOSEN_RATIO)
        for number in range(files):
            yield self._pearson(self._masked(mechanism, number).columns, pair)
