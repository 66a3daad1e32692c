"""Semantic transport: masking that keeps the joint law of the attributes, with a promise about every record."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from stream_masker.core.batch import Batch, MaskedBatch
from stream_masker.core.context import Context, ContextChoice
from stream_masker.core.dataframes import DataFrame, as_records
from stream_masker.core.distance import DistanceChoice
from stream_masker.core.dtypes import Int32Array
from stream_masker.core.mechanisms.base import MethodCard, Record
from stream_masker.core.mechanisms.options import checked_alpha
from stream_masker.core.mechanisms.transport.model import FORMAT, Maps, PairLaw, read_maps
from stream_masker.core.mechanisms.transport.strata import Settings, Strata, checked_sensitive
from stream_masker.core.mechanisms.windowed import WindowedMechanism
from stream_masker.core.ontology import Taxonomy
from stream_masker.core.random import Keys, WordLayout, draw_words
from stream_masker.core.risk.assessment import assess
from stream_masker.core.risk.channel import Channel
from stream_masker.core.risk.classes import value_classes
from stream_masker.core.risk.records import JointLaw, MaskLaw, Tuples
from stream_masker.core.risk.risk import Risk
from stream_masker.core.statistics.counts import Counts
from stream_masker.core.statistics.summary import Statistics
from stream_masker.core.validation import number_between, whole_number
from stream_masker.errors import ParameterError, StatisticsError

CHOICE_WORD = WordLayout(width=1, first=0)
"""One random word for each value."""
LEAST_CERTAINTY = 0.01


class SemanticTransport(WindowedMechanism[Maps]):
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
    * An absent value stays absent. Of two attributes, records that lack one have a map of their own.
    * A value that is not among the window's 2,000 most frequent ones is masked as the nearest of them.
    * Fields that are ``context`` stay in the record. Each context with enough records has maps of its own. The others
      have those of all records, restricted to the codes that occur in them where these are enough.
    * Tuples of fewer patients (different noise keys) than ``least`` spread within their blocks, so that a written
      tuple is no proof of one of the window.

    α·sdVar is the mean squared distance that is asked for. Values move farther where the promise needs it, and less
    where the window does not allow as much; they then count as truncated in the ``Distortion`` of a batch.
    """

    name: ClassVar[str] = "semantic_transport"
    snapshot_format: ClassVar[int] = FORMAT
    method_card: ClassVar[MethodCard] = MethodCard(
        source="own; Cuturi 2013, Peyré and Cuturi 2019",
        attributes="any number of nominal ones",
        taxonomies="any",
        preserves=("meaning", "mean", "dispersion", "marginals", "the correlation and cross table of two codes"),
        guarantee="no code is known with more than `certainty` from any masked record, unless it was so before; a "
        "masked tuple is no proof of a tuple of fewer patients than `least`",
        latency="none: each record is masked alone",
        cost="O(candidates of the value in the window), few of which are visited",
    )

    def __init__(
        self,
        taxonomies: Mapping[str, Taxonomy],
        *,
        alpha: float | Mapping[str, float] = 1.0,
        certainty: float = 0.5,
        least: int = 2,
        sensitive: Mapping[str, Any] | None = None,
        context: ContextChoice | None = None,
        distance: DistanceChoice = "wu_palmer",
        window: int = 10_000,
        window_age: float | None = None,
        rollup_depth: int = 2,
        seed: bytes,
    ) -> None:
        """Create a mechanism without statistics.

        Raises ParameterError, which names the value given and the values allowed.

        * ``taxonomies``: τ by attribute, in the order of all columns.
        * ``alpha``: α, in [0.01, 10], for all attributes or for each.
        * ``certainty``: β, which no posterior of a value exceeds, in [0.01, 1]; 1 promises nothing.
        * ``least``: of how many different noise keys a tuple must be in the window, or of how many records, where
          records have no noise key.
        * ``sensitive``: the limit of each group: by the name of a list of ``core.risk.sensitive``, or
          ``{"limit": β, "roots": [concepts]}`` by a name of one's own.
        * ``context``: the fields that stay. For each the texts that can occur, or the ascending bounds of bands of
          numbers; other values are one more kind.
        * ``distance``, ``window``, ``window_age``, ``rollup_depth``, ``seed``: see ``WindowedMechanism``.
        """
        super().__init__(
            taxonomies, distance=distance, window=window, window_age=window_age, rollup_depth=rollup_depth, seed=seed
        )
        known = Context.of({} if context is None else context)
        for name in known.names:
            if name in self._attributes:
                raise ParameterError(f"{name!r} is masked: a context is of fields that stay")
        self._settings = Settings(
            self._attributes,
            self._distances,
            tuple(checked_alpha(alpha, self._attributes).values()),
            number_between("certainty", certainty, LEAST_CERTAINTY, 1.0),
            checked_sensitive({} if sensitive is None else sensitive, self._taxonomies),
            whole_number("least", least, 1, 1_000_000),
            known,
        )

    @property
    def context(self) -> Context:
        return self._settings.context

    @property
    def promise(self) -> float | None:
        return self._settings.certainty if self._settings.certainty < 1.0 else None

    def mask_batch(self, batch: Batch, keys: Keys) -> MaskedBatch:
        """Mask encoded records; ``keys`` gives the random words of each record.

        Raises StatisticsError before the first statistics, and for lists if there were none in their window. Raises
        ParameterError if the batch has other attributes, another size than the keys, or a noise level of its own.
        """
        maps = self._prepared_statistics()
        self._check(batch, keys)
        words = [np.ascontiguousarray(each[:, 0]) for each in draw_words(keys, batch, CHOICE_WORD)]
        return maps.mask(batch if self.context else replace(batch, context=None), words)

    def _check(self, batch: Batch, keys: Keys) -> None:
        super()._check(batch, keys)
        if batch.alpha is not None:
            raise ParameterError(
                "semantic_transport has one noise level for all records: remove the alpha of single records, or use "
                "semantic_noise"
            )
        if self.context and batch.context is None:
            raise ParameterError(f"the batch has no context: give {', '.join(self.context.names)}")
        for name, column in zip(self._attributes, batch.columns, strict=True):
            if column.is_array and (0, 1) in self._prepared_statistics().chosen:
                raise StatisticsError(
                    f"{name!r} has lists, but the statistics are of records without them: calibrate with lists"
                )

    def attribute_channel(self, j: int, values: Int32Array, counts: Counts | None) -> Channel:
        """Return the transition probabilities of some values, averaged over the records that have them."""
        positions, rows = self._strata(counts).rows(j, values)
        return Channel(values, rows, value_classes(positions, len(self._distances[j].taxonomy)))

    def mask_law(self, tuples: Tuples, channels: tuple[Channel, ...], counts: Counts) -> MaskLaw | None:
        """Return the law of masked pairs; None for contexts, and for attributes that are masked given another one."""
        maps = self._prepared_statistics()
        if self.context or (len(self._attributes) > 1 and (0, 1) not in maps.chosen):
            return None
        one = len(self._attributes) == 1
        return super().mask_law(tuples, channels, counts) if one else PairLaw.of(maps.pooled((0, 1)), tuples)

    def record_joint(self, j: int, counts: Counts) -> JointLaw | None:
        """Return the joint law of attribute j's value and all masks of its record, with its context and which values
        are absent. The n rows are the values of ``counts.values[j]``, in their order."""
        return self._strata(counts).joint(j)

    def expected_risk(self) -> Risk | None:
        counts, other = self._prepared_statistics().counts(), copy.copy(self)
        other._counts = counts
        return None if counts is None else assess(other, counts, draws=1000)

    def _strata(self, counts: Counts | None) -> Strata:
        return Strata(self._settings, self._known_counts() if counts is None else counts, self._prepared_statistics())

    def _model(self, counts: Counts, statistics: Statistics) -> Mapping[str, Any]:
        return Strata(self._settings, counts, self._prepared).model(np.diag(statistics.covariance))

    def _prepare(self, statistics: Statistics) -> Maps:
        noise = np.array(self._settings.alpha) * np.diag(statistics.covariance)
        return read_maps(statistics.model, self.context.to_list(), self._distances, noise)

    def learn_many(
        self,
        records: Iterable[Record] | DataFrame,
        *,
        keys: Sequence[bytes] | None = None,
        time: float | None = None,
    ) -> None:
        """Add records to the window. Raises ParameterError, too, if none of several records has a context field."""
        given = self._as_records(records)
        for name in self.context.names if len(given) > 1 else ():
            if not any(name in record for record in given):
                raise ParameterError(f"no record has the context {name!r}")
        super().learn_many(given, keys=keys, time=time)

    def encode(self, records: Sequence[Record] | DataFrame) -> Batch:
        """Encode records, with their context. See ``WindowedMechanism``."""
        given = self._as_records(records)
        batch, context = super().encode(given), self.context
        if not context:
            return batch
        return replace(batch, context=context.numbers([[record.get(n) for record in given] for n in context.names]))

    def _as_records(self, records: Iterable[Record] | DataFrame) -> Sequence[Record]:
        names = (*self._attributes, *self.context.names)
        return as_records(records, names, required=self._attributes)
