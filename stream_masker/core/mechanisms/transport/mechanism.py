"""Semantic transport: masking that keeps the joint law of the attributes, and a promise about every record."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from stream_masker.core.batch import Batch, MaskedBatch
from stream_masker.core.context import Context, ContextChoice
from stream_masker.core.dataframes import DataFrame, as_records
from stream_masker.core.dtypes import Int32Array
from stream_masker.core.mechanisms.base import Mechanism, known_counts
from stream_masker.core.mechanisms.encoding import Record
from stream_masker.core.mechanisms.parameters import (
    MAX_ALPHA,
    MIN_ALPHA,
    Parameters,
    parameter,
    per_attribute,
)
from stream_masker.core.mechanisms.transport.fit import Values
from stream_masker.core.mechanisms.transport.model import FORMAT, Maps
from stream_masker.core.mechanisms.transport.strata import Settings, Strata
from stream_masker.core.ontology import Taxonomy
from stream_masker.core.random import Keys, WordLayout, draw_words
from stream_masker.core.risk.law import Channel, OutputClasses, Tuples
from stream_masker.core.risk.risk import Risk, disclosure
from stream_masker.core.risk.sensitive import limited_groups
from stream_masker.core.statistics.counts import MAX_PATTERN_ATTRIBUTES, Counts
from stream_masker.core.statistics.summary import Statistics
from stream_masker.errors import ParameterError, StatisticsError

CHOICE_WORD = WordLayout(width=1, first=0)
"""One random word for each value."""


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
        "The greatest probability of a value given any masked record, for everybody who knows all but the secret and "
        "whose prior is the window's law; a value that is more frequent may stay so. From 0.01 to 1, which promises "
        "nothing.",
        ge=0.01,
        le=1.0,
    )
    least: int = parameter(
        2,
        "Of how many different noise keys, such as patients, or of records without a noise key, a tuple must be in the "
        "window to be written as such; rarer ones spread within their blocks. At least 1.",
        ge=1,
        le=1_000_000,
    )
    sensitive: Mapping[str, Any] | None = parameter(
        None,
        "The same for groups of concepts: a limit by the name of a built-in list (`hiv`, `mental_disorders`, "
        "`substance_use`, `pregnancy_and_abortion`, `sexually_transmitted_infections`, `abuse`), or its `limit` and "
        "`roots` by a name of one's own.",
    )
    context: ContextChoice | None = parameter(
        None,
        "Fields that stay in the record and whose relation to the codes is kept, such as sex and an age band, by path. "
        "Of each the texts that can occur, or the ascending bounds of bands of numbers; other and missing values are "
        "one more kind. A field is read as it is released: it must be kept, or generalized.",
    )


class SemanticTransport(Mechanism):
    """Moves records by a random map that keeps the law of the window, and promises something about every record.

    The attacker knows the mechanism, its parameters, the published version, how often every code and every linked pair
    of codes occurs in the window, and every masked record with its context; not the secret. For every masked record t
    that can be written, every attribute and every value x, P(x | t) ≤ max(``certainty``, P(x)), and the same for groups
    of concepts (``sensitive``). The chapter of a code is not hidden: masks that keep the meaning mostly stay in it.
    The promise is one for each event. Its law takes elements of arrays, and their number, for independent given the
    root: what their number tells, or what they tell together, is not promised.

    * One or two attributes without arrays: the law of values, or of pairs, is kept in expectation.
    * Otherwise the first attribute that is no array is the root. It keeps its law, and each other attribute its law
      with the root. Elements of arrays, and further attributes, move as far as these laws force them to.
    * An absent value stays absent. Records with the same attributes have maps of their own, and the promise holds
      among them, where there are at least 200 of them and one in a hundred (of 2,000 records or fewer, one in ten).
      Records with rarer patterns are masked independently of their codes. With more than 12 attributes it is not
      told apart what is missing, and nothing is promised.
    * A value that is not among the window's 2,000 most frequent ones is masked as the nearest of them.
    * Fields that are ``context`` stay in the record. Each context with enough records has maps of its own. The others
      have those of all records, restricted to the codes that occur in them where these are enough.
    * Tuples of fewer patients (different noise keys) than ``least`` spread within their blocks, so that a written
      tuple is no proof of one of the window.

    α·sdVar is the mean squared distance that is asked for. Values move farther where the promise needs it, and less
    where the window does not allow as much; they then count as truncated in the ``Distortion`` of a batch.
    """

    name = "semantic_transport"
    snapshot_format = FORMAT
    source = "own; Cuturi 2013, Peyré and Cuturi 2019"
    preserves = ("meaning", "mean", "dispersion", "marginals", "the correlation and cross table of two codes")
    guarantee = (
        "no code is known with more than `certainty` from any masked record, unless it was so before; a "
        "masked tuple is no proof of a tuple of fewer patients than `least`"
    )

    parameters_type = TransportParameters

    def __init__(self, taxonomies: Mapping[str, Taxonomy], **options: Any) -> None:
        """Create a mechanism without statistics; ``options``: see ``Mechanism``."""
        super().__init__(taxonomies, **options)
        given, known = self.parameters, Context.of(self.parameters.context or {})
        for name in known.names:
            if name in self.attributes:
                raise ParameterError(f"{name!r} is masked: a context is of fields that stay")
        alpha = tuple(per_attribute("alpha", given.alpha, self.attributes).values())
        groups = limited_groups({} if given.sensitive is None else given.sensitive, self._taxonomies)
        self._settings = Settings(self.attributes, self.distances, alpha, given.certainty, groups, given.least, known)

    @property
    def context(self) -> Context:
        return self._settings.context

    @property
    def promise(self) -> float | None:
        is_promised = self.parameters.certainty < 1.0 and len(self.attributes) <= MAX_PATTERN_ATTRIBUTES
        return self.parameters.certainty if is_promised else None

    def _mask(self, batch: Batch, keys: Keys, prepared: Maps) -> MaskedBatch:
        words = [np.ascontiguousarray(each[:, 0]) for each in draw_words(keys, batch, CHOICE_WORD)]
        return self._masked(batch, *prepared.mask(batch, words), prepared.noise.tolist())

    def _check(self, batch: Batch, keys: Keys) -> None:
        super()._check(batch, keys)
        maps = self._prepared_statistics()
        if self.context and batch.context is None:
            raise ParameterError(f"the batch has no context: give {', '.join(self.context.names)}")
        pairs = {j for _, each in maps.strata.values() for m in each if len(m.attributes) == 2 for j in m.attributes}
        for j, (name, column) in enumerate(zip(self.attributes, batch.columns, strict=True)):
            if column.is_array and j in pairs:
                raise StatisticsError(
                    f"{name!r} has lists, but the statistics are of records without them: calibrate with lists"
                )

    def attribute_channel(self, j: int, values: Int32Array, counts: Counts | None) -> Channel:
        """Return the transition probabilities of some values, averaged over the records that have them.

        A value that the window does not have gets those of the nearest one. One that the drawn masks of the root leave
        out, for lists, gets the chances of all values.
        """
        law = self._prepared_statistics().laws[j]
        own = Values.of(self.distances[j], law.positions).indices(values)
        rows = np.where(law.joint[own].any(axis=1, keepdims=True), law.joint[own], law.joint.sum(axis=0))
        classes = OutputClasses.of_values(law.positions, len(self.distances[j].taxonomy))
        return Channel(values, rows / rows.sum(axis=1, keepdims=True), classes)

    def mask_law(self, tuples: Tuples, channels: tuple[Channel, ...], counts: Counts) -> None:
        """Return None: ``risk`` follows from the maps."""

    def risk(self, *, draws: int = 1000) -> Risk:
        self._prepared_statistics()
        known_counts(self._counts)
        return self.expected_risk()

    def expected_risk(self) -> Risk:
        """Return the risk, which follows from the maps: their law is that of the window."""
        maps = self._prepared_statistics()
        value, record, unchanged, rmse = {}, {}, {}, {}
        for j, (name, distance) in enumerate(zip(self.attributes, self.distances, strict=True)):
            law = maps.laws[j]
            joint, positions = law.joint, law.positions
            prior = joint.sum(axis=1)
            value[name] = disclosure(distance.taxonomy, positions, prior, [joint])
            blocks, drawn = law.blocks()
            record[name] = disclosure(distance.taxonomy, positions, prior, blocks, None if drawn else 0.0)
            if drawn:  # the promise bounds what was not drawn
                surest = max(self.parameters.certainty, *(float(part.prior.max()) for _, part in law.parts))
                record[name] = replace(record[name], greatest=surest)
            unchanged[name] = float(joint.trace())
            rmse[name] = float((joint * distance.matrix(positions) ** 2).sum() ** 0.5)
        return Risk(value, record, unchanged, None, rmse)

    def _model(self, counts: Counts, statistics: Statistics) -> Mapping[str, Any]:
        return Strata(self._settings, counts, np.diag(statistics.covariance)).model()

    def _prepare(self, statistics: Statistics) -> Maps:
        noise = np.array(self._settings.alpha) * np.diag(statistics.covariance)
        return Maps.read(statistics.model, self.context.to_list(), self.distances, noise)

    def encode(self, records: Sequence[Record] | DataFrame) -> Batch:
        """Encode records, with their context. See ``Mechanism``."""
        given = self._as_records(records)
        batch, context = super().encode(given), self.context
        if not context:
            return batch
        return replace(batch, context=context.numbers([[record.get(n) for record in given] for n in context.names]))

    def _as_records(self, records: Iterable[Record] | DataFrame) -> Sequence[Record]:
        names = (*self.attributes, *self.context.names)
        return as_records(records, names, required=self.attributes)
