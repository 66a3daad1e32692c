"""Microaggregation on marginality (2013: section 3.1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.anonymity import class_sizes
from stream_masker.core.batch import Batch, Column, Distortion, MaskedBatch, presence_patterns
from stream_masker.core.distance import Distance, DistanceChoice
from stream_masker.core.dtypes import Float64Array, Int32Array, Int64Array, UInt64Array
from stream_masker.core.marginality import marginality_mean_from_counts, marginality_variance_from_counts, weights
from stream_masker.core.mechanisms.base import MethodCard, distortion_of
from stream_masker.core.mechanisms.grouped import GroupMechanism
from stream_masker.core.mechanisms.microaggregation import groups as group_values
from stream_masker.core.mechanisms.microaggregation.groups import ComparableRecords, NominalValues
from stream_masker.core.numeric import Numeric
from stream_masker.core.ontology import Taxonomy
from stream_masker.core.random import ROUNDING_WORD, TIES, Keys, draw_number_words, draw_words, key_words, uniforms
from stream_masker.core.risk.groups import GROUP_RECORDS
from stream_masker.core.statistics.counts import Counts, SparseCounts
from stream_masker.core.statistics.summary import Statistics
from stream_masker.core.validation import require_one_of, require_type
from stream_masker.errors import AnonymityError, ParameterError, StatisticsError, UnknownConceptError

AGGREGATION_VARIANTS = ("semantic", "classic")
SCALINGS = ("balanced", "paper")

TIE_LANE = 1 << 60
"""The lane whose first word breaks ties between records that are equally near or far."""


@dataclass(frozen=True, slots=True)
class _WindowModel:
    """The weight of each attribute in the S-distance, and its mean over the window; nominal means are positions."""

    weights: Float64Array
    means: Int32Array
    numeric_weights: Float64Array
    numeric_means: Float64Array


class Microaggregation(GroupMechanism[_WindowModel]):
    """Masks groups of k to 2k − 1 similar records by the mean of their group, so that masked records are k-anonymous.

    MDAV (``microaggregation.mdav``) forms the groups among the records that are masked together. It uses the S-distance
    (2013: equation 7) with the variances of the calibration window, of which these records are a sample. With
    ``semantic``, marginalities use the semantic distance, and the mean is the least marginal value of the group. With
    ``classic``, the paper's baseline, the distance is 0 for equal values and 1 for others, and the mean is the mode.
    Means of integer attributes are rounded. The paper leaves ties open; here the records' random words break them.

    By equation (7) as printed, a nominal variance grows with the window, and nominal attributes hardly count compared
    with numeric ones (see ``core.marginality.SDistance``). ``scaling="paper"`` follows the equation.
    ``scaling="balanced"``, our variant, gives all attributes the same weight. Both agree if there are neither numbers
    nor absent values.

    k-anonymity holds for scalars and numbers, and is verified on the masked records (AnonymityError). It counts the
    units of a batch, such as persons; without units it counts records, several of which can belong to one person.
    Absent values stay absent: only records with the same attributes form groups. If there are fewer than k units of
    these, all their values become the window's means, which reveal nothing except which values are absent (counted as
    ``truncated``). Array elements form groups by themselves, each with elements of k units: an element equals at least
    k − 1 others, but the combination of a record's elements, and their number, are not hidden.

    Memory: 8 bytes for each pair of distinct values of an attribute among the records masked together.

    ``hybrid`` (2013: Algorithm 1) keeps the variance that means lose: each value becomes a random one among those that
    are no farther from it than its group's farthest value. Nominal values are drawn from the records masked together,
    numbers from the attribute's range. This does not give k-anonymity; the guarantee is that every value of the group,
    for each attribute separately, is a possible result for each of its records.
    """

    name: ClassVar[str] = "microaggregation"
    counts_units: ClassVar[bool] = True
    method_card: ClassVar[MethodCard] = MethodCard(
        summary="replaces the values of at least k similar records by one common value",
        use_when="k-anonymity is required, and records can wait for a group",
        source="2013: sections 2.2 to 3.1",
        attributes="any number of nominal and numeric ones",
        taxonomies="any",
        preserves=("meaning", "mean", "with hybrid: dispersion within groups"),
        guarantee="k-anonymity of scalars and numbers within a group, verified, but not of the masks of a person in "
        "several groups; none with hybrid",
        latency="that of its group of at least k records; larger groups give better utility",
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
        group_records: int = GROUP_RECORDS,
        distance: DistanceChoice = "log_taxonomic",
        window: int = 10_000,
        window_age: float | None = None,
        rollup_depth: int = 2,
        seed: bytes,
    ) -> None:
        """Create a mechanism without statistics.

        Raises ParameterError, which names the value given and the values allowed.

        * ``taxonomies``: τ by attribute, in the order of all columns. ``numeric``: the numeric attributes.
        * ``k``: the smallest size of a group, from 2 to ``window``.
        * ``variant``: ``semantic`` or ``classic``.
        * ``hybrid``: Algorithm 1 instead of means.
        * ``scaling``: ``balanced`` or ``paper``.
        * ``group_records``: see ``GroupMechanism``.
        * ``distance``, ``window``, ``window_age``, ``rollup_depth``, ``seed``: see ``WindowedMechanism``.
        """
        require_one_of("variant", variant, AGGREGATION_VARIANTS)
        require_one_of("scaling", scaling, SCALINGS)
        require_type("hybrid", hybrid, bool)
        super().__init__(
            taxonomies,
            numeric=numeric,
            group_records=group_records,
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
        self._numeric_kinds = tuple(self._numeric.values())

    @property
    def group_minimum(self) -> int:
        """The smallest number of records, or of their units, that can be masked together: k."""
        return self._k

    def mask_batch(self, batch: Batch, keys: Keys) -> MaskedBatch:
        """Mask encoded records as one data set; ``keys`` gives the random words of each record.

        Raises StatisticsError before the first statistics. Raises ParameterError if the batch has other attributes,
        another size than the keys, or at least one record but fewer than k units.
        """
        model = self._prepared_statistics()
        self._check(batch, keys)
        if not batch.size:
            return MaskedBatch(_copied_columns(batch), (Distortion(),) * len(batch.columns), batch.numeric)
        draft = _DraftBatch.of(batch, keys)
        scalars = [j for j, column in enumerate(batch.columns) if not column.is_array]
        present = [*(batch.columns[j].codes >= 0 for j in scalars), *~np.isnan(draft.numbers.T)]
        for rows, pattern in presence_patterns(np.array(present, np.bool_).reshape(len(present), batch.size)):
            columns = [scalars[i] for i in pattern if i < len(scalars)]
            numbers = [i - len(scalars) for i in pattern if i >= len(scalars)]
            if pattern:
                self._mask_rows(model, draft, np.arange(batch.size)[rows], columns, numbers)
        for j, column in enumerate(batch.columns):
            if column.is_array:
                self._mask_elements(model, draft, j)
        self._verify(draft)
        distortions = (draft.distortion(j, d) for j, d in enumerate(self._distances))
        return MaskedBatch(draft.columns, tuple(distortions), draft.numbers if self._numeric_kinds else None)

    def _mask_rows(
        self, model: _WindowModel, draft: _DraftBatch, rows: Int64Array, columns: Sequence[int], numbers: Sequence[int]
    ) -> None:
        """Mask the scalars and numbers of records that have the same ones present."""
        records = ComparableRecords(
            [self._values(j, draft.codes[j][rows]) for j in columns],
            model.weights[columns],
            draft.numbers[rows][:, numbers],
            model.numeric_weights[numbers],
            draft.order[rows],
            None if draft.batch.units is None else draft.batch.units[rows],
        )
        if records.unit_count < self._k:
            draft.replace_with_means(model, rows, columns, numbers)
            return
        groups = records.groups(self._k)
        for i, j in enumerate(columns):
            words = draft.words[j][rows, TIES] if self._hybrid else records.words
            draft.codes[j][rows] = self._masked_values(records, i, groups, words)
        for i, j in enumerate(numbers):
            words = draft.numeric_words[j][rows, ROUNDING_WORD] if self._hybrid else records.words
            draft.numbers[rows, j] = self._masked_numbers(self._numeric_kinds[j], records.numbers[:, i], groups, words)

    def _mask_elements(self, model: _WindowModel, draft: _DraftBatch, j: int) -> None:
        """Mask the elements of an array attribute."""
        values, words = self._values(j, draft.codes[j].copy()), draft.words[j]
        order, no_numbers = words[:, ROUNDING_WORD].copy(), np.zeros((len(values.codes), 0))
        units = None if draft.batch.units is None else draft.batch.units[draft.batch.columns[j].owners]
        elements = ComparableRecords([values], np.ones(1), no_numbers, np.zeros(0), order, units)
        if elements.unit_count < self._k:
            draft.replace_column(model, np.arange(len(values.codes)), j)
            return
        selectors = words[:, TIES] if self._hybrid else elements.words
        draft.codes[j][:] = self._masked_values(elements, 0, elements.groups(self._k), selectors)

    def _values(self, j: int, codes: Int32Array) -> NominalValues:
        return NominalValues(codes, self._distances[j], self._semantic)

    def _masked_values(
        self, records: ComparableRecords, i: int, groups: tuple[Int64Array, Int64Array], words: UInt64Array
    ) -> Int32Array:
        choose = group_values.within_radius if self._hybrid else group_values.least_marginal_value
        positions = choose(records.values[i].indices, *groups, np.ascontiguousarray(words), records.tables[i])
        return np.asarray(records.values[i].distinct[positions])

    def _masked_numbers(
        self, attribute: Numeric, numbers: Float64Array, groups: tuple[Int64Array, Int64Array], words: UInt64Array
    ) -> Float64Array:
        if self._hybrid:
            return group_values.numbers_within_radius(numbers, *groups, uniforms(words), attribute)
        return group_values.mean_numbers(numbers, *groups, words, attribute)

    def _verify(self, draft: _DraftBatch) -> None:
        """Raise AnonymityError unless every masked record equals at least k − 1 others or is uninformative."""
        if not self._hybrid and (class_sizes(draft.masked)[~draft.uninformative] < self._k).any():
            raise AnonymityError(f"masked records are not {self._k}-anonymous and are withheld")

    def _check(self, batch: Batch, keys: Keys) -> None:
        super()._check(batch, keys)
        if 0 < batch.unit_count < self._k:
            what = "records" if batch.units is None else "different units"
            raise ParameterError(f"k={self._k} needs {self._k} {what} or more to mask together, not {batch.unit_count}")

    def _model(self, counts: Counts, statistics: Statistics) -> Mapping[str, Any]:
        """Return each attribute's mean and variance (2013: equations 3 and 5), and its number of values."""
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

    def _prepare(self, statistics: Statistics) -> _WindowModel:
        try:
            marginalities = [statistics.model["marginality"][name] for name in self._attributes]
            means = [d.taxonomy.position(f["mean"]) for d, f in zip(self._distances, marginalities, strict=True)]
            rows = [float(f["values"]) if self._balanced else 1.0 for f in marginalities]
            variances = [float(f["variance"]) / n for f, n in zip(marginalities, rows, strict=True)]
        except (KeyError, TypeError, ValueError, ZeroDivisionError, UnknownConceptError):
            raise StatisticsError("the statistics have no valid marginalities of these attributes") from None
        numeric_means, numeric_variances = _numeric_moments(statistics)
        integer = [attribute.integer for attribute in self._numeric_kinds]
        numeric_means = np.where(integer, np.rint(numeric_means), numeric_means)
        return _WindowModel(weights(variances), np.array(means, np.int32), weights(numeric_variances), numeric_means)


@dataclass(frozen=True, slots=True)
class _DraftBatch:
    """A batch while it is being masked. Mutable.

    * ``codes``: the masked codes of each column. ``numbers``: (n, q) float64.
    * ``order``: (n,) uint64, one random word per record.
    * ``words``, ``numeric_words``: the random words of each nominal value and each number.
    * ``replaced``: (n,) bool, the records whose scalars and numbers are the window's means.
    * ``truncated``: for each column, the number of values replaced because there were too few for a group.
    """

    batch: Batch
    codes: list[Int32Array]
    numbers: Float64Array
    order: UInt64Array
    words: list[UInt64Array]
    numeric_words: list[UInt64Array]
    replaced: NDArray[np.bool_]
    truncated: list[int]

    @classmethod
    def of(cls, batch: Batch, keys: Keys) -> _DraftBatch:
        numbers = np.empty((batch.size, 0)) if batch.numeric is None else batch.numeric.copy()
        return cls(
            batch,
            [column.codes.copy() for column in batch.columns],
            numbers,
            key_words(keys),
            draw_words(keys, batch),
            draw_number_words(keys, numbers),
            np.zeros(batch.size, np.bool_),
            [0] * len(batch.columns),
        )

    @property
    def columns(self) -> tuple[Column, ...]:
        return tuple(Column(a, c.offsets) for a, c in zip(self.codes, self.batch.columns, strict=True))

    @property
    def masked(self) -> Batch:
        return Batch(self.batch.size, self.columns, numeric=self.numbers, units=self.batch.units)

    @property
    def uninformative(self) -> NDArray[np.bool_]:
        """(n,) bool: the records whose scalars and numbers reveal nothing: the window's means, or all absent."""
        scalars = [a < 0 for a, column in zip(self.codes, self.batch.columns, strict=True) if not column.is_array]
        absent = np.column_stack([np.ones(self.batch.size, np.bool_), *scalars, np.isnan(self.numbers)])
        return np.asarray(self.replaced | absent.all(axis=1))

    def replace_with_means(
        self, model: _WindowModel, rows: Int64Array, columns: Sequence[int], numbers: Sequence[int]
    ) -> None:
        """Replace the values of records with the window's means."""
        for j in columns:
            self.replace_column(model, rows, j)
        self.numbers[rows[:, None], numbers] = model.numeric_means[numbers]
        self.replaced[rows] = True

    def replace_column(self, model: _WindowModel, indices: Int64Array, j: int) -> None:
        self.codes[j][indices] = model.means[j]
        self.truncated[j] += len(indices)

    def distortion(self, j: int, d: Distance) -> Distortion:
        return distortion_of(self.batch.columns[j].codes, self.codes[j], d, truncated=self.truncated[j])


def _checked_k(k: int, window: int) -> int:
    if type(k) is not int or not 2 <= k <= window:
        raise ParameterError(f"k={k!r} is not allowed: use a whole number from 2 to the window's {window} records")
    return k


def _mode(counts: SparseCounts) -> int:
    """Return the most frequent value; among several the first position, which has the smallest depth."""
    return int(counts.keys[counts.counts.argmax()])


def _numeric_moments(statistics: Statistics) -> tuple[Float64Array, list[float]]:
    """Return means and sample variances, with 1/(n − 1), of the numeric attributes."""
    if statistics.numeric is None:
        return np.zeros(0), []
    correction = statistics.records / max(statistics.records - 1, 1)
    return statistics.numeric.mean, (np.diag(statistics.numeric.covariance) * correction).tolist()


def _copied_columns(batch: Batch) -> tuple[Column, ...]:
    return tuple(Column(column.codes.copy(), column.offsets) for column in batch.columns)
