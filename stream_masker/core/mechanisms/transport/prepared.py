"""What masking needs from a model; derived arrays are computed on first use."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property, partial
from itertools import combinations, pairwise
from typing import Any

import numpy as np

from stream_masker.core.batch import Batch, Column, Distortion, MaskedBatch
from stream_masker.core.dtypes import (
    Float32Matrix,
    Float64Array,
    Float64Matrix,
    Int32Array,
    Int64Array,
    UInt64Array,
)
from stream_masker.core.kernels.jit import for_types
from stream_masker.core.mechanisms.encoding import RecordCodes
from stream_masker.core.mechanisms.transport.disclosure import (
    Disclosure,
    epsilon_of_record,
)
from stream_masker.core.mechanisms.transport.kernel import least_vulnerability
from stream_masker.core.mechanisms.transport.kinds import Kinds
from stream_masker.core.mechanisms.transport.limits import Caps
from stream_masker.core.mechanisms.transport.sampling import FirstChannel, PairChannel, draw_pair, draw_pairs
from stream_masker.core.mechanisms.transport.scaling.columns import Columns
from stream_masker.core.mechanisms.transport.scaling.solver import Scaling, columns_of
from stream_masker.core.mechanisms.transport.scaling.table import CountedPairs
from stream_masker.core.mechanisms.transport.star.attribute import MOST_EQUAL, AttributeChannel, GivenRoot
from stream_masker.core.mechanisms.transport.star.couplings import Rows
from stream_masker.core.mechanisms.transport.star.edges import Edge
from stream_masker.core.mechanisms.transport.star.figures import EdgeFigures, conditional_epsilon, limited
from stream_masker.core.mechanisms.transport.values import Values
from stream_masker.core.random.draws import salts_of
from stream_masker.core.risk.channel import Channel
from stream_masker.core.risk.classes import value_classes
from stream_masker.core.statistics.counts import Counts, SparseCounts, sum_by_key

TRIVIAL = np.zeros((1, 1))
"""The squared distances of an attribute with a single value."""
ONE_PLACE = np.zeros(1, np.int32)
"""The position, and the place, of the single value of an attribute that is not there."""


@dataclass(frozen=True, eq=False)
class PreparedTransport:
    """A model in use.

    * ``values``, ``squares``: by attribute, with (k, k) sd². ``fits``: the transport of each attribute alone.
    * ``pair``: the transport of pairs; None for one attribute and for a star. ``edges``: those of a star.
    * ``limits``: what no posterior of a value of each edge's child may exceed, by edge.
    * ``noise``: (p,) the mean squared distances that the target gives, 0 where it gives none. ``truncated``: (p,)
      whether that is more than the window allows, so that values move less.
    """

    values: tuple[Values, ...]
    squares: tuple[Float64Matrix, ...]
    fits: tuple[Scaling, ...]
    pair: Scaling | None
    edges: tuple[Edge, ...]
    limits: tuple[Caps, ...]
    noise: tuple[float, ...]
    truncated: tuple[bool, ...]

    def __getstate__(self) -> dict[str, Any]:
        """Return what is pickled and copied: the model alone. Compiled forms of kernels and locks cannot be."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def counts(self) -> Counts:
        """Return the counts of the window, as far as the model has them: of values, and of linked pairs."""
        widths = [len(values.distance.taxonomy) for values in self.values]
        positions = [values.positions.astype(np.int64) for values in self.values]
        fitted = {(edge.root, edge.child): edge.pairs for edge in self.edges}
        if self.pair is not None:
            fitted[0, 1] = CountedPairs(self.pair.problem.table, self.pair.problem.counts)
        pairs = dict.fromkeys(combinations(range(len(widths)), 2), SparseCounts(*np.zeros((2, 0), np.int64)))
        for js, (table, counts) in fitted.items():
            entries = zip(js, (table.rows, table.columns), strict=True)
            (i, first), (j, second) = sorted(entries, key=lambda each: each[0])
            pairs[i, j] = sum_by_key(positions[i][first] * widths[j] + positions[j][second], counts)
        values = tuple(SparseCounts(p, v.counts) for p, v in zip(positions, self.values, strict=True))
        rows = tuple(column.rows for column in values)
        return Counts(max(rows), values, pairs, given=rows, unknown=(0,) * len(rows))

    @cached_property
    def squares32(self) -> tuple[Float32Matrix, ...]:
        """sd² of the values of each attribute, as float32."""
        return tuple(squares.astype(np.float32) for squares in self.squares)

    def make_channels(self) -> None:
        """Compute the channels that mask the records of the window, so that the first batch does not take longer than
        others."""
        for values in self.values:
            values.locate_all()
        if self.pair is not None:
            _ = self._draw_pairs
        else:
            for j in {*range(len(self.values))} - {*self._edges}:
                self._channels[j].make_alone()

    def mask(self, batch: Batch, words: list[UInt64Array]) -> MaskedBatch:
        """Mask encoded records; ``words``: one random word for each value of each column."""
        before = [v.indices(column.codes) for v, column in zip(self.values, batch.columns, strict=True)]
        after = [np.full(indices.size, -1, np.int32) for indices in before]
        self.draw([column.offsets for column in batch.columns], before, words, after)
        masked = [_masked(self, j, column, before[j], after[j]) for j, column in enumerate(batch.columns)]
        return MaskedBatch(tuple(column for column, _ in masked), tuple(distortion for _, distortion in masked))

    def mask_record(self, record: RecordCodes, words: UInt64Array) -> list[int]:
        """Return the positions that ``mask`` writes for one record; of pairs, without lists.

        ``words``: one random word for each value.
        """
        if self.pair is not None:
            pair = np.array([v.index(code) for v, code in zip(self.values, record.codes, strict=True)], np.int32)
            if not self._draw_pair(self.pair_channel, pair, words, masks := pair.copy()):
                return [v.positions.item(index) for v, index in zip(self.values, masks.tolist(), strict=True)]
        offsets: list[Int64Array | None] = []
        before, own_words, after = [], [], []
        for values, (first, end), is_array in zip(self.values, pairwise(record.offsets), record.is_array, strict=True):
            before.append(np.array([values.index(code) for code in record.codes[first:end]], np.int32))
            own_words.append(words[first:end])
            offsets.append(np.array((0, end - first)) if is_array else None)
            after.append(before[-1].copy())
            after[-1].fill(-1)
        self.draw(offsets, before, own_words, after)
        return [v.positions.item(i) for v, drawn in zip(self.values, after, strict=True) for i in drawn.tolist()]

    def draw(
        self,
        offsets: Sequence[Int64Array | None],
        before: list[Int32Array],
        words: list[UInt64Array],
        after: list[Int32Array],
    ) -> None:
        """Draw the masks of each column.

        * ``offsets``: those of lists, None for scalars. ``before``: the indices of the values, −1 for absent ones.
        * ``words``: one random word for each value. ``after``: −1 for each value, replaced by the index of its mask.
        """
        if self.pair is not None and not self._draw_pairs(self.pair_channel, *before, *words, *after):
            return
        for j in self._order:
            edge = self._edges.get(j)
            root = None if edge is None or offsets[edge.root] is not None else (before[edge.root], after[edge.root])
            self._channels[j].draw(offsets[j], before[j], words[j], root, after[j])

    @cached_property
    def _edges(self) -> dict[int, Edge]:
        """The edge of each child of the star."""
        return {edge.child: edge for edge in self.edges}

    @cached_property
    def _order(self) -> list[int]:
        """The attributes, the root of the star first."""
        return sorted(range(len(self.values)), key=self._edges.__contains__)

    @cached_property
    def _channels(self) -> list[AttributeChannel]:
        """The channel of each attribute."""
        return [self._attribute_channel(j, values) for j, values in enumerate(self.values)]

    def _attribute_channel(self, j: int, values: Values) -> AttributeChannel:
        edge, listed = self._edges.get(j), self.pair is None
        law = Rows.of_values(self._shares[j] if listed else np.zeros(len(values)))
        if edge is None:
            given, equal = GivenRoot.none(), law.equal_share(np.ones(1)) if listed else 1.0
        else:
            given = edge.given_root(self.squares[j], values.places)
            equal = given.laws.target.equal_share(self._shares[edge.root])
        alone = partial(self._alone, j)
        return AttributeChannel(given, law, salts_of(values.positions), alone, distinct=equal <= MOST_EQUAL)

    def _alone(self, j: int) -> FirstChannel:
        """Return the channel of one attribute alone."""
        positions = (self.values[j].positions, ONE_PLACE)
        return PairChannel.of(self.fits[j], self.squares32[j], positions, ONE_PLACE).first

    @cached_property
    def _shares(self) -> list[Float64Array]:
        """The law of the masks of each attribute alone, (k,) each."""
        return [fit.columns[0].shares for fit in self.fits]

    @cached_property
    def pair_channel(self) -> PairChannel:
        """The channel of pairs."""
        assert self.pair is not None
        positions = (self.values[0].positions, self.values[1].positions)
        return PairChannel.of(self.pair, self.squares32[0], positions, self.values[1].places)

    @cached_property
    def _draw_pairs(self) -> Callable[..., int]:
        values, words = (np.empty(0, np.int32),) * 2, (np.empty(0, np.uint64),) * 2
        return for_types(draw_pairs, self.pair_channel, *values, *words, *values)

    @cached_property
    def _draw_pair(self) -> Callable[..., int]:
        values = np.empty(0, np.int32)
        return for_types(draw_pair, self.pair_channel, values, np.empty(0, np.uint64), values)

    def solution(self) -> Scaling:
        """Return the transport of pairs, or that of a single attribute."""
        return self.fits[0] if self.pair is None else self.pair

    def disclosure(self, names: tuple[str, ...]) -> Disclosure:
        """Return what masked records tell an attacker; ``names``: the attributes."""
        own = [epsilon_of_record(fit) for fit in self.fits]
        for edge in self.edges:
            own[edge.child] = max(own[edge.child], conditional_epsilon(edge.laws(self.squares[edge.child])))
        return Disclosure(
            {name: each.vulnerability for name, each in zip(names, self.columns, strict=True)},
            dict(zip(names, self.least, strict=True)),
            {name: self.certainty(j) for j, name in enumerate(names)},
            {name: square**0.5 for name, square in zip(names, self._moved, strict=True)},
            sum(own) if self.pair is None else epsilon_of_record(self.pair),
            dict(zip(names, own, strict=True)),
        )

    @cached_property
    def _moved(self) -> tuple[float, ...]:
        """E[sd²] of each attribute."""
        return tuple(float((c.joint * d).sum()) for c, d in zip(self.columns, self.squares, strict=True))

    @cached_property
    def least(self) -> tuple[float, ...]:
        """The bounds of ``transport.kernel.least_vulnerability``, of each attribute."""
        pairs = zip((fit.problem for fit in self.fits), self._moved, strict=True)
        return tuple(least_vulnerability(each.law, each.squares[0], e, each.levels[0]) for each, e in pairs)

    @cached_property
    def columns(self) -> tuple[Columns, ...]:
        """What all masks of a record tell of each attribute, over the records that have it and its root.

        For a child these are sums over the pairs of values of its root, without the rarest.
        """
        if self.pair is not None:
            pairs = zip((True, False), self._kinds, strict=True)
            return tuple(columns_of(self.pair, first=first, joint=True, kinds=kinds) for first, kinds in pairs)
        return tuple(self._figures[j].child if j in self._figures else alone for j, alone in enumerate(self.alone))

    @cached_property
    def alone(self) -> tuple[Columns, ...]:
        """What the mask of each attribute tells that is masked alone."""
        pairs = zip(self.fits, self._kinds, strict=True)
        return tuple(columns_of(fit, first=True, joint=True, kinds=kinds) for fit, kinds in pairs)

    @cached_property
    def _kinds(self) -> tuple[Kinds, ...]:
        """The kinds of the values of each attribute."""
        return tuple(Kinds.of(values.distance, values.positions) for values in self.values)

    def certainty(self, j: int) -> float:
        """Return the greatest posterior of a value of an attribute given all masks, over all records that can be
        written."""
        alone = self.alone[j].certainty if j in self._figures else 0.0
        of_root = [float(self._figures[edge.child].surest.max()) for edge in self.edges if edge.root == j]
        return max(alone, self.columns[j].certainty, *of_root)

    def frequency(self, j: int) -> float:
        """Return the greatest prior of a value of an attribute, in any law of an attacker."""
        values = self.values[j]
        given = [edge.priors(values) for edge in self.edges if edge.child == j]
        return max(float(laws.max()) for laws in (values.laws, *given))

    @cached_property
    def _figures(self) -> Mapping[int, EdgeFigures]:
        """The figures of each edge, by its child."""

        def figures(edge: Edge, limits: Caps) -> EdgeFigures:
            j, law = edge.child, self.alone[edge.root].joint
            both = (limits, self.fits[edge.root].problem.limits[0])
            return limited(edge, self.squares[j], law, both, solve=False, kinds=self._kinds[j])[1]

        return {edge.child: figures(edge, limits) for edge, limits in zip(self.edges, self.limits, strict=True)}

    def channel(self, j: int, values: Int32Array) -> Channel:
        """Return the transition probabilities of some values of an attribute, over the window's law of its root."""
        domain = self.values[j]
        classes = value_classes(domain.positions, len(domain.distance.taxonomy))
        return Channel(values, self.rows(j)[domain.indices(values)], classes)

    def changed_at_least(self, j: int) -> float:
        """Return a lower bound of the share of an attribute's values that change."""
        edge = next((edge for edge in self.edges if edge.child == j), None)
        if edge is not None:
            return edge.changed
        return self.fits[j].columns[0].changed if self.pair is None else self.pair.columns[j].changed

    def rows(self, j: int) -> Float64Matrix:
        """Return (k, k) float64: P(a* | a) of the values of an attribute, over the window's law of its root."""
        joint = self.columns[j].joint
        without = joint.sum(axis=1) <= 0.0
        joint = np.where(without[:, None], self.alone[j].joint, joint) if without.any() else joint
        return np.asarray(joint / np.maximum(joint.sum(axis=1, keepdims=True), np.finfo(np.float64).tiny))


def _masked(
    prepared: PreparedTransport, j: int, column: Column, before: Int32Array, after: Int32Array
) -> tuple[Column, Distortion]:
    """Return the masked column of attribute j, from the indices of its values and masks, and its distortion.

    The distances of codes outside the window are computed one by one.
    """
    values, present = prepared.values[j], np.flatnonzero(column.codes >= 0)
    masked = np.full(column.codes.size, -1, np.int32)
    masked[present] = values.positions[after[present]]
    codes, masks = column.codes[present], masked[present]
    squares = prepared.squares32[j][before[present], after[present]].astype(np.float64)
    others = np.flatnonzero(values.positions[before[present]] != codes)
    squares[others] = values.distance.pairs(codes[others], masks[others]) ** 2
    distortion = Distortion(
        values=present.size,
        squared_distance=float(squares.sum()),
        squared_noise=present.size * prepared.noise[j],
        truncated=present.size if prepared.truncated[j] else 0,
        unchanged=int(np.count_nonzero(codes == masks)),
    )
    return Column(masked, column.offsets), distortion
