"""The tables and figures of 2012 on any data: similarity by co-occurrence, entropies and associations.

The entropies are the uncertainty of an intruder about a record and about its confidential value (section 3.2). The
intruder knows the transition probabilities of the mechanism and the masked file. The intruder also knows the original
values of some attributes of one record, and wants its confidential value.

* Record: the probability px that masked record x belongs to that record is proportional to Πk P(the known value of
  attribute k is the original of x's masked value). The record entropy is Σ px·log2(1 / px), in bits.
* Confidential value: Di = Σx P(ci is the original of x's masked value)·px (algorithm 2). Its entropy is
  Σ Di·log2(1 / Di), in bits.
* The probability of an original value follows by Bayes' theorem from the transition probabilities and a prior. The
  paper states no prior, and an intruder without the original file has none: all values are equally likely.

Equal records are one term, weighted by their number. This gives the sums of the algorithm without a loop over records.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from stream_masker.core.batch import Batch, Column, MaskedBatch
from stream_masker.core.dtypes import Float64Array, Int64Array
from stream_masker.core.mechanisms.markov import MarkovMechanism
from stream_masker.core.mechanisms.vicus import RandomTransitions, ValueGraph, Vicus
from stream_masker.core.statistics import count_batch
from stream_masker.core.statistics.counts import Counts, SparseCounts
from stream_masker.errors import ParameterError
from stream_masker.evaluation.candidates import TRANSITION_RATIOS
from stream_masker.evaluation.dataset import DataSet, keys_of


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


RATIO_OF_FIGURES = (5.0, 20.0)
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
    """

    confidential: str
    entropies: tuple[EntropyRow, ...] = ()
    by_knowledge: tuple[EntropyRow, ...] = ()
    similarities: Similarities | None = None
    pair: tuple[str, str] = ("", "")
    original: float = 0.0
    files: tuple[tuple[str, tuple[float, ...]], ...] = ()


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
    carry no information and do not count as known. Raises ParameterError and StatisticsError like the mechanisms.
    """
    return _Measures(data, scalar_records(data, records), confidential, options).all(files, pair)


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
            by_knowledge=tuple(self._entropies([RATIO_OF_FIGURES], self._known_counts)),
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
    def _sizes(self) -> list[int]:
        return [len(tau) for tau in self.data.taxonomies.values()]

    def _mechanism(self, method: str, k1: float, k2: float) -> MarkovMechanism:
        kind = KINDS_OF_2012[method]
        made = kind(self.data.taxonomies, k1=k1, k2=k2, window=self.batch.size, seed=self.data.secret, **self.options)
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
        graph = ValueGraph.of(counts, tuple(self._sizes), multigraph=True)
        direct = graph.direct()
        transitive = graph.transitive(direct, 0.6)
        shown = np.sort(np.argsort(-counts.values[0].counts, kind="stable")[:SHOWN_VALUES])
        first, second = (matrices[0][np.ix_(shown, shown)] for matrices in (direct, transitive))
        name = self.data.attributes[0]
        values = tuple(self.data.taxonomies[name].decode(graph.values[0][shown]))
        return Similarities(name, values, first, second, 0.6 * first + 0.4 * second)

    def _strongest_pair(self) -> tuple[int, int]:
        associations = chi_squares(count_batch(self.batch, self._sizes), self._sizes)
        return max(sorted(associations), key=associations.__getitem__)

    def _pearson(self, columns: Sequence[Column], pair: tuple[int, int]) -> float:
        sizes = [self._sizes[j] for j in pair]
        counts = count_batch(Batch(self.batch.size, tuple(columns[j] for j in pair)), sizes)
        return chi_squares(counts, sizes)[0, 1]

    def _of_files(self, method: str, pair: tuple[int, int], files: int) -> Iterator[float]:
        mechanism = self._mechanism(method, *RATIO_OF_FIGURES)
        for number in range(files):
            yield self._pearson(self._masked(mechanism, number).columns, pair)


CELLS = 1 << 22
"""The most pairs of a known and a masked combination of values that are processed at once."""


class Security(NamedTuple):
    """Average entropies over all records, in bits. record: up to log2(records). confidential: up to log2(values)."""

    record: float
    confidential: float


def entropy(p: Float64Array, counts: Int64Array | float = 1.0) -> Float64Array:
    """Return Σ count·p·log2(1 / p) along the last axis, in bits; terms with p = 0 are 0."""
    return np.asarray(-(counts * p * np.log2(p, where=p > 0.0, out=np.zeros_like(p))).sum(axis=-1))


def posterior(matrix: Float64Array) -> Float64Array:
    """Return (v, v): in row i and column j, the probability that i is the original of masked value j. Columns sum to 1.

    matrix: (v, v), row-stochastic transition probabilities. All originals are equally likely, also those of a value
    that never results from masking.
    """
    total = matrix.sum(axis=0)
    result: Float64Array = np.where(total > 0.0, matrix / np.where(total > 0.0, total, 1.0), 1.0 / len(matrix))
    return result


def security(
    original: Int64Array,
    masked: Int64Array,
    matrices: Sequence[Float64Array],
    *,
    known: Sequence[int],
    confidential: int,
) -> Security:
    """Return the average entropies over all records as targets of the intruder.

    original, masked: (n, p) int64, the values of each attribute as indices into its matrix. matrices: (v, v) for each
    attribute, row-stochastic. known: the attributes whose original values the intruder knows. confidential: the
    attribute that the intruder wants.

    Raises ParameterError if no attribute is known, or if the confidential one is.
    """
    if not known or confidential in known:
        raise ParameterError(f"known={list(known)!r} is not allowed: use attributes other than the confidential one")
    targets, weights = np.unique(original[:, list(known)], axis=0, return_counts=True)
    observed, counts = np.unique(masked[:, [*known, confidential]], axis=0, return_counts=True)
    origins = [posterior(matrices[k])[:, observed[:, column]] for column, k in enumerate([*known, confidential])]
    record, confidential_value = np.empty(len(targets)), np.empty(len(targets))
    step = max(1, CELLS // max(len(observed), 1))
    for block in (slice(start, start + step) for start in range(0, len(targets), step)):
        of_known = (origin[values] for origin, values in zip(origins[:-1], targets[block].T, strict=True))
        likely = reduce(np.multiply, of_known)
        each = likely / (likely @ counts)[:, None]
        record[block] = entropy(each, counts)
        confidential_value[block] = entropy((each * counts) @ origins[-1].T)
    return Security(float(record @ weights / len(original)), float(confidential_value @ weights / len(original)))


def average_security(
    mechanism: MarkovMechanism, original: Batch, masked: MaskedBatch, *, confidential: str, known: int = 1
) -> Security:
    """Return the average over all records, and over intruders who each know the original values of ``known``
    attributes.

    Table 3 of 2012 has ``known`` = 1: each attribute except the ``confidential`` one is known in turn. For more, each
    run of attributes in their order is known in turn, where the first attribute follows the last. Attributes with a
    single value carry no information and are left out.

    Raises ParameterError for array attributes, and for values that are absent or not in the window.
    """
    matrices = [mechanism.transition_matrix(name)[1] for name in mechanism.attributes]
    before = value_indices(mechanism, original.columns)
    after = value_indices(mechanism, masked.columns)
    target = mechanism.attributes.index(confidential)
    others = [j for j, matrix in enumerate(matrices) if j != target and len(matrix) > 1]
    choices = _choices(others, known)
    of_choices = [security(before, after, matrices, known=choice, confidential=target) for choice in choices]
    return Security(*np.mean(of_choices, axis=0).tolist())


def _choices(others: Sequence[int], known: int) -> list[list[int]]:
    """Return all cyclic runs of ``known`` attributes, so that each attribute is known equally often."""
    if not 1 <= known <= len(others):
        raise ParameterError(f"known={known} is not allowed: use 1 to {len(others)} attributes")
    starts = range(len(others)) if known < len(others) else range(1)
    return [[others[(start + k) % len(others)] for k in range(known)] for start in starts]


def value_indices(mechanism: MarkovMechanism, columns: Sequence[Column]) -> Int64Array:
    """Return (n, p) int64: the values of scalar columns as indices into the transition matrices of their attributes.

    Raises ParameterError for arrays, and for values that are absent or not in the window.
    """
    if any(column.is_array for column in columns):
        raise ParameterError("entropies are defined for scalar attributes only, not for arrays")
    indices = [_indices(mechanism, j, column) for j, column in enumerate(columns)]
    if any((column < 0).any() for column in indices):
        raise ParameterError("entropies need every value to be present and in the window")
    return np.stack(indices, axis=1)


def _indices(mechanism: MarkovMechanism, j: int, column: Column) -> Int64Array:
    tau = mechanism.distances[j].taxonomy
    values = tau.encode(mechanism.transition_matrix(mechanism.attributes[j])[0])
    index = np.full(len(tau) + 1, -1, np.int64)
    index[values] = np.arange(len(values))
    return index[column.codes]
