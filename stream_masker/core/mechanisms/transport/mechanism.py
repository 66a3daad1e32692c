"""Semantic transport: masking that preserves the joint law of the attributes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from stream_masker.core.batch import Batch, Column, Distortion, MaskedBatch
from stream_masker.core.dtypes import Int32Array
from stream_masker.core.mechanisms.method_card import MethodCard
from stream_masker.core.mechanisms.transport.disclosure import Disclosure
from stream_masker.core.mechanisms.transport.model import ModelBuilder, TransportSettings
from stream_masker.core.mechanisms.transport.prepared import PreparedTransport
from stream_masker.core.mechanisms.transport.reading import read_model
from stream_masker.core.mechanisms.transport.records import TransportedPairs
from stream_masker.core.mechanisms.transport.sampling import masked_sums
from stream_masker.core.mechanisms.transport.target import Target
from stream_masker.core.mechanisms.transport.values import SquareDistances
from stream_masker.core.mechanisms.windowed import DistanceChoice, WindowedMechanism
from stream_masker.core.ontology import Taxonomy
from stream_masker.core.random.keys import Keys
from stream_masker.core.random.layout import WordLayout, draw_words
from stream_masker.core.risk.channel import Channel
from stream_masker.core.risk.classes import value_classes
from stream_masker.core.risk.records import MaskLaw, Tuples
from stream_masker.core.risk.sampling import RecordRisk
from stream_masker.core.statistics.counts import Counts
from stream_masker.core.statistics.summary import Statistics
from stream_masker.core.validation import whole_number
from stream_masker.errors import ParameterError

CHOICE_WORD = WordLayout(width=1, first=0)
"""One random word for each value."""


class SemanticTransport(WindowedMechanism[PreparedTransport]):
    """Moves records by a random map that preserves the joint law of the window and reveals little about originals.

    Semantic noise moves each value by a random distance, which preserves statistics only approximately. Transport
    starts from what must be preserved: the law P of the records in the window. Its channel is an entropic optimal
    transport of P onto itself (``transport.solver``), in which attribute j moves by a given root mean square distance.
    So every statistic of the attributes' joint law is preserved in expectation: sMean, sVar, sdVar, sdCov, sdCor,
    marginals and cross tables. With the kernel exp(−λ·sd²) the channel of one or two attributes has the least mutual
    information among all channels with these properties; with exp(−λ·sd⁴), which is used unless the target is an ε, the
    best guess of an attacker is right less often.

    * One or two attributes without arrays: P is the law of values, or of pairs.
    * Three or more scalars, and two or more beside arrays: they are masked together by a Markov random field along the
      tree of their strongest correlations (``transport.field``). The laws of the pairs that are linked in the tree are
      preserved if the law of records is Markov along the tree, otherwise approximately; those of other pairs as far as
      the tree explains them. An absent value stays absent, and records keep the law of which linked values are absent
      together. Records of a pattern of absent values that the window does not have are masked value by value, alone;
      their pairs can be rarer than ``least``.
    * Arrays: each element is masked given its scalar's value and mask (``transport.conditional``). The law of their
      pairs is preserved exactly if the scalar is masked alone, or the array is independent of the other scalars given
      it. P counts an event with k elements as k rows, so the law that a scalar preserves is that of the rows. An
      element whose scalar is absent is masked alone and preserves the law of the array's elements in the window.
    * A value that is not among the window's 2,000 most frequent ones is masked as the nearest of them.
    * ``least``: tuples with fewer rows have ψ = 0 and are never written. They move to near tuples, so the law of masked
      records is near P but not P. With arrays, or more than two attributes, these are linked pairs.

    The target is one of:

    * a noise level α: the mean squared distance is α·sdVar. If that exceeds what the window allows, it is truncated,
      and all values of the attribute count as truncated in the ``Distortion`` of a batch;
    * an RMSE of each attribute;
    * a vulnerability: the greatest over the attributes of the chance that the best guess of a value, given the masks of
      the record, is right. Of scalars that are masked together it is an estimate from drawn records, for a law that is
      Markov along the tree; its bound, with a confidence of 0.95, is part of what must not exceed the target. Of an
      element of an array it is given its own mask and its scalar's;
    * an ε: the maximum of ln M(t | s) − ln M(t | s′) over the window's tuples s, s′ and all masked tuples t. With
      arrays, or more than two attributes, it is an upper bound of this maximum for records with at most one value of
      each attribute, Σ 2·max λ_j·sd_j² for scalars that are masked together. Each further element of an array adds at
      most ``disclosure().epsilon_of_value`` of its attribute.

    What the last two guarantee is in ``docs/mathematics.md`` and ``transport.tree.targets``.
    """

    name: ClassVar[str] = "semantic_transport"
    snapshot_format: ClassVar[int] = 4
    method_card: ClassVar[MethodCard] = MethodCard(
        summary="moves a record to another record of the window by an optimal random map that preserves their law",
        use_when="records must be masked one by one, and every statistic of the attributes together must survive",
        source="own; Cuturi 2013, Darroch and Ratcliff 1972, Pearl 1988, Gouweleeuw and others 1998",
        attributes="any number of nominal ones",
        taxonomies="any",
        preserves=("meaning", "mean", "dispersion", "correlation", "marginals", "cross tables"),
        guarantee="a finite ε of the channel, which can be the target; no masked tuple is rarer than `least`",
        latency="none: each record is masked alone",
        cost="O(candidates of the value in the window), few of which are visited",
    )

    def __init__(
        self,
        taxonomies: Mapping[str, Taxonomy],
        *,
        target: Mapping[str, Any] | None = None,
        least: int = 1,
        distance: DistanceChoice = "wu_palmer",
        window: int = 10_000,
        window_age: float | None = None,
        rollup_depth: int = 2,
        seed: bytes,
    ) -> None:
        """Create a mechanism without statistics.

        Raises ParameterError, which names the value given and the values allowed.

        * ``taxonomies``: τ by attribute, in the order of all columns.
        * ``target``: one of ``{"alpha": α}``, ``{"rmse": r}``, ``{"vulnerability": v}``, ``{"epsilon": ε}``; default
          ``{"alpha": 0.3}``.
        * ``least``: the records that a masked tuple must have in the window.
        * ``distance``, ``window``, ``window_age``, ``rollup_depth``, ``seed``: see ``WindowedMechanism``.
        """
        super().__init__(
            taxonomies, distance=distance, window=window, window_age=window_age, rollup_depth=rollup_depth, seed=seed
        )
        self._target = Target.of({"alpha": 0.3} if target is None else target, self._attributes)
        self._least = whole_number("least", least, 1, 1_000_000)
        self._squares = tuple(SquareDistances(d) for d in self._distances)

    def calibrate(self) -> Statistics:
        """Compute the statistics of the window and put them in force, ready to mask. See ``WindowedMechanism``."""
        statistics = super().calibrate()
        self._prepared_statistics().make_channels()
        return statistics

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Put a snapshot in force, ready to mask. See ``WindowedMechanism``."""
        super().restore(snapshot)
        self._prepared_statistics().make_channels()

    def mask_batch(self, batch: Batch, keys: Keys) -> MaskedBatch:
        """Mask encoded records; ``keys`` gives the random words of each record.

        Raises StatisticsError before the first statistics. Raises ParameterError if the batch has other attributes,
        another size than the keys, or a noise level of its own.
        """
        prepared = self._prepared_statistics()
        self._check(batch, keys)
        words = [np.ascontiguousarray(each[:, 0]) for each in draw_words(keys, batch, CHOICE_WORD)]
        before = [v.indices(column.codes) for v, column in zip(prepared.values, batch.columns, strict=True)]
        after = prepared.draw(batch, before, words)
        masked = [_masked(prepared, j, column, before[j], after[j]) for j, column in enumerate(batch.columns)]
        return MaskedBatch(tuple(column for column, _ in masked), tuple(distortion for _, distortion in masked))

    def attribute_channel(self, j: int, values: Int32Array, counts: Counts | None) -> Channel:
        """Return the transition probabilities of some values, averaged over the records that have them.

        They are exact for one or two attributes, and if the law of records is Markov along the tree of attributes. An
        array costs one coupling for each pair of its scalar's values.
        """
        prepared = self._prepared_statistics()
        domain = prepared.values[j]
        classes = value_classes(domain.positions, len(self._distances[j].taxonomy))
        return Channel(values, prepared.rows(j)[domain.indices(values)], classes)

    def surely_hides(self, j: int) -> bool:
        """Return True: every record of the window is a possible mask of every record."""
        return True

    def changed_at_least(self, j: int, counts: Counts) -> float:
        return self._prepared_statistics().changed_at_least(j)

    def mask_law(self, tuples: Tuples, channels: tuple[Channel, ...], counts: Counts) -> MaskLaw | None:
        """Return the law of masked pairs, or of single values; None for a tree, see ``record_risk``."""
        prepared = self._prepared_statistics()
        if prepared.pair is not None:
            return TransportedPairs.of(prepared, tuples)
        return super().mask_law(tuples, channels, counts) if len(self._attributes) == 1 else None

    def record_risk(self, tuples: Tuples, *, draws: int, repeats: int) -> RecordRisk | None:
        """Return the risk of records of both attributes of a link of scalars, or of a scalar and an array.

        Repeats are those of all scalars that the tree links, and None for a scalar and an array.
        """
        if len(tuples.attributes) < 2:
            return None
        prepared = self._prepared_statistics()
        risks = prepared.record_risks if repeats == 1 else prepared.repeated_risks(draws=draws, repeats=repeats)
        return risks.get((tuples.attributes[0], tuples.attributes[1]))

    def disclosure(self) -> Disclosure:
        """Return what masked records tell an attacker.

        Exact for one or two attributes; otherwise see ``transport.tree.targets``. An array takes one coupling for each
        pair of its scalar's values. Raises StatisticsError before the first statistics.
        """
        return self._prepared_statistics().disclosure(self._attributes)

    def _check(self, batch: Batch, keys: Keys) -> None:
        super()._check(batch, keys)
        if batch.alpha is not None:
            raise ParameterError(
                "semantic_transport has one noise level for all records: remove the alpha of single records, or use "
                "semantic_noise"
            )

    @property
    def _settings(self) -> TransportSettings:
        return TransportSettings(self._attributes, self._squares, self._target, self._least)

    def _model(self, counts: Counts, statistics: Statistics) -> Mapping[str, Any]:
        return ModelBuilder(self._settings, counts, statistics, self._prepared).build()

    def _prepare(self, statistics: Statistics) -> PreparedTransport:
        return read_model(self._settings, statistics)


def _masked(
    prepared: PreparedTransport, j: int, column: Column, before: Int32Array, after: Int32Array
) -> tuple[Column, Distortion]:
    """Return the masked column of attribute j, from the indices of its values and masks, and its distortion.

    The distances of codes outside the window are computed one by one.
    """
    values, codes = prepared.values[j], column.codes
    masked = np.empty(codes.size, np.int32)
    sums, others = masked_sums(prepared.squares32[j], values.positions, before, after, codes, masked)
    squared = sums.squared_distance + float((values.distance.pairs(codes[others], masked[others]) ** 2).sum())
    distortion = Distortion(
        values=sums.present,
        squared_distance=squared,
        squared_noise=sums.present * prepared.noise[j],
        truncated=sums.present if prepared.truncated[j] else 0,
        unchanged=sums.unchanged,
    )
    return Column(masked, column.offsets), distortion
