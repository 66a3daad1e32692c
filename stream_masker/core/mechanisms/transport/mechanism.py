"""Semantic transport: masking that preserves the joint law of the attributes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from stream_masker.core.batch import Batch, Column, Distortion, MaskedBatch
from stream_masker.core.distance import Distance
from stream_masker.core.dtypes import Float32Matrix, Float64Matrix, Int32Array, UInt64Array
from stream_masker.core.mechanisms.method_card import MethodCard
from stream_masker.core.mechanisms.transition.serialization import read_model_field
from stream_masker.core.mechanisms.transport.fit import Fit, pack_values, read_values
from stream_masker.core.mechanisms.transport.fitting import Goal, fit
from stream_masker.core.mechanisms.transport.sampling import PairChannel, draw_pairs, draw_values, squared_distance
from stream_masker.core.mechanisms.transport.solver import gibbs
from stream_masker.core.mechanisms.transport.target import Target
from stream_masker.core.mechanisms.transport.values import Values, pair_table, single_table
from stream_masker.core.mechanisms.windowed import DistanceChoice, WindowedMechanism
from stream_masker.core.ontology import Taxonomy
from stream_masker.core.random.keys import Keys
from stream_masker.core.random.layout import draw_words
from stream_masker.core.statistics.counts import Counts
from stream_masker.core.statistics.summary import Statistics
from stream_masker.core.validation import whole_number
from stream_masker.errors import ParameterError, StatisticsError


@dataclass(frozen=True, eq=False)
class _Prepared:
    """What masking needs, from a model. Derived arrays are computed on first use.

    * ``values``: by attribute. ``fits``: the transport of each attribute alone, by attribute.
    * ``pair``: the transport of a pair of attributes; None for one attribute.
    * ``noise``: (p,) the mean squared distances that the target gives, 0 where it gives none.
    """

    values: tuple[Values, ...]
    fits: tuple[Fit, ...]
    pair: Fit | None
    least: int
    power: float
    noise: tuple[float, ...]

    @cached_property
    def squares(self) -> tuple[Float64Matrix, ...]:
        """sd² of the values of each attribute."""
        return tuple(values.squares() for values in self.values)

    @cached_property
    def squares32(self) -> tuple[Float32Matrix, ...]:
        """The same as float32."""
        return tuple(squares.astype(np.float32) for squares in self.squares)

    @cached_property
    def pair_channel(self) -> PairChannel:
        """The channel of pairs."""
        assert self.pair is not None
        return self._channel(self.pair, self.squares[0], self.squares[1])

    @cached_property
    def channels(self) -> dict[int, PairChannel]:
        """The channels of single attributes that have been used."""
        return {}

    def channel(self, j: int) -> PairChannel:
        """The channel of one attribute alone."""
        if j not in self.channels:
            self.channels[j] = self._channel(self.fits[j], self.squares[j], np.zeros((1, 1)))
        return self.channels[j]

    def _channel(self, fit: Fit, first: Float64Matrix, second: Float64Matrix) -> PairChannel:
        psi = np.where(fit.written(self.least), fit.phi, 0.0)
        a, b = fit.sharpness.tolist()
        return PairChannel.of(fit.table, psi, gibbs(first, a, self.power), gibbs(second, b, self.power))


class SemanticTransport(WindowedMechanism[_Prepared]):
    """Moves records by a random map that preserves the joint law of the window and tells the least about originals.

    Semantic noise moves each value by a random distance, and statistics survive as far as they may. Transport starts
    from what must survive: the law P of the records in the window. Its channel is the entropic optimal transport of P
    onto itself (``transport.solver``): among all channels that preserve P and move attribute j by the same root mean
    square distance, it has the least mutual information with the original. So every statistic of the attributes' joint
    law is preserved in expectation: sMean, sVar, sdVar, sdCov, sdCor, marginals and cross tables.
    """

    name: ClassVar[str] = "semantic_transport"
    method_card: ClassVar[MethodCard] = MethodCard(
        summary="moves a record to another record of the window by an optimal random map that preserves their law",
        use_when="records must be masked one by one, and every statistic of the attributes together must survive",
        source="own; Cuturi 2013, Gouweleeuw and others 1998",
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

    def mask_batch(self, batch: Batch, keys: Keys) -> MaskedBatch:
        """Mask encoded records; ``keys`` gives the random words of each record.

        Raises StatisticsError before the first statistics. Raises ParameterError if the batch has other attributes,
        another size than the keys, or a noise level of its own.
        """
        prepared = self._prepared_statistics()
        self._check(batch, keys)
        words = [np.ascontiguousarray(each[:, 0]) for each in draw_words(keys, batch)]
        before = [v.indices(column.codes) for v, column in zip(prepared.values, batch.columns, strict=True)]
        after = self._draw(prepared, batch, before, words)
        columns = tuple(
            Column(_decoded(v, new), column.offsets)
            for v, new, column in zip(prepared.values, after, batch.columns, strict=True)
        )
        distortions = (
            _distortion(prepared, j, batch.columns[j].codes, before[j], after[j], columns[j].codes)
            for j in range(len(columns))
        )
        return MaskedBatch(columns, tuple(distortions))

    def _draw(
        self, prepared: _Prepared, batch: Batch, before: list[Int32Array], words: list[UInt64Array]
    ) -> list[Int32Array]:
        """Return the indices of the masked values of each column."""
        after = [np.full(indices.size, -1, np.int32) for indices in before]
        if prepared.pair is not None and not any(column.is_array for column in batch.columns):
            after = list(draw_pairs(prepared.pair_channel, *before, *words))
        for j, (old, new) in enumerate(zip(before, after, strict=True)):
            alone = np.flatnonzero((old >= 0) & (new < 0))
            if alone.size:
                new[alone] = draw_values(prepared.channel(j), old[alone], words[j][alone])
        return after

    def _check(self, batch: Batch, keys: Keys) -> None:
        super()._check(batch, keys)
        if batch.alpha is not None:
            raise ParameterError(
                "semantic_transport has one noise level for all records: remove the alpha of single records, or use "
                "semantic_noise"
            )

    def _model(self, counts: Counts, statistics: Statistics) -> Mapping[str, Any]:
        wanted = self._wanted(statistics)
        values = [Values.most_frequent(d, c) for d, c in zip(self._distances, counts.values, strict=True)]
        squares = [each.squares() for each in values]
        trivial = np.zeros((1, 1))
        fits = [
            fit(self._goal((j,), wanted), *single_table(v), (s, trivial), start=None)
            for j, (v, s) in enumerate(zip(values, squares, strict=True))
        ]
        model: dict[str, Any] = {
            "values": {n: pack_values(v.positions, v.counts) for n, v in zip(self._attributes, values, strict=True)},
            "single": {n: f.to_model() for n, f in zip(self._attributes, fits, strict=True)},
        }
        if len(values) == 2 and counts.pairs[0, 1].keys.size:
            table, rows = pair_table(counts.pairs[0, 1], *values)
            model["pair"] = fit(self._goal((0, 1), wanted), table, rows, (squares[0], squares[1])).to_model()
        return model

    def _goal(self, attributes: tuple[int, ...], wanted: np.ndarray) -> Goal:
        means = np.full(2, np.nan)
        means[: len(attributes)] = wanted[list(attributes)]
        return Goal(tuple(self._attributes[j] for j in attributes), means, self._target, self._least)

    def _wanted(self, statistics: Statistics) -> np.ndarray:
        """(p,) the mean squared distances to meet. Raises StatisticsError for an attribute with a single value."""
        spread = np.diag(statistics.covariance)
        constant = [name for name, s in zip(self._attributes, spread, strict=True) if not s > 0.0]
        if constant:
            raise StatisticsError(
                f"{', '.join(constant)}: all values are equal, so nothing could be masked; calibrate on records with "
                "different values"
            )
        return self._target.mean_squares(statistics) if self._target.by_distance else spread

    def _prepare(self, statistics: Statistics) -> _Prepared:
        model = statistics.model
        values = tuple(self._values(j, read_model_field(model, "values")) for j in range(len(self._attributes)))
        single = read_model_field(model, "single")
        fits = tuple(
            Fit.from_model(read_model_field(single, name), (len(v), 1))
            for name, v in zip(self._attributes, values, strict=True)
        )
        pair = Fit.from_model(model["pair"], (len(values[0]), len(values[1]))) if "pair" in model else None
        noise = self._target.mean_squares(statistics) if self._target.by_distance else np.zeros(len(values))
        return _Prepared(values, fits, pair, self._least, self._target.power, tuple(noise.tolist()))

    def _values(self, j: int, model: object) -> Values:
        d: Distance = self._distances[j]
        return Values.of(d, *read_values(read_model_field(model, self._attributes[j]), len(d.taxonomy)))


def _decoded(values: Values, indices: Int32Array) -> Int32Array:
    """(n,) int32: the positions of values; absent ones stay absent."""
    result: Int32Array = np.where(indices < 0, np.int32(-1), values.positions[indices])
    return result


def _distortion(
    prepared: _Prepared, j: int, codes: Int32Array, before: Int32Array, after: Int32Array, masked: Int32Array
) -> Distortion:
    """Return the distortion of attribute j; distances of codes that are no values are computed one by one."""
    present = int(np.count_nonzero(codes >= 0))
    values = prepared.values[j]
    others = np.flatnonzero((codes >= 0) & (values.positions[before] != codes))
    known = before
    if others.size:
        known = before.copy()
        known[others] = -1
    squared = squared_distance(prepared.squares32[j], known, after)
    squared += float((values.distance.pairs(codes[others], masked[others]) ** 2).sum())
    return Distortion(values=present, squared_distance=squared, squared_noise=present * prepared.noise[j])
