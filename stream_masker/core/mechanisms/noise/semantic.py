"""Semantic noise (2017: sections 4.4 and 4.5): every value is replaced by a concept as far away as a random noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from stream_masker.core.batch import Batch, Column, MaskedBatch
from stream_masker.core.dtypes import Float64Array, Int32Array, UInt64Array
from stream_masker.core.mechanisms import options
from stream_masker.core.mechanisms.base import Record, Value
from stream_masker.core.mechanisms.method_card import MethodCard
from stream_masker.core.mechanisms.noise.numeric import NOISE_VARIANTS, NumericNoise
from stream_masker.core.mechanisms.noise.sampling import DISTRIBUTIONS, Noise, lengths_of
from stream_masker.core.mechanisms.windowed import DistanceChoice, WindowedMechanism
from stream_masker.core.numeric import Numeric
from stream_masker.core.ontology import Taxonomy
from stream_masker.core.random.keys import Keys
from stream_masker.core.random.layout import ROUNDING_WORD, TIES, draw_words
from stream_masker.core.replacement.rule import NO_REFERENCE, ReplacementTask
from stream_masker.core.replacement.select import replacers
from stream_masker.core.statistics.summary import Statistics
from stream_masker.core.validation import require_one_of, require_type
from stream_masker.errors import ParameterError, StatisticsError, UnknownConceptError

LEAST_EIGENVALUE = -1e-9
"""Of the greatest one: what rounding may leave below 0 of a positive semidefinite matrix."""


@dataclass(frozen=True, slots=True)
class _InForce:
    """Statistics in force, as masking uses them. means: each attribute's sMean, by position; numbers: None for none."""

    noise: Noise
    means: tuple[int, ...]
    numbers: NumericNoise | None


class SemanticNoise(WindowedMechanism[_InForce]):
    """Replaces values by concepts whose semantic distance matches noise drawn from the statistics of a window.

    Uncorrelated: ε ~ N(0, α·sVar) for each attribute (2017: 4.4). Correlated: ε ~ N(0, α·Σ) jointly (4.5), which keeps
    the correlation of the attributes. The sign of ε says whether the replacement is farther from a reference than the
    value was, or nearer: the attribute's sMean (``mean``, Algorithm 1), the paired attribute's value of the same record
    (``pair``, Algorithm 2), or the taxonomy's root (``root``, Algorithm 3). The rule of replacement, and where it goes
    beyond the papers, is written out in ``core.replacement.rule``.

    With ``pair``, a value whose partner is absent has no sign condition; a scalar is the reference of every element of
    its partner, and the first of these is the scalar's.

    Numeric attributes beside the nominal ones get numeric noise (2017: section 3), of one covariance matrix of their
    own: see ``core.mechanisms.noise.numeric``.
    """

    name: ClassVar[str] = "semantic_noise"
    declaration: ClassVar[MethodCard] = MethodCard(
        source="2017: sections 4.4 and 4.5, algorithms 1 to 3",
        attributes="any number of nominal ones, and numeric ones; with reference pair, disjoint pairs",
        taxonomies="any; with reference pair, one for both attributes of a pair",
        preserves=("meaning", "mean", "dispersion", "correlation"),
        guarantee="none in a strict sense: plausible deniability that grows with α",
        latency="none: each record by itself",
        cost="O(depth²) in a tree; in a DAG what a value's ancestors and their lists hold, never all of it (Wu-Palmer)",
        numeric=True,
    )

    def __init__(
        self,
        taxonomies: Mapping[str, Taxonomy],
        *,
        numeric: Mapping[str, Numeric] | None = None,
        alpha: float | Mapping[str, float] = 0.3,
        correlated: bool = True,
        reference: str = "mean",
        pairs: options.PairNames | None = None,
        distribution: str = "normal",
        rounding: str = "calibrated",
        candidates: str = "all",
        numeric_noise: str | None = None,
        distance: DistanceChoice = "wu_palmer",
        window: int = 10_000,
        window_age: float | None = None,
        rollup_depth: int = 2,
        seed: bytes,
    ) -> None:
        """Everything is checked here: ParameterError says what was given and what is allowed.

        taxonomies: τ by attribute, in the order of all columns. numeric: numeric attributes beside them. alpha: α in
        (0, 10], of all attributes or of each.
        reference: mean, pair or root. pairs: for ``pair``, disjoint pairs of attributes with one taxonomy each; with
        two attributes they are the pair. distribution: normal, or laplace of the same covariance. rounding: ceil (the
        papers') or calibrated (E[sd²] = ε²). candidates: all concepts, or leaves. numeric_noise: correlated,
        uncorrelated or kim (which keeps variances too); None for what ``correlated`` says. window, window_age:
        records, and seconds or None, of the calibration window. rollup_depth: of ``Statistics.rollup``. seed: the
        secret from which ``mask_one`` and ``mask_many`` derive noise.
        """
        require_one_of("reference", reference, options.REFERENCES)
        require_one_of("distribution", distribution, DISTRIBUTIONS)
        require_type("correlated", correlated, bool)
        super().__init__(
            taxonomies,
            numeric=numeric,
            distance=distance,
            window=window,
            window_age=window_age,
            rollup_depth=rollup_depth,
            seed=seed,
        )
        self._alpha = options.checked_alpha(alpha, self._attributes + self.numeric_attributes)
        self._numeric_noise = _checked_variant(numeric_noise, correlated=correlated)
        self._partners = options.partners(reference, pairs, self._taxonomies, correlated=correlated)
        self._correlated = correlated
        self._reference = reference
        self._laplace = distribution == "laplace"
        self._replacers = replacers(self._distances, rounding=rounding, candidates=candidates)

    @property
    def alpha(self) -> Mapping[str, float]:
        """The configured α of each attribute."""
        return dict(self._alpha)

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
        return self._mask_many(records, batch, keys)

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
            in_force.numbers.mask(batch, keys) if in_force.numbers else None,
        )

    def _prepare(self, statistics: Statistics) -> _InForce:
        """Refuses statistics of one value only: their noise would be 0, and later values would pass unmasked."""
        self._check_statistics(statistics)
        variances = [statistics.variance[name] for name in self._attributes]
        noise = Noise(
            sigma=statistics.covariance if self._correlated else np.diag(variances),
            alpha=self._levels(self._attributes),
            correlated=self._correlated,
            laplace=self._laplace,
        )
        return _InForce(noise, self._means(statistics), self._numbers(statistics))

    def _numbers(self, statistics: Statistics) -> NumericNoise | None:
        if statistics.numeric is None:
            return None
        return NumericNoise.of(
            tuple(self._numeric.values()),
            statistics.numeric,
            self._levels(self.numeric_attributes),
            self._numeric_noise,
            laplace=self._laplace,
        )

    def _levels(self, names: tuple[str, ...]) -> Float64Array:
        return np.array([self._alpha[name] for name in names])

    def _check_statistics(self, statistics: Statistics) -> None:
        numbers = np.append(statistics.covariance, list(statistics.variance.values()))
        if not np.isfinite(numbers).all() or min(statistics.variance.values(), default=0.0) < 0:
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

    def _check(self, batch: Batch, keys: Keys) -> None:
        super()._check(batch, keys)
        _check_alpha(batch)
        self._check_arrays(batch)

    def _check_arrays(self, batch: Batch) -> None:
        arrays = [j for j, column in enumerate(batch.columns) if column.is_array]
        if self._correlated and len(arrays) > 1:
            names = ", ".join(self._attributes[j] for j in arrays)
            raise ParameterError(f"correlated=True allows one array attribute, but {names} are arrays")
        if any(self._partners[j] in arrays for j in arrays if self._partners):
            raise ParameterError("reference='pair' does not allow two arrays as a pair")

    def _task(
        self, in_force: _InForce, batch: Batch, j: int, noise: Float64Array, words: UInt64Array
    ) -> ReplacementTask:
        references = self._references(in_force, batch, j)
        return ReplacementTask.of(batch.columns[j].codes, references, noise, words[:, ROUNDING_WORD], words[:, TIES])

    def _references(self, in_force: _InForce, batch: Batch, j: int) -> Int32Array:
        size = len(batch.columns[j].codes)
        if self._reference == "pair":
            return _paired(batch, j, self._partners[j])
        return np.full(size, in_force.means[j] if self._reference == "mean" else 0, np.int32)


def _checked_variant(numeric_noise: str | None, *, correlated: bool) -> str:
    if numeric_noise is None:
        return "correlated" if correlated else "uncorrelated"
    require_one_of("numeric_noise", numeric_noise, NOISE_VARIANTS)
    return numeric_noise


def _own_alpha(alpha: Sequence[float | None]) -> Float64Array:
    """Records' own α, NaN for none."""
    return np.array([np.nan if level is None else level for level in alpha], np.float64)


def _check_alpha(batch: Batch) -> None:
    if batch.alpha is None:
        return
    if batch.alpha.shape != (batch.size,):
        raise ParameterError(f"there are {batch.alpha.size} alphas for {batch.size} records")
    wrong = ~np.isnan(batch.alpha) & ~((batch.alpha > 0) & (batch.alpha <= options.MAX_ALPHA))
    if wrong.any():
        raise ParameterError(f"the alpha of record {int(wrong.argmax())} is not in (0, {options.MAX_ALPHA:g}]")


def _positive_semidefinite(matrix: Float64Array) -> bool:
    if not matrix.size:
        return True
    if not np.array_equal(matrix, matrix.T):
        return False
    values = np.linalg.eigvalsh(matrix)
    return bool(values[0] >= LEAST_EIGENVALUE * max(float(values[-1]), 0.0))


def _paired(batch: Batch, j: int, partner: int) -> Int32Array:
    """The references of column j's values: the partner's scalar, or the first element of its array."""
    other = batch.columns[partner]
    if other.offsets is None:
        return np.repeat(other.codes, lengths_of(batch, j))
    first = np.full(batch.size, NO_REFERENCE, np.int32)
    filled = np.diff(other.offsets) > 0
    first[filled] = other.codes[other.offsets[:-1][filled]]
    return first
