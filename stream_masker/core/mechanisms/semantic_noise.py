"""Semantic noise (2017: sections 4.4 and 4.5): every value is replaced by a concept as far away as a random noise."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeAlias

import numpy as np

from stream_masker.core.batch import Batch, Column, MaskedBatch
from stream_masker.core.distance import Distance, distance_by_name
from stream_masker.core.mechanisms import encoding, options
from stream_masker.core.mechanisms.base import Mechanism, Record, Value
from stream_masker.core.mechanisms.candidates import NO_REFERENCE, Floats, Int32, Task, require_one_of
from stream_masker.core.mechanisms.noise import DISTRIBUTIONS, Noise, lengths_of
from stream_masker.core.mechanisms.replacement import replacer
from stream_masker.core.mechanisms.words import ROUNDING, TIES, draw_words
from stream_masker.core.ontology import Taxonomy
from stream_masker.core.randomness import FieldKeys, Keys, Words, checked_secret
from stream_masker.core.statistics.compute import compute_statistics
from stream_masker.core.statistics.counts import Counts
from stream_masker.core.statistics.summary import Statistics
from stream_masker.core.window import SlidingWindow
from stream_masker.errors import ParameterError, StatisticsError, UnknownConceptError

DistanceChoice: TypeAlias = str | Callable[[Taxonomy], Distance]
"""A distance's name, or what makes it of a taxonomy (such as its class)."""

SNAPSHOT_FORMAT = 1

LEAST_EIGENVALUE = -1e-9
"""Of the greatest one: what rounding may leave below 0 of a positive semidefinite matrix."""


@dataclass(frozen=True, slots=True)
class _InForce:
    """Statistics in force, as masking uses them. means: each attribute's sMean, by position."""

    statistics: Statistics
    noise: Noise
    means: tuple[int, ...]


class SemanticNoise(Mechanism):
    """Replaces values by concepts whose semantic distance matches noise drawn from the statistics of a window.

    Uncorrelated: ε ~ N(0, α·sVar) for each attribute (2017: 4.4). Correlated: ε ~ N(0, α·Σ) jointly (4.5), which keeps
    the correlation of the attributes. The sign of ε says whether the replacement is farther from a reference than the
    value was, or nearer: the attribute's sMean (``mean``, Algorithm 1), the paired attribute's value of the same record
    (``pair``, Algorithm 2), or the taxonomy's root (``root``, Algorithm 3). The rule of replacement, and where it goes
    beyond the papers, is written out in ``core.mechanisms.candidates``.

    With ``pair``, a value whose partner is absent has no sign condition; a scalar is the reference of every element of
    its partner, and the first of these is the scalar's.
    """

    name: ClassVar[str] = "semantic_noise"

    def __init__(
        self,
        taxonomies: Mapping[str, Taxonomy],
        *,
        alpha: float | Mapping[str, float] = 0.3,
        correlated: bool = True,
        reference: str = "mean",
        pairs: options.Pairs | None = None,
        distribution: str = "normal",
        rounding: str = "calibrated",
        candidates: str = "all",
        distance: DistanceChoice = "wu_palmer",
        window: int = 10_000,
        window_age: float | None = None,
        rollup_depth: int = 2,
        seed: bytes,
    ) -> None:
        """Everything is checked here: ParameterError says what was given and what is allowed.

        taxonomies: τ by attribute, in the order of all columns. alpha: α in (0, 10], of all attributes or of each.
        reference: mean, pair or root. pairs: for ``pair``, disjoint pairs of attributes with one taxonomy each; with
        two attributes they are the pair. distribution: normal, or laplace of the same covariance. rounding: ceil (the
        papers') or calibrated (E[sd²] = ε²). candidates: all concepts, or leaves. window, window_age: records, and
        seconds or None, of the calibration window. rollup_depth: of ``Statistics.rollup``. seed: the secret from
        which ``mask_one`` and ``mask_many`` derive noise.
        """
        require_one_of("reference", reference, options.REFERENCES)
        require_one_of("distribution", distribution, DISTRIBUTIONS)
        options.require_type("correlated", correlated, bool)
        options.check_rollup_depth(rollup_depth)
        self._attributes = options.checked_attributes(taxonomies)
        self._taxonomies = dict(taxonomies)
        self._alpha = options.checked_alpha(alpha, self._attributes)
        self._partners = options.partners(reference, pairs, self._taxonomies, correlated=correlated)
        self._correlated = correlated
        self._reference = reference
        self._laplace = distribution == "laplace"
        self._distances = tuple(_distance(distance, tau) for tau in self._taxonomies.values())
        self._replacers = tuple(replacer(d, rounding=rounding, candidates=candidates) for d in self._distances)
        self._window = SlidingWindow([len(tau) for tau in self._taxonomies.values()], records=window, age=window_age)
        self._rollup_depth = rollup_depth
        self._seed = checked_secret(seed)
        self._in_force: _InForce | None = None

    @property
    def attributes(self) -> tuple[str, ...]:
        return self._attributes

    @property
    def alpha(self) -> Mapping[str, float]:
        """The configured α of each attribute."""
        return dict(self._alpha)

    @property
    def distances(self) -> tuple[Distance, ...]:
        """Each attribute's semantic distance, in the attributes' order."""
        return self._distances

    @property
    def statistics(self) -> Statistics:
        return self._ready().statistics

    def encode(self, records: Sequence[Record]) -> Batch:
        """The records as columns of positions.

        Fields that are no attribute are not read. Raises UnknownConceptError, whose ``position`` is the record's
        index, and ParameterError for what is neither a concept id, a list of them, nor None.
        """
        return encoding.encode(records, self._taxonomies)

    def decode(self, batch: Batch, masked: MaskedBatch) -> list[dict[str, Value]]:
        return encoding.decode(masked, self._taxonomies)

    def learn_one(self, record: Record, *, time: float | None = None) -> None:
        self.learn_many([record], time=time)

    def learn_many(self, records: Iterable[Record], *, time: float | None = None) -> None:
        self._window.add(self.encode(list(records)), time)

    def calibrate(self) -> Statistics:
        """Computes the statistics of the window and puts them in force; StatisticsError when the window is empty."""
        version = self._in_force.statistics.version + 1 if self._in_force else 1
        self._use(self.compute(self._window.counts(), version=version))
        return self.statistics

    def compute(self, counts: Counts, *, version: int) -> Statistics:
        """The statistics of the counts; what was seen before is that of the statistics in force. Changes nothing.

        Raises StatisticsError when an attribute has no value, or one only: its noise would be 0, and every later value
        of it would pass unmasked.
        """
        previous = self._in_force.statistics if self._in_force else None
        statistics = compute_statistics(
            counts,
            self._attributes,
            self._distances,
            version=version,
            rollup_depth=self._rollup_depth,
            previous=previous,
        )
        self._check_noise(statistics)
        return statistics

    def mask_one(self, record: Record, *, key: bytes, alpha: float | None = None) -> dict[str, Value]:
        """Masks one record with the noise of ``key``, and with its own ``alpha`` where it has one."""
        return self.mask_many([record], keys=[key], alpha=None if alpha is None else [alpha])[0]

    def mask_many(
        self, records: Sequence[Record], *, keys: Sequence[bytes], alpha: Sequence[float | None] | None = None
    ) -> list[dict[str, Value]]:
        """Masks records, each with the noise of its own key, and with its own ``alpha`` where it has one.

        Gives a value or None for every attribute; fields that are no attribute are left out. Raises ParameterError for
        another number of keys or alphas than of records, and like ``encode`` and ``mask_batch``.
        """
        batch = replace(self.encode(records), alpha=None if alpha is None else _own_alpha(alpha))
        masked = self.decode(batch, self.mask_batch(batch, FieldKeys(self._seed, keys)))
        for name, column in zip(self._attributes, batch.columns, strict=True):
            if column.is_array:
                _leave_absent(name, records, masked)
        return masked

    def mask_batch(self, batch: Batch, keys: Keys) -> MaskedBatch:
        """Masks encoded records; ``keys`` gives each record's random words.

        Raises StatisticsError before the first statistics, ParameterError for a batch of other attributes, of another
        size than the keys, with an alpha outside (0, 10], or with arrays that cannot be masked together.
        """
        in_force = self._ready()
        self._check(batch, keys)
        words = draw_words(keys, batch)
        noise = in_force.noise.draw(keys, batch, words)
        tasks = [self._task(in_force, batch, j, noise[j], words[j]) for j in range(len(batch.columns))]
        done = [chooser.replace(task) for chooser, task in zip(self._replacers, tasks, strict=True)]
        return MaskedBatch(
            tuple(Column(d.codes, column.offsets) for d, column in zip(done, batch.columns, strict=True)),
            tuple(d.tally(task) for d, task in zip(done, tasks, strict=True)),
        )

    def snapshot_of(self, statistics: Statistics) -> dict[str, Any]:
        return {
            "mechanism": self.name,
            "format": SNAPSHOT_FORMAT,
            "statistics": statistics.to_dict(),
            "taxonomies": {name: tau.fingerprint for name, tau in self._taxonomies.items()},
        }

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Puts a snapshot in force.

        Raises StatisticsError, and changes nothing, when it is of another mechanism, format, attributes or taxonomies,
        or when noise cannot be drawn from its numbers.
        """
        statistics = Statistics.from_dict(snapshot.get("statistics", {}))
        expected = self.snapshot_of(statistics)
        for name in ("mechanism", "format", "taxonomies"):
            if snapshot.get(name) != expected[name]:
                raise StatisticsError(f"the snapshot's {name} differs from this mechanism's")
        self._use(statistics)

    def _use(self, statistics: Statistics) -> None:
        self._check_statistics(statistics)
        variances = [statistics.variance[name] for name in self._attributes]
        noise = Noise(
            sigma=statistics.covariance if self._correlated else np.diag(variances),
            alpha=np.array(list(self._alpha.values())),
            correlated=self._correlated,
            laplace=self._laplace,
        )
        self._in_force = _InForce(statistics, noise, self._means(statistics))

    def _check_statistics(self, statistics: Statistics) -> None:
        if statistics.attributes != self._attributes:
            raise StatisticsError(f"the statistics are of {statistics.attributes}, not of {self._attributes}")
        numbers = np.append(statistics.covariance, list(statistics.variance.values()))
        if not np.isfinite(numbers).all() or min(statistics.variance.values()) < 0:
            raise StatisticsError("a variance or covariance is negative or no number")
        if not _positive_semidefinite(statistics.covariance):
            raise StatisticsError("the covariance matrix is not symmetric and positive semidefinite")
        self._check_noise(statistics)

    def _check_noise(self, statistics: Statistics) -> None:
        """Raises StatisticsError for an attribute without variance."""
        least = np.minimum(np.diag(statistics.covariance), [statistics.variance[name] for name in self._attributes])
        constant = [name for name, variance in zip(self._attributes, least, strict=True) if not variance > 0]
        if constant:
            raise StatisticsError(
                f"{', '.join(constant)}: every value is the same, so that noise would be 0 and later values would pass "
                "unmasked; statistics need records that differ"
            )

    def _means(self, statistics: Statistics) -> tuple[int, ...]:
        try:
            return tuple(tau.position(statistics.mean[name]) for name, tau in self._taxonomies.items())
        except UnknownConceptError:
            raise StatisticsError("a mean of the statistics is no concept of its taxonomy") from None

    def _ready(self) -> _InForce:
        if self._in_force is None:
            raise StatisticsError("there are no statistics yet: calibrate on records, or restore a snapshot")
        return self._in_force

    def _check(self, batch: Batch, keys: Keys) -> None:
        if len(batch.columns) != len(self._attributes):
            raise ParameterError(f"the batch has {len(batch.columns)} columns, not one for each of {self._attributes}")
        if len(keys) != batch.size:
            raise ParameterError(f"there are {len(keys)} keys for {batch.size} records")
        _check_alpha(batch)
        self._check_arrays(batch)

    def _check_arrays(self, batch: Batch) -> None:
        arrays = [j for j, column in enumerate(batch.columns) if column.is_array]
        if self._correlated and len(arrays) > 1:
            names = ", ".join(self._attributes[j] for j in arrays)
            raise ParameterError(f"correlated=True allows one array attribute, but {names} are arrays")
        if any(self._partners[j] in arrays for j in arrays if self._partners):
            raise ParameterError("reference='pair' does not allow two arrays as a pair")

    def _task(self, in_force: _InForce, batch: Batch, j: int, noise: Floats, words: Words) -> Task:
        references = self._references(in_force, batch, j)
        return Task.of(batch.columns[j].codes, references, noise, words[:, ROUNDING], words[:, TIES])

    def _references(self, in_force: _InForce, batch: Batch, j: int) -> Int32:
        size = len(batch.columns[j].codes)
        if self._reference == "pair":
            return _paired(batch, j, self._partners[j])
        return np.full(size, in_force.means[j] if self._reference == "mean" else 0, np.int32)


def _distance(choice: DistanceChoice, taxonomy: Taxonomy) -> Distance:
    return distance_by_name(choice, taxonomy) if isinstance(choice, str) else choice(taxonomy)


def _leave_absent(name: str, records: Sequence[Record], masked: Sequence[dict[str, Value]]) -> None:
    """Gives records without a list none, where decoding gives an empty one."""
    for record, row in zip(records, masked, strict=True):
        if record.get(name) is None:
            row[name] = None


def _own_alpha(alpha: Sequence[float | None]) -> Floats:
    """Records' own α, NaN for none."""
    return np.array([np.nan if level is None else level for level in alpha], np.float64)


def _check_alpha(batch: Batch) -> None:
    if batch.alpha is None:
        return
    if batch.alpha.shape != (batch.size,):
        raise ParameterError(f"there are {batch.alpha.size} alphas for {batch.size} records")
    wrong = ~np.isnan(batch.alpha) & ~((batch.alpha > 0) & (batch.alpha <= options.LARGEST_ALPHA))
    if wrong.any():
        raise ParameterError(f"the alpha of record {int(wrong.argmax())} is not in (0, {options.LARGEST_ALPHA:g}]")


def _positive_semidefinite(matrix: Floats) -> bool:
    if not np.array_equal(matrix, matrix.T):
        return False
    values = np.linalg.eigvalsh(matrix)
    return bool(values[0] >= LEAST_EIGENVALUE * max(float(values[-1]), 0.0))


def _paired(batch: Batch, j: int, partner: int) -> Int32:
    """The references of column j's values: the partner's scalar, or the first element of its array."""
    other = batch.columns[partner]
    if other.offsets is None:
        return np.repeat(other.codes, lengths_of(batch, j))
    first = np.full(batch.size, NO_REFERENCE, np.int32)
    filled = np.diff(other.offsets) > 0
    first[filled] = other.codes[other.offsets[:-1][filled]]
    return first
