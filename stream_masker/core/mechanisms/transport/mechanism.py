"""Semantic transport: masking that keeps the joint law of the attributes, and a promise about every record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from stream_masker.core.arrays import Float64Array, Int32Array
from stream_masker.core.batch import Batch, MaskedBatch
from stream_masker.core.context import Context, ContextChoice
from stream_masker.core.mechanisms.base import Mechanism
from stream_masker.core.mechanisms.encoding import Record
from stream_masker.core.mechanisms.parameters import MAX_ALPHA, MIN_ALPHA, Parameters, parameter, per_attribute
from stream_masker.core.mechanisms.transport.certainty import Limits, certain
from stream_masker.core.mechanisms.transport.fit import Law, Values
from stream_masker.core.mechanisms.transport.given import Given, conditional
from stream_masker.core.mechanisms.transport.model import EVERY, FORMAT, HIDDEN, Maps, Transport, packed
from stream_masker.core.random import Keys, WordLayout, draw_words
from stream_masker.core.risk.law import Channel, Tuples, class_of_each
from stream_masker.core.risk.risk import Risk, disclosure, limited_groups
from stream_masker.core.statistics.counts import MAX_PATTERN_ATTRIBUTES, Counts, SparseCounts, combine
from stream_masker.core.statistics.statistics import Statistics
from stream_masker.errors import ParameterError, StatisticsError

CHOICE_WORD = WordLayout(width=1, first=0)
"""One random word for each value."""
ENOUGH, ENOUGH_SHARE = 200, 100
"""The number of records that a context, or a pattern of missing attributes, needs for maps of its own; at least one
in ``ENOUGH_SHARE`` of all records, and no more than one in ten."""

Part: TypeAlias = Mapping[tuple[int, ...], SparseCounts]
"""The counts of some records, by attributes: (j,) for the values of attribute j, (i, j) for pairs of values.

Scalars count once for each record, except in pairs with an array."""


@dataclass(frozen=True, kw_only=True)
class TransportParameters(Parameters):
    """The parameters of semantic transport."""

    alpha: float | Mapping[str, float] = parameter(
        1.0,
        "The noise level: the mean squared distance of an attribute is alpha·sdVar, more where the promise needs it. "
        "For all attributes or for each; in [0.01, 10].",
        ge=MIN_ALPHA,
        le=MAX_ALPHA,
    )
    certainty: float = parameter(
        0.5,
        "The greatest probability of a code in the eyes of an attacker who sees a masked record, and knows the "
        "distribution of the window and everything else but the secret. A code that is more frequent in the window may "
        "be as probable as it is frequent. From 0.01 to 1, which promises nothing.",
        ge=0.01,
        le=1.0,
    )
    least: int = parameter(
        2,
        "The least number of patients (different noise keys; records, if the noise key is `position`) of a pair of "
        "codes: the share of a rarer pair spreads over the pairs of the same two blocks. At least 1.",
        ge=1,
        le=1_000_000,
    )
    sensitive: Mapping[str, Any] | None = parameter(
        None,
        "The same as `certainty` for groups of concepts. The key is the name of a built-in list (`hiv`, "
        "`mental_disorders`, `substance_use`, `pregnancy_and_abortion`, `sexually_transmitted_infections`, `abuse`), "
        "and the value its limit. Or the key is a name of your own, and the value has the group's `limit` and `roots`.",
    )
    context: ContextChoice | None = parameter(
        None,
        "Fields that stay in the record and whose relation to the codes is kept, such as sex and an age band, by path. "
        "The value is the list of texts that can occur, or the ascending bounds of bands of numbers; all other values "
        "count as one. A field must be kept or generalized, because its masked value counts.",
    )


class SemanticTransport(Mechanism):
    """Replaces codes at random by others so that their joint distribution stays, with a promise about every record.

    The attacker knows the mechanism, its parameters, the published version, how often every code and every linked pair
    of codes occurs in the window, and every masked record with its context; not the secret. For every masked record t
    that can be written, every attribute and every value x, P(x | t) ≤ max(``certainty``, P(x)), and the same for groups
    of concepts (``sensitive``). The chapter of a code is not hidden: masks that keep the meaning mostly stay in it.
    Each masked record is judged by itself. Elements of arrays, and their number, are taken as independent given the
    root (below): the promise does not cover what their number tells, or what they tell together.

    * One or two attributes without arrays: the distribution of values, or of pairs, is kept in expectation.
    * Otherwise the first attribute that is no array is the root. It keeps its distribution, and each other attribute
      its joint distribution with the root, and moves as far as these distributions force it to.
    * An absent value stays absent. The records that have the same attributes get a map of their own, and the promise
      holds among them, if they are at least 200 and 1 % of the window (10 %, if the window has at most 2,000 records).
      The masks of records with rarer patterns do not depend on their codes. With more than 12 attributes, patterns are
      not distinguished, and nothing is promised.
    * A value that is not among the window's 2,000 most frequent ones is masked as the nearest of them.
    * Fields that are ``context`` stay in the record. Each context with enough records has a map of its own. The others
      share the map of all records, restricted to the codes that occur in them if these are enough.
    * A pair of codes of fewer patients (different noise keys) than ``least`` spreads over the pairs of the same blocks.
      So a written pair does not prove that the window has it.

    α·sdVar is the mean squared distance that is asked for. Values move farther where the promise needs it, and less
    where the window does not allow as much.
    """

    most_values = 2_000
    """The map is one of this number of values of each attribute: the most frequent ones."""

    name = "semantic_transport"
    snapshot_format = FORMAT
    needs_patterns = True
    preserves = ("meaning", "mean", "dispersion", "marginals", "the correlation and cross table of two codes")

    parameters_type = TransportParameters

    def _set_up(self) -> None:
        given, known = self.parameters, Context.of(self.parameters.context or {})
        for name in known.names:
            if name in self.attributes:
                raise ParameterError(f"{name!r} is masked: a context is of fields that stay")
        self._context, self._alpha = known, np.array([*per_attribute("alpha", given.alpha, self.attributes).values()])
        self.groups = limited_groups({} if given.sensitive is None else given.sensitive, self.taxonomies)

    @property
    def context(self) -> Context:
        return self._context

    @property
    def promise(self) -> float | None:
        is_promised = self.parameters.certainty < 1.0 and len(self.attributes) <= MAX_PATTERN_ATTRIBUTES
        return self.parameters.certainty if is_promised else None

    def _mask(self, batch: Batch, keys: Keys, prepared: Maps) -> MaskedBatch:
        words = [np.ascontiguousarray(each[:, 0]) for each in draw_words(keys, batch, CHOICE_WORD)]
        noise: list[float] = (self._alpha * np.diag(self.statistics.covariance)).tolist()
        return self._masked(batch, prepared.mask(batch, words), noise=noise)

    def _check(self, batch: Batch, keys: Keys) -> None:
        super()._check(batch, keys)
        if self.context and batch.context is None:
            raise ParameterError(f"the batch has no context: give {', '.join(self.context.names)}")

    def attribute_channel(self, j: int, values: Int32Array, counts: Counts | None) -> Channel:
        """Return the transition probabilities of some values, averaged over the records that have them.

        A value that the window does not have gets those of the nearest one. One that the drawn masks of the root leave
        out, for lists, gets the chances of all values.
        """
        law = self._prepared_statistics().laws[j]
        joint, own = law.joints[0], Values(self.distances[j], law.positions).indices(values)
        rows = np.where(joint[own].any(axis=1, keepdims=True), joint[own], joint.sum(axis=0))
        classes = class_of_each(law.positions, len(self.distances[j].taxonomy))
        return Channel(values, rows / rows.sum(axis=1, keepdims=True), classes)

    def mask_law(self, tuples: Tuples, channels: tuple[Channel, Channel], counts: Counts) -> None:
        """Return None: ``risk`` follows from the maps."""

    def risk(self, *, draws: int = 1000) -> Risk:
        """Return the risk; what all masks of a record tell follows from the maps. See ``Mechanism``."""
        found, laws, record = super().risk(draws=draws), self._prepared_statistics().laws, {}
        for j, (name, distance) in enumerate(zip(self.attributes, self.distances, strict=True)):
            (blocks, error), (joint, most) = laws[j].blocks(), laws[j].joints
            record[name] = disclosure(distance.taxonomy, laws[j].positions, joint.sum(axis=1), blocks, error)
            if error:  # the promise bounds what was not drawn
                record[name] = replace(record[name], greatest=max(self.parameters.certainty, most))
        return replace(found, record=record)

    def _model(self, counts: Counts, statistics: Statistics) -> Mapping[str, Any]:
        return Strata(self, counts, (self._alpha * np.diag(statistics.covariance)).tolist()).model()

    def _prepare(self, statistics: Statistics) -> Maps:
        return Maps.read(statistics.model, self.context.fingerprint, self.distances)

    def encode(self, records: Sequence[Record]) -> Batch:
        """Encode records, with their context. See ``Mechanism``."""
        batch, context = super().encode(records), self.context
        if not context:
            return batch
        return replace(batch, context=context.numbers([[record.get(n) for record in records] for n in context.names]))


@dataclass(frozen=True)
class Strata:
    """Fits the maps of a window: of each context, and of each pattern of missing attributes.

    A missing code tells something about the codes that are there. So the records with the same attributes present have
    a law and a map of their own, of a pair or of a root, by which others are masked, as have the records of a context.

    ``wanted``: E[d²] that is asked for of each of p attributes.
    """

    mechanism: SemanticTransport
    counts: Counts
    wanted: Sequence[float]

    def model(self) -> dict[str, Any]:
        """Return the model of the window. Raises StatisticsError if nothing can be masked."""
        constant = [name for name, w in zip(self.mechanism.attributes, self.wanted, strict=True) if not w > 0.0]
        if constant:
            raise StatisticsError(
                f"{', '.join(constant)}: all values are equal, so nothing could be masked; calibrate on records with "
                "different values"
            )
        every, contexts = self._parts(self.counts), self.counts.contexts if self.mechanism.context else {}
        strata = [
            [number, pattern, records, maps or self._maps_of_all(every[pattern], part)]
            for number, parts in [(EVERY, every), *((number, self._parts(own)) for number, own in contexts.items())]
            for pattern, part in parts.items()
            for records, maps in [self._maps(part)]
        ]
        columns = enumerate(self.counts.values)
        hidden = [packed(Transport.independent(j, self._law((j,), {(j,): own})).published()) for j, own in columns]
        return {"context": self.mechanism.context.fingerprint, "strata": [*strata, [EVERY, HIDDEN, 0, hidden]]}

    def _parts(self, counts: Counts) -> dict[int, Part]:
        """Return the counts of each pattern that occurs: the sum of 2^j over the attributes j that are missing.

        A tuple of records that lack nothing is of as many patients as in the whole window.
        """
        every: dict[tuple[int, ...], SparseCounts] = {(i, j): pair for (i, j), pair in counts.pairs.items()}
        for j, column in enumerate(counts.values):
            events = counts.events.get((j,), column)
            bits = None if column.key_bits is None else column.key_bits[np.searchsorted(column.keys, events.keys)]
            every[j,] = replace(events, key_bits=bits)
        p, parts = len(counts.values), {0: every}
        for key, lacking in counts.lacking.items():
            patterns, some = lacking.keys & ((1 << p) - 1), replace(lacking, keys=lacking.keys >> p)
            every[key] = combine([every[key], replace(some, counts=-some.counts)])
            for pattern in np.unique(patterns).tolist():
                parts.setdefault(pattern, {})[key] = some.select(patterns == pattern)
        every = {key: column for key, column in every.items() if column.keys.size}
        return {pattern: part for pattern, part in sorted((parts | {0: every}).items()) if part}

    def _maps(self, part: Part) -> tuple[int, list[Any]]:
        """Return the number of some records, at least, and their maps as they are published; none for too few of them.

        Of arrays alone, elements are counted.
        """
        records, every = min(column.rows for key, column in part.items() if len(key) == 1), self.counts.records
        if records < max(min(ENOUGH, every / 10), every / ENOUGH_SHARE):
            return records, []
        present = [key[0] for key in part if len(key) == 1]
        scalars = [j for j in present if j not in self.counts.lengths]
        pair = len(scalars) == len(present) == 2
        keys = [tuple(scalars)] if pair else [(j,) for j in scalars[:1] or present]
        laws = [self._law(key, part) for key in keys]
        given = [j for j in present if scalars and j not in keys[0]]
        links = {j: self._law((keys[0][0], j), part, laws[0].values[0]) for j in given}
        if not all(some.any() for law in (*laws, *links.values()) for some in law.frequent):
            return records, []
        return records, [packed(self._fitted(*each, links).published()) for each in zip(keys, laws, strict=True)]

    def _maps_of_all(self, every: Part, own: Part) -> list[Any]:
        """Return the maps of the records of all contexts that have only codes of enough patients of one, if these are
        some; none if these are all records."""
        least, part = self.mechanism.parameters.least, dict[tuple[int, ...], SparseCounts]()
        known = {key[0]: column.keys[column.units >= least] for key, column in own.items() if len(key) == 1}
        some = {j: codes for j, codes in known.items() if codes.size > 1}
        for key, column in every.items():
            codes = np.divmod(column.keys, len(self.mechanism.distances[key[-1]].taxonomy))[-len(key) :]
            held = [np.isin(code, some.get(j, code)) for j, code in zip(key, codes, strict=True)]
            part[key] = column.select(np.logical_and.reduce(held))
        are_all = all(part[key].keys.size == column.keys.size for key, column in every.items())
        return [] if are_all else self._maps(part)[1]

    def _law(self, key: tuple[int, ...], part: Part, root: Values | None = None) -> Law:
        """Return the law of one attribute, or of a pair; ``root``: the values of the first one, if the second is masked
        given it."""
        (i, j), made = (min(key), max(key)), self.mechanism
        column = part[key] if key in part else part[i, j]
        codes = np.divmod(column.keys, len(made.distances[j].taxonomy) if len(key) == 2 else 1)
        codes = codes if key[0] == i else codes[::-1]
        first, second = (
            Values.most_frequent(made.distances[k], own, column.counts, made.most_values)
            for k, own in zip((key[0], key[-1]), codes, strict=True)
        )
        return Law.of((root, second.walked) if root else (first, second), codes, column, made.parameters.least)

    def _fitted(self, key: tuple[int, ...], law: Law, links: Mapping[int, Law]) -> Transport:
        """Return a map, and what is masked given it; ``links``: by attribute, the law of the root and it."""
        wanted = [self.wanted[j] for j in key]
        sources = {j: conditional(pair.table(pair.share)) for j, pair in links.items()}
        bounds = {j: self._limits(j, links[j].values[1], law.marginal(0) @ source) for j, source in sources.items()}
        told: list[tuple[Float64Array, float]] = []  # by the root's mask of the others, where this can exceed a limit
        for j, source in sources.items():
            chances, greatest = np.concatenate([source.T, bounds[j].groups @ source.T]), bounds[j].greatest
            over = chances.max(axis=1) > greatest
            told += zip(chances[over], greatest[over].tolist(), strict=True)
        limits = [self._limits(j, law.values[k], law.marginal(k), told) for k, j in enumerate(key)]
        found, redraw_chance = certain(law, limits, wanted)
        root = found.joint(0, redraw_chance) if links else np.zeros((0, 0))
        given = {j: Given.fitted(pair, root, bounds[j], self.wanted[j]) for j, pair in links.items()}
        return Transport(key, found, redraw_chance, given)

    def _limits(
        self, j: int, values: Values, prior: Float64Array, others: Sequence[tuple[Float64Array, float]] = ()
    ) -> Limits:
        """Return the limits of the values of an attribute with these priors, of its sensitive groups, and of others."""
        own = self.mechanism.groups[j].values()
        groups = [(inside[values.positions].astype(np.float64), limit) for inside, limit in own]
        return Limits.of(prior, self.mechanism.parameters.certainty, [*groups, *others])
