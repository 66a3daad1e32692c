"""Microaggregation on marginality (2013: section 3.1): groups of k alike records, each masked alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.anonymity import class_sizes
from stream_masker.core.batch import Batch, Column, MaskedBatch, Tally
from stream_masker.core.distance import Distance
from stream_masker.core.dtypes import Float64Array, Int32Array, Int64Array, UInt64Array
from stream_masker.core.marginality import marginality_mean_from_counts, marginality_variance_from_counts, weights
from stream_masker.core.mechanisms.distortion import distortion_tally
from stream_masker.core.mechanisms.method_card import MethodCard
from stream_masker.core.mechanisms.microaggregation import centroids
from stream_masker.core.mechanisms.microaggregation.groups import Comparable, GroupValues, patterns
from stream_masker.core.mechanisms.noise.numeric import number_words, uniforms
from stream_masker.core.mechanisms.windowed import DistanceChoice, WindowedMechanism
from stream_masker.core.numeric import Numeric
from stream_masker.core.ontology import Taxonomy
from stream_masker.core.random.keys import Keys
from stream_masker.core.random.layout import ROUNDING_WORD, TIES, draw_words
from stream_masker.core.statistics.counts import Counts, SparseCounts
from stream_masker.core.statistics.summary import Statistics
from stream_masker.core.validation import require_one_of, require_type
from stream_masker.errors import AnonymityError, ParameterError, StatisticsError, UnknownConceptError

AGGREGATION_VARIANTS = ("semantic", "classic")
SCALINGS = ("balanced", "paper")

ALL_RECORDS = 1 << 60
"""The lane whose first word tells records apart that are equally near or far."""


@dataclass(frozen=True, slots=True)
class _InForce:
    """Of the window: each attribute's weight in the S-distance and its mean; of nominal ones as positions."""

    weights: Float64Array
    means: Int32Array
    numeric_weights: Float64Array
    numeric_means: Float64Array


class Microaggregation(WindowedMechanism[_InForce]):
    """Masks groups of k to 2k − 1 alike records by the mean of their group, so that masked records are k-anonymous.

    MDAV (``core.mechanisms.microaggregation.mdav``) makes the groups of what is masked together, by the S-distance
    (2013: equation 7)
    with the variances of the calibration window, of which that is a sample. ``semantic``: marginalities by distance,
    the mean is the least marginal value of the group. ``classic``, the paper's baseline: 0 for equal values and 1 for
    others, so that the mean is the mode. Means of numbers are rounded to the nearest whole one where need be. Of values
    and records that are equally good, which the paper leaves open, random words of the records choose.

    By equation (7) as printed a nominal variance grows with the window, and nominal attributes hardly matter beside
    numeric ones (see ``core.marginality.SDistance``). ``scaling="balanced"``, ours, lets every attribute weigh alike;
    ``"paper"`` follows the equation. Where no number and no absent value is, there is no difference.

    k-anonymity is that of scalars and numbers, and is checked on what was masked (AnonymityError); it counts records,
    several of which may be of one person. Absent values stay absent: only records with the same attributes make groups.
    Where there are fewer than k of these, all of their values become the window's means, which tell nothing of the
    record but what it lacks (counted as *truncated*). Elements of arrays make groups by themselves, each of k elements
    of any records: an element is as k others are, but what a record's elements are together, and how many, is not
    hidden.

    Memory: 8 bytes for each pair of distinct values of an attribute in what is masked together.

    ``hybrid`` (2013: Algorithm 1) keeps the variance that means lose: each value becomes a random one of those that are
    no farther from it than its group's farthest value; nominal ones of the values that are masked together, numbers of
    all that the attribute takes. No k-anonymity then: what holds is that every value of the group, of each attribute
    by itself, could have come of each of its records.
    """

    name: ClassVar[str] = "microaggregation"
    needs_group: ClassVar[bool] = True
    declaration: ClassVar[MethodCard] = MethodCard(
        source="2013: sections 2.2 to 3.1",
        attributes="any number of nominal and numeric ones",
        taxonomies="any",
        preserves=("meaning", "mean", "with hybrid: dispersion within groups"),
        guarantee="k-anonymity of scalars and numbers, checked; with hybrid none",
        latency="a group: k records at least, better many more",
        cost="O(u/k) distances for u distinct records in the group",
        numeric=True,
    )

    def __init__(
        self,
        taxonomies: Mapping[str, Taxonomy],
        *,
        numeric: Mapping[str, Numeric] | None = None,
        k: int = 5,
        variant: str = "semantic",
        hybrid: bool = False,
        scaling: str = "balanced",
        distance: DistanceChoice = "log_taxonomic",
        window: int = 10_000,
        window_age: float | None = None,
        rollup_depth: int = 2,
        seed: bytes,
    ) -> None:
        """Everything is checked here: ParameterError says what was given and what is allowed.

        taxonomies: τ by attribute, in the order of all columns. numeric: numeric attributes beside them. k: at least 2,
        at most the window. variant: semantic or classic. hybrid: Algorithm 1 instead of means. scaling: balanced or
        paper. The others: see ``WindowedMechanism``.
        """
        require_one_of("variant", variant, AGGREGATION_VARIANTS)
        require_one_of("scaling", scaling, SCALINGS)
        require_type("hybrid", hybrid, bool)
        super().__init__(
            taxonomies,
            numeric=numeric,
            distance=distance,
            window=window,
            window_age=window_age,
            rollup_depth=rollup_depth,
            seed=seed,
        )
        self._k = _checked_k(k, window)
        self._semantic = variant == "semantic"
        self._hybrid = hybrid
        self._balanced = scaling == "balanced"
        self._kinds = tuple(self._numeric.values())

    @property
    def group_minimum(self) -> int:
        """The fewest records that can be masked together: k."""
        return self._k

    def mask_batch(self, batch: Batch, keys: Keys) -> MaskedBatch:
        """Masks encoded records as one data set; ``keys`` gives each record's random words.

        Raises StatisticsError before the first statistics, ParameterError for a batch of other attributes, of another
        size than the keys, or of fewer than k records (but for none).
        """
        in_force = self._ready()
        self._check(batch, keys)
        if not batch.size:
            return MaskedBatch(_copied(batch), (Tally(),) * len(batch.columns), batch.numeric)
        draft = _Draft.of(batch, keys, len(self._kinds))
        for rows, columns, numbers in patterns(batch):
            if columns or numbers:
                self._mask_rows(in_force, draft, rows, columns, numbers)
        for j, column in enumerate(batch.columns):
            if column.is_array:
                self._mask_elements(in_force, draft, j)
        self._verify(draft)
        tallies = (draft.tally(j, d) for j, d in enumerate(self._distances))
        return MaskedBatch(draft.columns, tuple(tallies), draft.numbers if self._kinds else None)

    def _mask_rows(
        self, in_force: _InForce, draft: _Draft, rows: Int64Array, columns: Sequence[int], numbers: Sequence[int]
    ) -> None:
        """Masks the scalars and numbers of records that have the same ones."""
        if len(rows) < self._k:
            draft.fill(in_force, rows, columns, numbers)
            return
        records = Comparable(
            [self._values(j, draft.codes[j][rows]) for j in columns],
            in_force.weights[columns],
            draft.numbers[rows][:, numbers],
            in_force.numeric_weights[numbers],
            draft.order[rows],
        )
        groups = records.groups(self._k)
        for i, j in enumerate(columns):
            words = draft.words[j][rows, TIES] if self._hybrid else records.words
            draft.codes[j][rows] = self._masked_values(records, i, groups, words)
        for i, j in enumerate(numbers):
            words = draft.number_words[j][rows, ROUNDING_WORD] if self._hybrid else records.words
            draft.numbers[rows, j] = self._masked_numbers(self._kinds[j], records.numbers[:, i], groups, words)

    def _mask_elements(self, in_force: _InForce, draft: _Draft, j: int) -> None:
        """Masks the elements of an array attribute."""
        values, words = self._values(j, draft.codes[j].copy()), draft.words[j]
        if len(values.codes) < self._k:
            draft.fill_column(in_force, np.arange(len(values.codes)), j)
            return
        none = np.zeros((len(values.codes), 0))
        elements = Comparable([values], np.ones(1), none, np.zeros(0), words[:, ROUNDING_WORD].copy())
        chosen = words[:, TIES] if self._hybrid else elements.words
        draft.codes[j][:] = self._masked_values(elements, 0, elements.groups(self._k), chosen)

    def _values(self, j: int, codes: Int32Array) -> GroupValues:
        return GroupValues(codes, self._distances[j], self._semantic)

    def _masked_values(
        self, records: Comparable, i: int, groups: tuple[Int64Array, Int64Array], words: UInt64Array
    ) -> Int32Array:
        choose = centroids.within_radius if self._hybrid else centroids.least_marginal_value
        chosen = choose(records.values[i].places, *groups, np.ascontiguousarray(words), records.table(i))
        return np.asarray(records.values[i].distinct[chosen])

    def _masked_numbers(
        self, kind: Numeric, numbers: Float64Array, groups: tuple[Int64Array, Int64Array], words: UInt64Array
    ) -> Float64Array:
        if self._hybrid:
            return centroids.numbers_within_radius(numbers, *groups, uniforms(words), kind)
        return centroids.mean_numbers(numbers, *groups, words, kind)

    def _verify(self, draft: _Draft) -> None:
        """Raises AnonymityError unless every masked record is equal to k − 1 others, or tells nothing."""
        if not self._hybrid and (class_sizes(draft.masked)[~draft.empty] < self._k).any():
            raise AnonymityError(f"masked records are not {self._k}-anonymous; they are withheld")

    def _check(self, batch: Batch, keys: Keys) -> None:
        super()._check(batch, keys)
        if 0 < batch.size < self._k:
            raise ParameterError(f"k={self._k} needs {self._k} records or more to mask together, not {batch.size}")

    def _model(self, counts: Counts) -> Mapping[str, Any]:
        """Each attribute's mean and variance (2013: equations 3 and 5), and the number of values."""
        return {
            "marginality": {
                name: self._marginality(values, d)
                for name, values, d in zip(self._attributes, counts.values, self._distances, strict=True)
            }
        }

    def _marginality(self, counts: SparseCounts, d: Distance) -> dict[str, Any]:
        if self._semantic:
            mean, variance = marginality_mean_from_counts(counts, d), marginality_variance_from_counts(counts, d)
        else:
            mean, variance = _mode(counts), counts.rows - float(counts.counts @ counts.counts) / counts.rows
        return {"mean": d.taxonomy.ids[mean], "variance": variance, "values": counts.rows}

    def _prepare(self, statistics: Statistics) -> _InForce:
        try:
            figures = [statistics.model["marginality"][name] for name in self._attributes]
            means = [d.taxonomy.position(f["mean"]) for d, f in zip(self._distances, figures, strict=True)]
            rows = [float(f["values"]) if self._balanced else 1.0 for f in figures]
            variances = [float(f["variance"]) / n for f, n in zip(figures, rows, strict=True)]
        except (KeyError, TypeError, ValueError, ZeroDivisionError, UnknownConceptError):
            raise StatisticsError("the statistics have no marginalities of these attributes") from None
        numeric_means, numeric_variances = _numeric_figures(statistics)
        whole = [kind.integer for kind in self._kinds]
        numeric_means = np.where(whole, np.rint(numeric_means), numeric_means)
        return _InForce(weights(variances), np.array(means, np.int32), weights(numeric_variances), numeric_means)


@dataclass(frozen=True, slots=True)
class _Draft:
    """A batch while it is being masked. codes: of every column; numbers: (n, q); order: (n,) a word of every record;
    words, number_words: of every value; filled: (n,) bool, records whose scalars and numbers are the window's means;
    truncated: of every column, the values of such records, and of arrays too short to make a group."""

    batch: Batch
    codes: list[Int32Array]
    numbers: Float64Array
    order: UInt64Array
    words: list[UInt64Array]
    number_words: list[UInt64Array]
    filled: NDArray[np.bool_]
    truncated: list[int]

    @classmethod
    def of(cls, batch: Batch, keys: Keys, q: int) -> _Draft:
        return cls(
            batch,
            [column.codes.copy() for column in batch.columns],
            np.empty((batch.size, 0)) if batch.numeric is None else batch.numeric.copy(),
            keys.words(ALL_RECORDS)[:, 0].copy(),
            draw_words(keys, batch),
            list(number_words(keys, q)),
            np.zeros(batch.size, np.bool_),
            [0] * len(batch.columns),
        )

    @property
    def columns(self) -> tuple[Column, ...]:
        return tuple(Column(a, c.offsets) for a, c in zip(self.codes, self.batch.columns, strict=True))

    @property
    def masked(self) -> Batch:
        return Batch(self.batch.size, self.columns, numeric=self.numbers)

    @property
    def empty(self) -> NDArray[np.bool_]:
        """(n,) bool: the records whose scalars and numbers tell nothing: means of the window, or all absent."""
        scalars = [a < 0 for a, column in zip(self.codes, self.batch.columns, strict=True) if not column.is_array]
        absent = np.column_stack([np.ones(self.batch.size, np.bool_), *scalars, np.isnan(self.numbers)])
        return np.asarray(self.filled | absent.all(axis=1))

    def fill(self, in_force: _InForce, rows: Int64Array, columns: Sequence[int], numbers: Sequence[int]) -> None:
        """Makes values of records those of the window's means."""
        for j in columns:
            self.fill_column(in_force, rows, j)
        self.numbers[rows[:, None], numbers] = in_force.numeric_means[numbers]
        self.filled[rows] = True

    def fill_column(self, in_force: _InForce, places: Int64Array, j: int) -> None:
        self.codes[j][places] = in_force.means[j]
        self.truncated[j] += len(places)

    def tally(self, j: int, d: Distance) -> Tally:
        return distortion_tally(self.batch.columns[j].codes, self.codes[j], d, truncated=self.truncated[j])


def _checked_k(k: int, window: int) -> int:
    if type(k) is not int or not 2 <= k <= window:
        raise ParameterError(f"k={k!r} is not allowed: use a whole number from 2 to the window's {window} records")
    return k


def _mode(counts: SparseCounts) -> int:
    """The most frequent value; of several the first position, which is the smallest depth's."""
    return int(counts.keys[counts.counts.argmax()])


def _numeric_figures(statistics: Statistics) -> tuple[Float64Array, list[float]]:
    """Means and sample variances, 1/(n − 1), of the numeric attributes."""
    if statistics.numeric is None:
        return np.zeros(0), []
    growth = statistics.records / max(statistics.records - 1, 1)
    return statistics.numeric.mean, (np.diag(statistics.numeric.covariance) * growth).tolist()


def _copied(batch: Batch) -> tuple[Column, ...]:
    return tuple(Column(column.codes.copy(), column.offsets) for column in batch.columns)
