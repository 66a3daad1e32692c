"""Semantic noise (2017: sections 4.4 and 4.5): replacement by a concept at a random semantic distance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from stream_masker.core.batch import Batch, Column, MaskedBatch
from stream_masker.core.distance import DistanceChoice
from stream_masker.core.dtypes import Float64Array, Int32Array, UInt64Array
from stream_masker.core.mechanisms import options
from stream_masker.core.mechanisms.base import MethodCard, Record, Value
from stream_masker.core.mechanisms.encoding import RecordCodes
from stream_masker.core.mechanisms.noise.channel import (
    NoiseChannel,
    NoiseRows,
    PairMasks,
    References,
    paired_references,
)
from stream_masker.core.mechanisms.noise.defaults import noise_defaults
from stream_masker.core.mechanisms.noise.moments import NoisePair
from stream_masker.core.mechanisms.noise.numeric import NumericNoise, noise_variant
from stream_masker.core.mechanisms.noise.prepared import (
    PreparedNoise,
    check_record_alphas,
    held_moments,
    noise_statistics,
    read_frequencies,
    record_alphas,
    with_frequencies,
)
from stream_masker.core.mechanisms.noise.sampling import DISTRIBUTIONS, Distribution, NoiseLaw, NominalNoise
from stream_masker.core.mechanisms.windowed import UNKNOWN_COUNTS, WindowedMechanism
from stream_masker.core.numeric import Numeric
from stream_masker.core.ontology import Taxonomy
from stream_masker.core.random.keys import Keys
from stream_masker.core.random.layout import draw_words
from stream_masker.core.replacement.rows.engine import RowReplacer
from stream_masker.core.replacement.rule import (
    CANDIDATES,
    ROUNDINGS,
    Candidates,
    Replacer,
)
from stream_masker.core.replacement.select import replacers
from stream_masker.core.risk.channel import Channel
from stream_masker.core.risk.records import MaskLaw, Tuples
from stream_masker.core.statistics.counts import Counts
from stream_masker.core.statistics.covariance import is_positive_semidefinite
from stream_masker.core.statistics.summary import Statistics
from stream_masker.core.table import DataFrame
from stream_masker.core.validation import require_one_of, require_type
from stream_masker.errors import ParameterError, StatisticsError, UnknownConceptError

OBSERVED = "observed"
NOISE_CANDIDATES = (*CANDIDATES, OBSERVED)


class SemanticNoise(WindowedMechanism[PreparedNoise]):
    """Replaces values by concepts whose semantic distance matches noise drawn from the statistics of a window.

    Uncorrelated noise is ε ~ N(0, α·sVar) for each attribute (2017: section 4.4). Correlated noise is ε ~ N(0, α·Σ)
    jointly (section 4.5), which preserves the correlation of the attributes. The sign of ε determines whether the
    replacement is farther from a reference than the original value, or nearer. The reference is the attribute's sMean
    (``mean``, Algorithm 1), the value of the paired attribute in the same record (``pair``, Algorithm 2), or the
    taxonomy's root (``root``, Algorithm 3). ``core.replacement.rule`` specifies the replacement, and where it goes
    beyond the papers.

    With ``pair``, a value whose partner is absent has no sign condition. If the partner is an array, a scalar is the
    reference of every element, and the first element is the scalar's reference.

    Numeric attributes get numeric noise with a covariance matrix of their own (2017: section 3): see
    ``core.mechanisms.noise.numeric``.
    """

    name: ClassVar[str] = "semantic_noise"
    method_card: ClassVar[MethodCard] = MethodCard(
        summary="replaces a value by a concept whose semantic distance to it matches random noise",
        use_when="records must be masked one by one, and analyses need meaning, dispersion and correlation",
        source="2017: sections 4.4 and 4.5, algorithms 1 to 3",
        attributes="any number of nominal and numeric ones; with reference pair, disjoint pairs",
        taxonomies="any; with reference pair, one for both attributes of a pair",
        preserves=("meaning", "mean", "dispersion", "correlation"),
        guarantee="none in a strict sense: plausible deniability that grows with α",
        latency="none: each record is masked alone",
        cost="O(depth²) in a tree; in a DAG the size of the candidate lists of the value's ancestors (Wu–Palmer); with "
        "candidates observed the number of concepts of the window",
        numeric=True,
    )

    def __init__(
        self,
        taxonomies: Mapping[str, Taxonomy],
        *,
        numeric: Mapping[str, Numeric] | None = None,
        alpha: float | Mapping[str, float] = 0.3,
        correlated: bool | None = None,
        reference: str | None = None,
        pairs: options.AttributePairs | None = None,
        distribution: str = "normal",
        rounding: str = "ceil",
        candidates: str = "all",
        numeric_noise: str | None = None,
        distance: DistanceChoice = "wu_palmer",
        window: int = 10_000,
        window_age: float | None = None,
        rollup_depth: int = 2,
        seed: bytes,
    ) -> None:
        """Create a mechanism without statistics.

        Raises ParameterError, which names the value given and the values allowed.

        * ``taxonomies``: τ by attribute, in the order of all columns.
        * ``numeric``: the numeric attributes.
        * ``alpha``: α in [0.01, 10], for all attributes or for each.
        * ``correlated``: whether the noise of all attributes is drawn jointly; None: unless there is only one.
        * ``reference``: ``mean``, ``pair`` or ``root``; None: ``mean`` for one attribute, ``pair`` for two of one
          taxonomy, otherwise ``root`` (2017: Table 9).
        * ``pairs``: for ``pair``, disjoint pairs of attributes with one taxonomy per pair; two attributes form a pair
          by default.
        * ``distribution``: ``normal``, or ``laplace`` with the same covariance.
        * ``rounding``: ``ceil`` (the papers' rule) or ``calibrated`` (E[sd²] = ε²).
        * ``candidates``: ``all`` concepts, ``leaves``, or ``observed``: the concepts of the window, drawn by their
          frequency. ``calibrated`` then also takes those as far from the reference as the value, where the level has
          none of the right sign.
        * ``numeric_noise``: ``correlated``, ``uncorrelated`` or ``kim`` (which also preserves variances); None follows
          ``correlated``.
        * ``distance``, ``window``, ``window_age``, ``rollup_depth``, ``seed``: see ``WindowedMechanism``.
        """
        given = {"correlated": correlated, "reference": reference, "pairs": pairs}
        defaults = noise_defaults(
            taxonomies, (), {name: value for name, value in given.items() if value is not None}, numeric=bool(numeric)
        )
        correlated, reference = defaults["correlated"], defaults["reference"]
        require_one_of("reference", reference, options.REFERENCES)
        require_one_of("distribution", distribution, DISTRIBUTIONS)
        require_type("correlated", correlated, bool)
        require_one_of("rounding", rounding, ROUNDINGS)
        require_one_of("candidates", candidates, NOISE_CANDIDATES)
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
        self._numeric_noise = noise_variant(numeric_noise, correlated=correlated)
        self._partners = options.partner_indices(reference, pairs, self._taxonomies, correlated=correlated)
        self._correlated = correlated
        self._reference = reference
        self._distribution = Distribution(distribution)
        self._calibrated = rounding == "calibrated"
        self._candidates = candidates
        self._replacers = (
            () if candidates == OBSERVED else replacers(self._distances, rounding=rounding, candidates=candidates)
        )

    @property
    def alpha(self) -> Mapping[str, float]:
        """The configured α of each attribute."""
        return dict(self._alpha)

    def mask_one(self, record: Record, *, key: bytes, alpha: float | None = None) -> dict[str, Value]:
        """Mask one record with the noise of ``key``; ``alpha``: the record's own α, or None for the configured one."""
        if alpha is None:
            return super().mask_one(record, key=key)
        return self.mask_many([record], keys=[key], alpha=[alpha])[0]

    def _mask_codes(self, record: RecordCodes, block: UInt64Array) -> Sequence[int] | None:
        return self._prepared_statistics().mask_record(record, block)

    def mask_many(
        self,
        records: Sequence[Record] | DataFrame,
        *,
        keys: Sequence[bytes],
        alpha: Sequence[float | None] | None = None,
    ) -> list[dict[str, Value]]:
        """Mask records, each with the noise of its own key, and with its own ``alpha`` unless that is None.

        Each result has a value or None for every attribute; fields that are not attributes are omitted. Raises
        ParameterError if the numbers of keys, alphas and records differ, and the errors of ``encode`` and
        ``mask_batch``.
        """
        records = self._as_records(records)
        batch = replace(self.encode(records), alpha=None if alpha is None else record_alphas(alpha))
        return self._mask_many(records, batch, keys)

    def mask_batch(self, batch: Batch, keys: Keys) -> MaskedBatch:
        """Mask encoded records; ``keys`` gives the random words of each record.

        Raises StatisticsError before the first statistics. Raises ParameterError if the batch has other attributes,
        another size than the keys, an alpha outside [0.01, 10], or arrays that cannot be masked together.
        """
        prepared = self._prepared_statistics()
        self._check(batch, keys)
        words = draw_words(keys, batch)
        noise = prepared.noise.draw(keys, batch, words)
        tasks = [prepared.task(batch, j, noise[j], words[j]) for j in range(len(batch.columns))]
        replacements = [replacer.replace(task) for replacer, task in zip(prepared.replacers, tasks, strict=True)]
        return MaskedBatch(
            tuple(Column(d.codes, column.offsets) for d, column in zip(replacements, batch.columns, strict=True)),
            tuple(d.distortion(task) for d, task in zip(replacements, tasks, strict=True)),
            prepared.numeric.mask(batch, keys) if prepared.numeric else None,
        )

    def noise_of(self, batch: Batch, keys: Keys) -> list[tuple[Float64Array, Int32Array]]:
        """Return the noise ε and the position of the reference of each value, by attribute, as ``mask_batch`` uses."""
        prepared = self._prepared_statistics()
        noise = prepared.noise.draw(keys, batch, draw_words(keys, batch))
        return [(noise[j], prepared.references(batch, j)) for j in range(len(batch.columns))]

    def attribute_channel(self, j: int, values: Int32Array, counts: Counts | None) -> NoiseRows:
        """Return the transition probabilities for the configured α; a record's own α has others.

        With ``pair``, they are averaged over the partners in the rows of the window. The reference of a scalar whose
        partner is an array is taken to be any of its elements, not the first one.
        """
        given = self._situations(j, values, counts)
        calibrated = self._calibrated
        return NoiseChannel.of(
            given,
            self._distances[j],
            self._candidate_weights(j),
            self._law(j),
            calibrated=calibrated,
            weak=calibrated and self._candidates == OBSERVED,
        ).channel(values)

    def mask_law(self, tuples: Tuples, channels: tuple[Channel, ...], counts: Counts) -> MaskLaw | None:
        """Return the law of a pair's masks; with ``pair``, None for attributes that are not partners."""
        paired = self._reference == "pair"
        if len(tuples.attributes) == 1 or not (paired or self._correlated):
            return super().mask_law(tuples, channels, counts)
        i, j = tuples.attributes
        if paired and self._partners[i] != j:
            return None
        first, second = (rows.noise for rows in channels if isinstance(rows, NoiseRows))
        order = np.arange(tuples.prior.size)
        rows = [np.searchsorted(c.values, codes) for c, codes in zip(channels, tuples.codes, strict=True)]
        situations = (order, order) if paired else (rows[0], rows[1])
        return PairMasks.of(first, second, situations, self._noise_pair(i, j))

    def _noise_pair(self, i: int, j: int) -> NoisePair:
        first, second = self._law(i), self._law(j)
        sigma = self._prepared_statistics().noise.sigma
        correlation = float(sigma[i, j] / np.sqrt(sigma[i, i] * sigma[j, j]))
        return NoisePair(first, second, correlation, shared=self._correlated)

    def _law(self, j: int) -> NoiseLaw:
        noise = self._prepared_statistics().noise
        return NoiseLaw(float(np.sqrt(noise.alpha[j] * noise.sigma[j, j])), self._distribution)

    def _candidate_weights(self, j: int) -> Float64Array:
        """Return (m,) float64: the weight of each concept among the candidates of a level."""
        weights = np.zeros(len(self._distances[j].taxonomy))
        if self._candidates == OBSERVED:
            frequencies = read_frequencies(self.statistics.model, self._taxonomies)[j]
            weights[frequencies.positions] = frequencies.weights
            return weights
        weights[Candidates.of(self._distances[j].taxonomy, self._candidates).positions] = 1.0
        return weights

    def _situations(self, j: int, values: Int32Array, counts: Counts | None) -> References:
        if self._reference != "pair":
            return References.single(values, self._prepared_statistics().fixed[j])
        if counts is None:
            raise StatisticsError(UNKNOWN_COUNTS)
        return paired_references(values, counts, j, self._partners[j], len(self._distances[j].taxonomy))

    def _prepare(self, statistics: Statistics) -> PreparedNoise:
        """Reject statistics of a single value: their noise would be 0, and later values would pass unmasked."""
        self._check_statistics(statistics)
        statistics = noise_statistics(statistics)
        self._check_statistics(statistics)
        variances = [statistics.variance[name] for name in self._attributes]
        noise = NominalNoise(
            sigma=statistics.covariance if self._correlated else np.diag(variances),
            alpha=self._alphas(self._attributes),
            correlated=self._correlated,
            distribution=self._distribution,
        )
        numeric, means = self._numeric_noise_of(statistics), self._means(statistics)
        fixed = means if self._reference == "mean" else (0,) * len(means)
        return PreparedNoise(noise, fixed, self._partners, numeric, self._replacers_of(statistics))

    def _replacers_of(self, statistics: Statistics) -> tuple[Replacer, ...]:
        if self._candidates != OBSERVED:
            return self._replacers
        laws = zip(self._distances, read_frequencies(statistics.model, self._taxonomies), strict=True)
        return tuple(RowReplacer(d, law, calibrated=self._calibrated, weak=self._calibrated) for d, law in laws)

    def _model(self, counts: Counts, statistics: Statistics) -> Mapping[str, Any]:
        previous = self._held_candidate(statistics)
        held = held_moments(statistics, previous)
        return held if self._candidates != OBSERVED else with_frequencies(held, previous, self._taxonomies, counts)

    def _held_candidate(self, statistics: Statistics) -> Statistics | None:
        """Return the statistics in force, or None if a mean that masking refers to has changed since."""
        previous = self._statistics
        if previous is None or (self._reference == "mean" and previous.mean != statistics.mean):
            return None
        return previous

    def _numeric_noise_of(self, statistics: Statistics) -> NumericNoise | None:
        if statistics.numeric is None:
            return None
        return NumericNoise.of(
            tuple(self._numeric.values()),
            statistics.numeric,
            self._alphas(self.numeric_attributes),
            self._numeric_noise,
            self._distribution,
        )

    def _alphas(self, names: tuple[str, ...]) -> Float64Array:
        return np.array([self._alpha[name] for name in names])

    def _check_statistics(self, statistics: Statistics) -> None:
        moments = np.append(statistics.covariance, list(statistics.variance.values()))
        if not np.isfinite(moments).all() or min(statistics.variance.values(), default=0.0) < 0:
            raise StatisticsError("a variance is negative, or a variance or covariance is not finite")
        if not is_positive_semidefinite(statistics.covariance):
            raise StatisticsError("the covariance matrix is not symmetric and positive semidefinite")
        self._check_noise(statistics)

    def _check_noise(self, statistics: Statistics) -> None:
        """Raise StatisticsError for an attribute without variance."""
        variances = np.minimum(np.diag(statistics.covariance), [statistics.variance[name] for name in self._attributes])
        constant = [name for name, variance in zip(self._attributes, variances, strict=True) if not variance > 0]
        if constant:
            raise StatisticsError(
                f"{', '.join(constant)}: all values are equal, so the noise would be 0 and later values would pass "
                "unmasked; calibrate on records with different values"
            )

    def _means(self, statistics: Statistics) -> tuple[int, ...]:
        try:
            return tuple(tau.position(statistics.mean[name]) for name, tau in self._taxonomies.items())
        except UnknownConceptError:
            raise StatisticsError("a mean of the statistics lies outside its taxonomy") from None

    def _check(self, batch: Batch, keys: Keys) -> None:
        super()._check(batch, keys)
        check_record_alphas(batch)
        self._check_arrays(batch)

    def _check_arrays(self, batch: Batch) -> None:
        arrays = [j for j, column in enumerate(batch.columns) if column.is_array]
        if self._correlated and len(arrays) > 1:
            names = ", ".join(self._attributes[j] for j in arrays)
            raise ParameterError(f"correlated=True allows one array attribute, but {names} are arrays")
        if any(self._partners[j] in arrays for j in arrays if self._partners):
            raise ParameterError("reference='pair' does not allow a pair of two arrays")
