"""Semantic noise (2017: sections 4.4 and 4.5): replacement by a concept at a random semantic distance.

Its probabilities, for the risk, are those of ``noise_law``.

Σ differs a little in every version, so that |ε| crosses a level of distances for some values. Such a value would get
several masks under one noise key, and their average reveals more than one mask does. The model of an earlier version is
therefore *held*, that is, kept in use, until a variance, a covariance or the frequencies of an attribute differ by more
than ``TOLERANCE``. The variance of the noise then differs from α times that of the window by at most this share.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Literal, NamedTuple

import numpy as np

from stream_masker.core.arrays import Float64Array, Int32Array, Int64Array, UInt64Array, slices
from stream_masker.core.batch import Batch, Column, MaskedBatch
from stream_masker.core.distance import Distance
from stream_masker.core.mechanisms.base import Mechanism, known_counts
from stream_masker.core.mechanisms.encoding import pack_counts, unpack_counts
from stream_masker.core.mechanisms.noise_law import MaskRule, NoiseLaw, noise_cells, pair_masks, partners
from stream_masker.core.mechanisms.parameters import MAX_ALPHA, MIN_ALPHA, Parameters, parameter, per_attribute
from stream_masker.core.ontology import Taxonomy
from stream_masker.core.random import (
    EXPONENTIALS,
    ROUNDING_WORD,
    TIES,
    Keys,
    draw_words,
    exponential_roots,
    key_words,
    normals,
)
from stream_masker.core.replacement import Candidates, Replacer
from stream_masker.core.risk.law import Channel, Likelihoods, Tuples
from stream_masker.core.statistics.counts import Counts
from stream_masker.core.statistics.statistics import Statistics
from stream_masker.core.table import table_of
from stream_masker.errors import ParameterError, StatisticsError

PRESETS: Mapping[str | None, Mapping[str, Any]] = {
    None: {"alpha": 1.0, "rounding": "calibrated", "candidates": "observed"},
    "paper": {"alpha": 0.3, "rounding": "ceil", "candidates": "all"},
    "strong": {"alpha": 1.0, "rounding": "ceil", "candidates": "leaves"},
}
"""The parameters of each preset; None for those without one."""

MIN_LEAVES = 0.95
"""The least share of the window's values that are leaves, with the preset ``strong``.

The masks are leaves. Where values are inner concepts, masks are far away from all of them, and the correlation grows.
"""

TOLERANCE = 0.1
"""The largest difference of two covariances, relative to the geometric mean of the two variances, and the largest total
variation distance of frequencies, for which the model of the earlier version is held."""

RIDGE = 1e-12
"""What is added to variances, as a share of the greatest one, so that a Σ without full rank has a Cholesky factor."""


@dataclass(frozen=True, kw_only=True)
class NoiseParameters(Parameters):
    """Semantic noise (2017): replaces a value by a concept at the distance of a random noise magnitude."""

    preset: Literal["paper", "strong"] | None = parameter(
        None,
        "Other defaults for `alpha`, `rounding` and `candidates`. `paper`: 0.3, `ceil` and `all`, the literal rule of "
        "the papers. `strong`: 1, `ceil` and `leaves`, for data whose codes are leaves (at least 95 %).",
    )
    alpha: float | Mapping[str, float] | None = parameter(
        None,
        "The noise level, for all attributes or for each; in [0.01, 10]. Default: 1, with `preset: paper` 0.3.",
        ge=MIN_ALPHA,
        le=MAX_ALPHA,
    )
    correlated: bool | None = parameter(
        None,
        "Whether the noise of all attributes is drawn jointly, from their covariance. Default: `true`, but `false` for "
        "a single attribute and with several arrays.",
    )
    reference: Literal["mean", "pair", "root"] | None = parameter(
        None,
        "The reference of the noise's sign: the attribute's sMean (`mean`), the value of the other attribute "
        "(`pair`, for two attributes of one taxonomy), or the root of its taxonomy (`root`). Default: `pair` where it "
        "is possible, otherwise `mean`.",
    )
    distribution: Literal["normal", "laplace"] = parameter("normal", "The distribution of the noise.")
    rounding: Literal["ceil", "calibrated"] | None = parameter(
        None,
        "The distance level for a noise magnitude. `ceil`: the nearest level at or above it, as in the papers. "
        "`calibrated`: the level below or above it, with an expected squared distance of the squared noise. "
        "Default: `calibrated`.",
    )
    candidates: Literal["all", "leaves", "observed"] | None = parameter(
        None,
        "The allowed replacements: every concept of the taxonomy, also groups of codes such as chapters (`all`), "
        "`leaves` only, or the concepts of the window, drawn by their frequency (`observed`; not with `ceil`). "
        "Default: `observed`.",
    )


class SemanticNoise(Mechanism):
    """Replaces values by concepts whose semantic distance matches noise drawn from the statistics of a window.

    Uncorrelated noise is ε ~ N(0, α·sVar) for each attribute (2017: section 4.4). Correlated noise is ε ~ N(0, α·Σ)
    jointly (section 4.5), which preserves the correlation of the attributes. The sign of ε determines whether the
    replacement is farther from a reference than the original value, or nearer. The reference is the attribute's sMean
    (``mean``, Algorithm 1), the value of the other attribute in the same record (``pair``, Algorithm 2), or the
    taxonomy's root (``root``, Algorithm 3). ``core.replacement`` specifies the replacement, and where it goes beyond
    the papers.

    A record's present scalars get their noise jointly, and each element of its array gets it from Σ conditional on
    them. With ``pair``, a value whose partner, the other one, is absent has no sign condition. If the partner is an
    array, a scalar is the reference of every element, and the first element is the scalar's reference.
    """

    name = "semantic_noise"
    preserves = ("meaning", "mean", "dispersion", "correlation")

    parameters_type = NoiseParameters
    parameters: NoiseParameters

    def _set_up(self) -> None:
        taxonomies = self.taxonomies
        chosen = noise_defaults(taxonomies, (), vars(self.parameters))
        self._correlated, self._reference = chosen["correlated"], chosen["reference"]
        self._candidates, self._calibrated = chosen["candidates"], chosen["rounding"] == "calibrated"
        self.masks_are_observed = self._candidates == "observed"
        self.alpha: Mapping[str, float] = per_attribute("alpha", chosen["alpha"], self.attributes)
        self._is_paired = self._reference == "pair"
        if self._is_paired and (len(taxonomies) != 2 or len(set(taxonomies.values())) != 1):
            raise ParameterError(
                "reference='pair' needs two attributes of one taxonomy: use reference='root', which keeps the sdCor "
                "best, or reference='mean', which keeps the sMean (2017: Table 9)"
            )
        if not self._calibrated and self._candidates == "observed":
            raise ParameterError(
                "rounding='ceil' is not allowed with candidates='observed': few concepts of a window are near a value, "
                "and the next one beyond the noise is about three times as far; use rounding='calibrated', or "
                "candidates='all'"
            )

    def _mask(self, batch: Batch, keys: Keys, prepared: PreparedNoise) -> MaskedBatch:
        words = draw_words(keys, batch)
        noise = prepared.sampler.draw(keys, batch, words)
        columns, distortions = [], []
        for j, (column, rule) in enumerate(zip(batch.columns, prepared.rules, strict=True)):
            if self._is_paired:
                references = batch.columns[1 - j].first_codes[column.owners]
            else:
                references = np.full(column.codes.size, rule.reference, np.int32)
            rounding, ties = words[j][:, ROUNDING_WORD], words[j][:, TIES]
            replaced = rule.replacer.replace(column.codes, references, noise[j], rounding, ties)
            columns.append(Column(replaced.codes, column.offsets))
            distortions.append(replaced.distortion)
        return MaskedBatch(tuple(columns), tuple(distortions))

    def attribute_channel(self, j: int, values: Int32Array, counts: Counts | None) -> Channel:
        """Return the transition probabilities for the configured α.

        With ``pair``, they are averaged over the partners in the rows of the window. The reference of a scalar whose
        partner is an array is taken to be any of its elements, not the first one.
        """
        rule: MaskRule = self._prepared_statistics().rules[j]
        if self._is_paired:
            return rule.channel(values, *partners(values, known_counts(counts), j, self._sizes[j]))
        n = values.size
        return rule.channel(values, np.arange(n), np.full(n, rule.reference, np.int32), np.ones(n))

    def mask_law(self, tuples: Tuples, channels: tuple[Channel, Channel], counts: Counts) -> Likelihoods | None:
        if not (self._is_paired or self._correlated):
            return super().mask_law(tuples, channels, counts)
        (i, j), prepared = tuples.attributes, self._prepared_statistics()
        one, other = rules = prepared.rules[i], prepared.rules[j]
        references: Sequence[Int32Array] = tuples.codes[::-1]
        if not self._is_paired:
            references = [np.full(tuples.codes[0].size, rule.reference, np.int32) for rule in rules]
        first, second = map(MaskRule.situations, rules, tuples.codes, references)
        sigma = prepared.sampler.sigma
        correlation = float(sigma[i, j] / np.sqrt(sigma[i, i] * sigma[j, j]))
        cells = noise_cells((one.law, other.law), correlation, first.grid, second.grid, shared=self._correlated)
        return pair_masks(rules, (first, second), cells)

    def _prepare(self, statistics: Statistics) -> PreparedNoise:
        model = NoiseModel.read(statistics.model, self.attributes)
        sigma = model.covariance if self._correlated else np.diag(model.variances)
        distribution, alpha = self.parameters.distribution, np.array(list(self.alpha.values()))
        laws = [NoiseLaw(deviation, distribution) for deviation in np.sqrt(alpha * np.diag(sigma)).tolist()]
        sampler = NoiseSampler(sigma, alpha, correlated=self._correlated, distribution=distribution)
        references = [0] * len(laws)  # the root; where partners are references, it is not used
        if self._reference == "mean":
            references = [tau.position(statistics.mean[name]) for name, tau in self.taxonomies.items()]
        return PreparedNoise(sampler, tuple(self._rules(model, laws, references)))

    def _rules(self, model: NoiseModel, laws: Sequence[NoiseLaw], references: Sequence[int]) -> Iterator[MaskRule]:
        """Yield the rule of each attribute; attributes of one taxonomy share a table."""
        columns = list(zip(self.distances, model.frequencies, laws, references, strict=True))
        replacers: dict[Distance, Replacer] = {}
        for d, observed, law, reference in columns:
            anchors = [np.append(values, own) for each, (values, _), _, own in columns if each == d]
            some = Candidates.of_window(len(d.taxonomy), *observed) if self.masks_are_observed else None
            candidates = some or Candidates.of(d.taxonomy, self._candidates)
            table = table_of(d, np.concatenate(anchors))
            if some or d not in replacers:
                replacers[d] = Replacer(table, candidates, calibrated=self._calibrated)
            yield MaskRule(replacers[d], law, reference)

    def _model(self, counts: Counts, statistics: Statistics) -> Mapping[str, Any]:
        """Return the model of the window, or the one in force if that is near enough."""
        if self.parameters.preset == "strong":
            _check_leaves(counts, self.taxonomies)
        before, model = self._statistics, model_of(counts, statistics)
        if before is not None and (self._reference != "mean" or before.mean == statistics.mean):
            held, new = (NoiseModel.read(each, self.attributes) for each in (before.model, model))
            return before.model if held.is_near(new) else model
        return model

    def _check(self, batch: Batch, keys: Keys) -> None:
        super()._check(batch, keys)
        arrays = [j for j, column in enumerate(batch.columns) if column.is_array]
        if len(arrays) > 1 and (self._correlated or self._is_paired):
            names = ", ".join(self.attributes[j] for j in arrays)
            what = "correlated=True" if self._correlated else "reference='pair'"
            raise ParameterError(f"{what} allows one array attribute, but {names} are arrays")


class PreparedNoise(NamedTuple):
    """What masking needs from the statistics in force: the noise, and the rule of each attribute."""

    sampler: NoiseSampler
    rules: tuple[MaskRule, ...]


@dataclass(frozen=True)
class NoiseSampler:
    """The noise of p attributes: ε ~ N(0, α·Σ), or the multivariate Laplace distribution with the same covariance.

    * ``sigma``: (p, p) float64 Σ; for uncorrelated noise the diagonal matrix of sVar, which differs from the sdVar on
      the diagonal of 2017's equation 22. At most one array attribute can have covariances other than 0.
    * ``alpha``: (p,) float64, α of each attribute. ``distribution``: a name of ``law.SCALES``.
    * ``correlated``: whether one √W scales all noise of a record; otherwise each value has its own.
    """

    sigma: Float64Array
    alpha: Float64Array
    correlated: bool
    distribution: str

    def draw(self, keys: Keys, batch: Batch, words: Sequence[UInt64Array]) -> list[Float64Array]:
        """Draw ε of every value: (k,) float64 for each column. The noise of an absent value is meaningless: without it,
        that of the others follows their marginal distribution.

        Sums are made term by term, so that no bit depends on the size of the batch.
        """
        noise, columns = slices(normals(np.concatenate(words)), map(len, words)), batch.columns
        scalars, rows = self._factor(tuple(column.is_array for column in columns))
        variates = [noise[j] for j in scalars]
        for j, (*weights, own) in rows.items():
            noise[j] = own * noise[j]
            for weight, variate in zip(weights, variates, strict=False):
                noise[j] += weight * variate[columns[j].owners]
        if self.distribution == "laplace":
            noise = [root * each for root, each in zip(self._roots(keys, batch), noise, strict=True)]
        return noise

    @cached_property
    def _factor(self) -> Callable[[tuple[bool, ...]], tuple[list[int], dict[int, list[float]]]]:
        """The scalars, and the rows of the Cholesky factor of α·Σ by attribute, scalars first; they are kept.

        Its argument: which attributes are arrays.
        """
        scales, ridge = np.sqrt(self.alpha), RIDGE * self.sigma.max() * np.eye(self.alpha.size)
        sigma = (self.sigma + ridge) * np.outer(scales, scales)

        def factor(arrays: tuple[bool, ...]) -> tuple[list[int], dict[int, list[float]]]:
            order = sorted(range(len(arrays)), key=arrays.__getitem__)
            lower = np.linalg.cholesky(sigma[np.ix_(order, order)]).tolist()
            return order[: arrays.count(False)], {j: lower[i][: i + 1] for i, j in enumerate(order)}

        return lru_cache(factor)

    def _roots(self, keys: Keys, batch: Batch) -> list[Float64Array]:
        """Return √W of every value, by column. Records of one key share it if ``correlated``."""
        if not self.correlated:
            return [exponential_roots(words[:, 0]) for words in draw_words(keys, batch, EXPONENTIALS)]
        shared = exponential_roots(key_words(keys))
        return [np.repeat(shared, column.lengths) for column in batch.columns]


def model_of(counts: Counts, statistics: Statistics) -> dict[str, Any]:
    """Return what the noise of a window depends on, JSON-serialisable (``NoiseModel``)."""
    columns = zip(statistics.attributes, counts.values, strict=True)
    return {
        "variance": [statistics.variance[name] for name in statistics.attributes],
        "covariance": statistics.covariance.tolist(),
        "frequencies": {name: pack_counts(column.keys, column.counts) for name, column in columns},
    }


@dataclass(frozen=True, slots=True, eq=False)
class NoiseModel:
    """What masks are drawn from: the moments and frequencies of the window of a version, this one or an earlier one.

    * ``variances``: (p,) sVar. ``covariance``: (p, p) Σ.
    * ``frequencies``: for each attribute its values, ascending positions, and the frequency of each.
    """

    variances: Float64Array
    covariance: Float64Array
    frequencies: tuple[tuple[Int32Array, Int64Array], ...]

    @classmethod
    def read(cls, data: Mapping[str, Any], names: Sequence[str]) -> NoiseModel:
        """Read what ``model_of`` returns; ``names``: of the attributes.

        Raises StatisticsError for anything else, and for an attribute without variance.
        """
        p = len(names)
        try:
            variances = np.array(data["variance"], np.float64).reshape(p)
            covariance = np.array(data["covariance"], np.float64).reshape(p, p)
            model = cls(variances, covariance, tuple(unpack_counts(data["frequencies"][name]) for name in names))
        except (KeyError, TypeError, ValueError) as error:
            raise StatisticsError(f"the model does not have the expected format ({type(error).__name__})") from None
        least = np.minimum(np.diag(covariance), variances)
        if constant := [name for name, variance in zip(names, least, strict=True) if not variance > 0]:
            raise StatisticsError(
                f"{', '.join(constant)}: all values are equal, so the noise would be 0 and later values would pass "
                "unmasked; calibrate on records with different values"
            )
        return model

    def is_near(self, new: NoiseModel) -> bool:
        """Return whether masks of a later window may be drawn from this model."""
        scale = np.sqrt(np.outer(np.diag(self.covariance), np.diag(self.covariance)))
        moved = [
            *np.ravel(np.abs(new.covariance - self.covariance) / scale),
            *np.abs(new.variances / self.variances - 1.0),
            *(_total_variation(*both) for both in zip(self.frequencies, new.frequencies, strict=True)),
        ]
        return bool(max(moved) <= TOLERANCE)


def _total_variation(first: tuple[Int32Array, Int64Array], second: tuple[Int32Array, Int64Array]) -> float:
    """Return the total variation distance of two laws of concepts, from their values and frequencies."""
    size = 1 + int(max(values[-1] for values, _ in (first, second)))
    shares = [np.bincount(values, counts / counts.sum(), size) for values, counts in (first, second)]
    return float(np.abs(shares[0] - shares[1]).sum()) / 2.0


def _check_leaves(counts: Counts, taxonomies: Mapping[str, Taxonomy]) -> None:
    """Raise StatisticsError unless enough values of every attribute are leaves."""
    for (name, tau), column in zip(taxonomies.items(), counts.values, strict=True):
        share = float(column.counts[tau.leaf[column.keys]].sum() / column.rows)
        if share < MIN_LEAVES:
            raise StatisticsError(
                f"{name}: {share:.0%} of the window's codes are leaves of their ontology, but the preset strong needs "
                f"{MIN_LEAVES:.0%}: its masks are leaves, and where codes are categories it does not keep the "
                "correlation; remove the preset"
            )


def noise_defaults(
    taxonomies: Mapping[str, Hashable], arrays: Collection[str], given: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the parameters of semantic noise that have a default: the given values, and the best ones for the rest.

    Two attributes of one taxonomy get the reference ``pair``, others ``mean``. The noise of a single attribute, and
    that of several arrays, is not correlated.

    * ``taxonomies``: what identifies the taxonomy of each attribute.
    * ``arrays``: the attributes that are arrays.
    * ``given``: the given parameters with their values; None for those that are not given.
    """
    pair = len(taxonomies) == 2 and len(set(taxonomies.values())) == 1 and len(arrays) < 2
    best = {
        **PRESETS.get(given.get("preset"), PRESETS[None]),
        "correlated": len(taxonomies) > 1 and len(arrays) < 2,
        "reference": "pair" if pair else "mean",
    }
    return {name: value if given.get(name) is None else given[name] for name, value in best.items()}
