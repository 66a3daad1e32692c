"""Semantic noise (2017: sections 4.4 and 4.5): replacement by a concept at a random semantic distance.

The noise is that of ``noise_model``; its probabilities, for the risk, are those of ``noise_law``.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from stream_masker.core.arrays import Int32Array
from stream_masker.core.batch import Batch, Column, MaskedBatch
from stream_masker.core.distance import Distance
from stream_masker.core.mechanisms.base import Mechanism, known_counts
from stream_masker.core.mechanisms.noise_law import MaskRule, NoiseLaw, noise_cells, pair_masks, partners
from stream_masker.core.mechanisms.noise_model import NoiseModel, NoiseSampler, model_of
from stream_masker.core.mechanisms.parameters import MAX_ALPHA, MIN_ALPHA, Parameters, parameter, per_attribute
from stream_masker.core.ontology import Taxonomy
from stream_masker.core.random import ROUNDING_WORD, TIES, Keys, draw_words
from stream_masker.core.replacement import Candidates, Replacer
from stream_masker.core.risk.law import Channel, Likelihoods, Tuples
from stream_masker.core.statistics.counts import Counts
from stream_masker.core.statistics.summary import Statistics
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
                first = batch.columns[1 - j].first_codes
                references = np.repeat(first, column.lengths) if column.is_array else first
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
