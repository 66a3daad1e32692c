"""Semantic transport: masking that preserves the joint law of the attributes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from stream_masker.core.batch import Batch, MaskedBatch
from stream_masker.core.context import Context, ContextChoice
from stream_masker.core.distance import DistanceChoice
from stream_masker.core.dtypes import Int32Array, UInt64Array
from stream_masker.core.mechanisms.base import MethodCard, Record
from stream_masker.core.mechanisms.encoding import RecordCodes
from stream_masker.core.mechanisms.transport.disclosure import Disclosure, TransportedPairs
from stream_masker.core.mechanisms.transport.model import ModelBuilder, TransportSettings, read_transport
from stream_masker.core.mechanisms.transport.prepared import PreparedTransport
from stream_masker.core.mechanisms.transport.strata import ContextSettings, Laws, LawsBuilder, read_laws
from stream_masker.core.mechanisms.transport.target import DEFAULT_TARGET, Target
from stream_masker.core.mechanisms.windowed import WindowedMechanism
from stream_masker.core.ontology import Taxonomy
from stream_masker.core.random.keys import Keys
from stream_masker.core.random.layout import WordLayout, draw_words, one_record_words
from stream_masker.core.risk.assessment import assess
from stream_masker.core.risk.channel import Channel
from stream_masker.core.risk.floor import check_changed
from stream_masker.core.risk.records import MaskLaw, Tuples, value_law
from stream_masker.core.risk.risk import Risk
from stream_masker.core.statistics.counts import Counts
from stream_masker.core.statistics.summary import Statistics
from stream_masker.core.table import DataFrame, as_records
from stream_masker.core.validation import whole_number
from stream_masker.errors import ParameterError, StatisticsError

CHOICE_WORD = WordLayout(width=1, first=0)
"""One random word for each value."""


class SemanticTransport(WindowedMechanism[PreparedTransport | Laws]):
    """Moves records by a random map that preserves the law of the window, and promises something about every record.

    For every masked record t that can be written, every attribute and every value x, P(x | t) ≤ max(``certainty``,
    P(x)), and the same for groups of concepts (``sensitive``). The laws that are preserved, for whom the promise is
    exact, and what each target means, are in docs/methods/semantic-transport.md and docs/derivations.md.

    * One or two attributes without arrays: the law of values, or of pairs, is preserved in expectation.
    * Otherwise one scalar is the root of a star, and the laws of the pairs of the root and of each other attribute are.
      These others can move farther than a given α asks for.
    * An absent value stays absent. A value whose root is absent is masked alone, and so is a pair that lacks a value.
    * A value that is not among the window's 2,000 most frequent ones is masked as the nearest of them.
    * Fields that are ``context`` stay in the record. Each context has a law of its own; rare ones share a law.
    * Tuples of fewer different noise keys than ``least`` are never written. They move to near tuples.

    An α is the least distance: values move farther where the promise needs it, as ``risk().rmse`` says, and less where
    the window does not allow as much; then they count as truncated in the ``Distortion`` of a batch. A target that
    cannot be met raises StatisticsError, which says what is possible.
    """

    name: ClassVar[str] = "semantic_transport"
    snapshot_format: ClassVar[int] = 6
    method_card: ClassVar[MethodCard] = MethodCard(
        summary="moves a record to another record of the window by an optimal random map that preserves their law",
        use_when="records must be masked one by one, with a promise about each, and statistics must survive",
        source="own; Cuturi 2013, Peyré and Cuturi 2019, Gouweleeuw and others 1998",
        attributes="any number of nominal ones",
        taxonomies="any",
        preserves=("meaning", "mean", "dispersion", "marginals", "the correlation and cross table of two codes"),
        guarantee="no value is known with more than `certainty` from any masked record, unless it was so before; no "
        "masked tuple is of fewer patients than `least`",
        latency="none: each record is masked alone",
        cost="O(candidates of the value in the window), few of which are visited",
    )

    def __init__(
        self,
        taxonomies: Mapping[str, Taxonomy],
        *,
        target: Mapping[str, Any] | None = None,
        least: int = 2,
        context: ContextChoice | None = None,
        context_least: int = 200,
        distance: DistanceChoice = "wu_palmer",
        window: int = 10_000,
        window_age: float | None = None,
        rollup_depth: int = 2,
        seed: bytes,
    ) -> None:
        """Create a mechanism without statistics.

        Raises ParameterError, which names the value given and the values allowed.

        * ``taxonomies``: τ by attribute, in the order of all columns.
        * ``target``: one of ``{"alpha": α}``, ``{"rmse": r}``, ``{"vulnerability": v}``, ``{"epsilon": ε}``, with
          ``certainty`` and ``sensitive``; see ``Target.of``. Default: ``{"alpha": 1, "certainty": 0.5}``.
        * ``least``: of how many different noise keys a masked tuple must be in the window; of how many records, where
          records have no noise key.
        * ``context``: the fields that stay, the most important first. For each the texts that can occur, or the
          ascending bounds of bands of numbers; other values are one more kind. ``context_least``: the number of records
          of the window that a context needs for a law of its own.
        * ``distance``, ``window``, ``window_age``, ``rollup_depth``, ``seed``: see ``WindowedMechanism``.
        """
        super().__init__(
            taxonomies, distance=distance, window=window, window_age=window_age, rollup_depth=rollup_depth, seed=seed
        )
        self._target = Target.of(DEFAULT_TARGET if target is None else target, self._attributes)
        self._least = whole_number("least", least, 1, 1_000_000)
        self._contexts = ContextSettings(
            Context.of({} if context is None else context), whole_number("context_least", context_least, 2, 1_000_000)
        )
        for name in self._contexts.context.names:
            if name in self._attributes:
                raise ParameterError(f"{name!r} is masked: a context is of fields that stay")
        self._groups = self._target.groups([taxonomies[name] for name in self._attributes])

    def calibrate(self) -> Statistics:
        """Compute the statistics of the window and put them in force, ready to mask. See ``WindowedMechanism``."""
        statistics = super().calibrate()
        self._prepared_statistics().make_channels()
        return statistics

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Put a snapshot in force, ready to mask. See ``WindowedMechanism``."""
        super().restore(snapshot)
        self._prepared_statistics().make_channels()

    def _mask_codes(self, record: RecordCodes, block: UInt64Array) -> Sequence[int] | None:
        prepared = self._prepared_statistics()
        if isinstance(prepared, Laws) or (prepared.pair is not None and any(record.is_array)):
            return None
        words = one_record_words(block, record.codes, record.offsets, CHOICE_WORD)
        return prepared.mask_record(record, words[:, 0])

    def mask_batch(self, batch: Batch, keys: Keys) -> MaskedBatch:
        """Mask encoded records; ``keys`` gives the random words of each record.

        Raises StatisticsError before the first statistics, and for lists if there were none in their window. Raises
        ParameterError if the batch has other attributes, another size than the keys, or a noise level of its own.
        """
        prepared = self._prepared_statistics()
        self._check(batch, keys)
        words = [np.ascontiguousarray(each[:, 0]) for each in draw_words(keys, batch, CHOICE_WORD)]
        return prepared.mask(batch, words)

    def attribute_channel(self, j: int, values: Int32Array, counts: Counts | None) -> Channel:
        """Return the transition probabilities of some values, averaged over the records that have them.

        Those of a child of a star take one coupling for each pair of its root's values; the rarest are left out.
        """
        return self._prepared_statistics().channel(j, values)

    def mask_law(self, tuples: Tuples, channels: tuple[Channel, ...], counts: Counts) -> MaskLaw | None:
        """Return the law of masked pairs, or of single values; None for a star."""
        prepared = self._prepared_statistics()
        if isinstance(prepared, Laws):
            return None
        if prepared.pair is not None:
            return TransportedPairs.of(prepared.pair, prepared.values, tuples)
        return super().mask_law(tuples, channels, counts) if len(self._attributes) == 1 else None

    def expected_risk(self) -> Risk | None:
        prepared = self._prepared_statistics()
        return None if isinstance(prepared, Laws) else assess(self, prepared.counts(), draws=1000)

    @property
    def context(self) -> Context:
        return self._contexts.context

    @property
    def promise(self) -> float | None:
        return self._target.certainty

    def disclosure(self) -> Disclosure:
        """Return what masked records tell an attacker.

        Exact for one or two attributes; otherwise see ``Disclosure``. Raises StatisticsError before the first
        statistics.
        """
        return self._prepared_statistics().disclosure(self._attributes)

    def _check_masking(self, counts: Counts) -> None:
        """Raise StatisticsError if masking changes too little. Nearly every record is a possible mask of every one."""
        prepared = self._prepared_statistics()
        for j, name in enumerate(self._attributes):
            check_changed(name, prepared.changed_at_least(j), value_law(counts.values[j])[1])

    def _check(self, batch: Batch, keys: Keys) -> None:
        super()._check(batch, keys)
        if batch.alpha is not None:
            raise ParameterError(
                "semantic_transport has one noise level for all records: remove the alpha of single records, or use "
                "semantic_noise"
            )
        self._check_lists(batch)
        if self._contexts.context and batch.context is None:
            raise ParameterError(f"the batch has no context: give {', '.join(self._contexts.context.names)}")

    def _check_lists(self, batch: Batch) -> None:
        """Raise StatisticsError for lists where pairs of scalars were calibrated: masked apart, they would tell more.

        The records are not at fault, so none of them may be rejected for it."""
        prepared = self._prepared_statistics()
        laws = [law.transport for law in prepared.laws] if isinstance(prepared, Laws) else [prepared]
        pairs = any(law.pair is not None for law in laws)
        for name, column in zip(self._attributes, batch.columns, strict=True):
            if pairs and column.is_array:
                raise StatisticsError(
                    f"{name!r} has lists, but the statistics are of records without them: calibrate with lists"
                )

    @property
    def _settings(self) -> TransportSettings:
        return TransportSettings(self._attributes, self._distances, self._target, self._groups, self._least, self._seed)

    def _model(self, counts: Counts, statistics: Statistics) -> Mapping[str, Any]:
        before = self._prepared
        if self._contexts.context:
            laws = before if isinstance(before, Laws) else None
            return LawsBuilder(self._settings, self._contexts, counts, laws).build()
        previous = before if isinstance(before, PreparedTransport) else None
        return ModelBuilder(self._settings, counts, statistics, previous).build()

    def _prepare(self, statistics: Statistics) -> PreparedTransport | Laws:
        if self._contexts.context:
            return read_laws(self._settings, self._contexts.context, statistics.model)
        return read_transport(self._settings, statistics.model, np.diag(statistics.covariance))

    def learn_many(
        self,
        records: Iterable[Record] | DataFrame,
        *,
        keys: Sequence[bytes] | None = None,
        time: float | None = None,
    ) -> None:
        """Add records to the window. Raises ParameterError, too, if none of several records has a context field."""
        given = self._as_records(records)
        for name in self._contexts.context.names if len(given) > 1 else ():
            if not any(name in record for record in given):
                raise ParameterError(f"no record has the context {name!r}")
        super().learn_many(given, keys=keys, time=time)

    def encode(self, records: Sequence[Record] | DataFrame) -> Batch:
        """Encode records, with their context. See ``WindowedMechanism``."""
        given = self._as_records(records)
        batch, context = super().encode(given), self._contexts.context
        if not context:
            return batch
        return replace(batch, context=context.numbers([[record.get(n) for record in given] for n in context.names]))

    def _as_records(self, records: Iterable[Record] | DataFrame) -> Sequence[Record]:
        names = (*self._attributes, *self._contexts.context.names)
        return as_records(records, names, required=self._attributes)
