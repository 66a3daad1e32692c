"""What masking needs from a model; derived arrays are computed on first use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from stream_masker.core.batch import Batch
from stream_masker.core.dtypes import Float32Matrix, Float64Matrix, Int32Array, UInt64Array
from stream_masker.core.mechanisms.transport.conditional import ConditionalChannel
from stream_masker.core.mechanisms.transport.couplings import Conditional
from stream_masker.core.mechanisms.transport.disclosure import (
    Disclosure,
    channel_rows,
    epsilon_of_record,
    joint_of_first,
    joint_of_second,
)
from stream_masker.core.mechanisms.transport.field.links import Field
from stream_masker.core.mechanisms.transport.field.prepared import PreparedField
from stream_masker.core.mechanisms.transport.fit import Fit
from stream_masker.core.mechanisms.transport.sampling import PairChannel, draw_pairs, draw_values
from stream_masker.core.mechanisms.transport.short.events import ShortEvents
from stream_masker.core.mechanisms.transport.short.prepared import PreparedShort
from stream_masker.core.mechanisms.transport.solver import Problem, Scaling, gibbs
from stream_masker.core.mechanisms.transport.tree.cores import epsilons_of
from stream_masker.core.mechanisms.transport.tree.edge_risk import (
    LEFT_OUT,
    conditional_epsilon,
    edge_risks,
    joint_of_child,
    rows_with_both,
)
from stream_masker.core.mechanisms.transport.tree.groups import extra_exponents
from stream_masker.core.mechanisms.transport.tree.structure import Edge, flipped
from stream_masker.core.mechanisms.transport.values import SquareDistances, Values, single_values
from stream_masker.core.random.draws import salts_of
from stream_masker.core.risk.sampling import RecordRisk

BOUND_PAIRS = 2048
"""The number of pairs of a parent's values that bound the change of its child."""

ONE_PLACE = np.zeros(1, np.int32)
"""The position, and the place, of the single value of an attribute that is not there."""


@dataclass(frozen=True, eq=False)
class PreparedTransport:
    """A model in use.

    * ``values``, ``distances``: by attribute. ``fits``: the transport of each attribute alone.
    * ``pair``: the transport of pairs; None for one or for more than two attributes.
    * ``roots``: the factor of the additional exponents of each scalar with arrays. ``edges``: from scalars to arrays.
    * ``fields``: the scalars that are masked together. ``short``: events of a scalar with few elements of its array.
    * ``least``: the least count of a tuple that is written. ``power``: γ of the kernel.
    * ``first_elements``: whether the first element of an array is masked as the second value of a pair, if there is a
      ``pair``, which is calibrated on events with one element at most; otherwise all elements are masked given the
      scalar.
    * ``noise``: (p,) the mean squared distances that the target gives, 0 where it gives none. ``truncated``: (p,)
      whether that is more than the window allows, so that values move less.
    """

    values: tuple[Values, ...]
    distances: tuple[SquareDistances, ...]
    fits: tuple[Fit, ...]
    pair: Fit | None
    roots: Mapping[int, float]
    edges: tuple[Edge, ...]
    fields: tuple[Field, ...]
    short: tuple[ShortEvents, ...]
    least: int
    power: float
    first_elements: bool
    noise: tuple[float, ...]
    truncated: tuple[bool, ...]

    @cached_property
    def squares(self) -> tuple[Float64Matrix, ...]:
        """sd² of the values of each attribute."""
        return tuple(d.of(values.positions) for d, values in zip(self.distances, self.values, strict=True))

    @cached_property
    def squares32(self) -> tuple[Float32Matrix, ...]:
        """The same as float32."""
        return tuple(squares.astype(np.float32) for squares in self.squares)

    def make_channels(self) -> None:
        """Compute the channels that mask the records of the window, so that the first batch does not take longer than
        others."""
        for values in self.values:
            values.locate_all()
        if self.pair is not None:
            _ = self.pair_channel
        masked_with_others = {edge.child for edge in self.edges} | self._in_fields.keys()
        for j in range(len(self.values)):
            if j not in masked_with_others and self.pair is None:
                self._channel(j)
        for field in self.prepared_fields:
            _ = field.channel
        for short in self.prepared_short:
            short.make_channels()
        for edge in self.edges:
            self._conditional(edge)
        _ = self.squares32

    def draw(self, batch: Batch, before: list[Int32Array], words: list[UInt64Array]) -> list[Int32Array]:
        """Return the indices of the masked values of each column, −1 for absent ones.

        * ``before``: the indices of the values of each column. ``words``: one random word for each of them.
        """
        arrays = [j for j, column in enumerate(batch.columns) if column.is_array]
        if self.pair is not None and not arrays:
            after = list(draw_pairs(self.pair_channel, before[0], before[1], words[0], words[1]))
        else:
            after = [np.full(indices.size, -1, np.int32) for indices in before]
        if self.first_elements and len(arrays) == 1:
            self._draw_first_elements(arrays[0], batch, before, after, words)
        for field in self.prepared_fields:
            field.draw(batch, before, after, words)
        for short in self.prepared_short:
            short.draw(batch, before, after, words)
        edges = self._edges_for(batch)
        for j in {edge.parent for edge in edges}:
            self._draw_alone(j, before, after, words)
        for edge in edges:
            self._draw_given(edge, batch, before, after, words)
        for j in range(len(before)):
            self._draw_alone(j, before, after, words)
        return after

    def _draw_first_elements(
        self, j: int, batch: Batch, before: list[Int32Array], after: list[Int32Array], words: list[UInt64Array]
    ) -> None:
        """Draw the pairs of a scalar and the first element of array j."""
        offsets = batch.columns[j].offsets
        assert offsets is not None
        rows = np.flatnonzero(np.diff(offsets))
        chosen = (rows, offsets[rows]) if j == 1 else (offsets[rows], rows)
        first, second = chosen
        drawn = draw_pairs(self.pair_channel, before[0][first], before[1][second], words[0][first], words[1][second])
        after[0][first], after[1][second] = drawn

    def _draw_alone(self, j: int, before: list[Int32Array], after: list[Int32Array], words: list[UInt64Array]) -> None:
        """Draw the values of column j that are not masked yet."""
        if after[j].min(initial=0) >= 0:
            return
        rows = np.flatnonzero((before[j] >= 0) & (after[j] < 0))
        if rows.size:
            after[j][rows] = draw_values(self._channel(j), before[j][rows], words[j][rows])

    def _draw_given(
        self, edge: Edge, batch: Batch, before: list[Int32Array], after: list[Int32Array], words: list[UInt64Array]
    ) -> None:
        """Draw the values of an edge's child whose parent has a value.

        A parent that is an array is one of single elements in the window. Records with several have no context.
        """
        offsets = batch.columns[edge.child].offsets
        a, new_a = (single_values(batch.columns[edge.parent], column[edge.parent]) for column in (before, after))
        if offsets is not None:
            lengths = np.diff(offsets)
            a, new_a = np.repeat(a, lengths), np.repeat(new_a, lengths)
        b = before[edge.child]
        channel = self._conditional(edge)
        rows = np.flatnonzero((b >= 0) & (after[edge.child] < 0) & channel.covers(a, new_a))
        if rows.size:
            salts = self._salts[edge.child]
            drawn = channel.draw(a[rows], new_a[rows], b[rows], words[edge.child][rows], salts)
            after[edge.child][rows] = drawn

    def _edges_for(self, batch: Batch) -> tuple[Edge, ...]:
        """Return the tree; for two attributes, one of them an array, the edge from the scalar to it."""
        arrays = [j for j, column in enumerate(batch.columns) if column.is_array]
        if self.edges or self.pair is None or self.first_elements or len(arrays) != 1:
            return self.edges if arrays or self.pair is None else ()
        return (self._pair_edges[arrays[0]],)

    @cached_property
    def _pair_edges(self) -> tuple[Edge, Edge]:
        """The edges to the first and to the second attribute of a pair."""
        assert self.pair is not None
        table, counts = self.pair.table, self.pair.counts
        first, second = self.pair.sharpness.tolist()
        return Edge(1, 0, *flipped(table, counts), first, self.power), Edge(0, 1, table, counts, second, self.power)

    @cached_property
    def pair_channel(self) -> PairChannel:
        """The channel of pairs."""
        assert self.pair is not None
        a, b = self.pair.sharpness.tolist()
        psi = np.where(self.pair.written(self.least), self.pair.phi, 0.0)
        first, second = (gibbs(s, x, self.power) for s, x in zip(self.squares32, (a, b), strict=True))
        positions = (self.values[0].positions, self.values[1].positions)
        place_of = self.distances[1].preorder[positions[1]]
        return PairChannel.of(self.pair.table, psi, first, second, self.squares32[0], positions, place_of)

    def solution(self) -> tuple[Problem, Scaling]:
        """Return the transport of pairs, or that of a single attribute."""
        if self.pair is None:
            return self._alone(0)
        return self.pair.solution((self.squares[0], self.squares[1]), self.least, self.power)

    def disclosure(self, names: tuple[str, ...]) -> Disclosure:
        """Return what masked records tell an attacker; ``names``: the attributes."""
        if self.pair is not None or len(names) == 1:
            return Disclosure.of(names, *self.solution(), self.epsilon_of_values())
        given = [self.joint(j) for j in range(len(names))]
        return Disclosure.of_tree(names, given, self.squares, self._record_risks(0.0), self.epsilon_of_values())

    @cached_property
    def joints(self) -> tuple[Float64Matrix, ...]:
        """P(a, a*) of each attribute of a pair, or of a single attribute."""
        problem, scaling = self.solution()
        both = (joint_of_first(problem, scaling), joint_of_second(problem, scaling))
        return both[: len(self.values)]

    def alone(self, j: int) -> Float64Matrix:
        """P(a, a*) of an attribute that is masked alone."""
        return joint_of_first(*self._alone(j))

    def _alone(self, j: int) -> tuple[Problem, Scaling]:
        squares = (self.squares[j], np.zeros((1, 1)))
        return self.fits[j].solution(squares, self.least, self.power, self.alone_exponents(j))

    def joint(self, j: int) -> Float64Matrix:
        """Return (k, k) float64: P(a, a*) of an attribute, over the records that have it.

        For an array it is a sum over all pairs of values of its scalar, without masks that have no written partner.
        """
        others = self._joint_of_others(j)
        return self._short_of[j].mixed(j, others) if j in self._short_of else others

    def _joint_of_others(self, j: int) -> Float64Matrix:
        """Return P(a, a*) of an attribute in events that are not short."""
        if j in self._in_fields:
            return self._in_fields[j].joints[j]
        above = next((edge for edge in self.edges if edge.child == j), None)
        if above is not None:
            law = self._joint_of_others(above.parent)
            return joint_of_child(self._laws_of(above), rows_with_both(above, law, law.sum(axis=1)))
        return self.alone(j) if self.pair is None else self.joints[j]

    @cached_property
    def prepared_fields(self) -> tuple[PreparedField, ...]:
        """The fields with what they need of their attributes."""
        return tuple(self._prepared_field(f, [self.root_exponents(j) for j in f.links.attributes]) for f in self.fields)

    def _prepared_field(self, field: Field, extra: Sequence[Float64Matrix | None]) -> PreparedField:
        return PreparedField(
            field,
            tuple(self.squares32[j] for j in field.links.attributes),
            tuple(self.values[j].positions for j in field.links.attributes),
            tuple(self.distances[j].preorder for j in field.links.attributes),
            tuple(extra),
            self.power,
            self.least,
        )

    @cached_property
    def prepared_short(self) -> tuple[PreparedShort, ...]:
        """The short events with what they need of their attributes."""
        found = []
        for events in self.short:
            fields = {n: self._prepared_field(f, [None] * (n + 1)) for n, f in events.fields.items()}
            channel = self._channel_of(events.parent, events.alone, None)
            squares = (self.squares[events.parent], np.zeros((1, 1)))
            solution = events.alone.solution(squares, self.least, self.power)
            edge = next(e for e in self.edges if (e.parent, e.child) == (events.parent, events.child))
            found.append(PreparedShort(events, edge, fields, channel, solution))
        return tuple(found)

    @cached_property
    def _short_of(self) -> Mapping[int, PreparedShort]:
        """The short events of each attribute that has them."""
        return {j: short for short in self.prepared_short for j in (short.events.parent, short.events.child)}

    @cached_property
    def _in_fields(self) -> Mapping[int, PreparedField]:
        """The field of each attribute that is masked together with others."""
        return {j: prepared for prepared in self.prepared_fields for j in prepared.field.links.attributes}

    @cached_property
    def record_risks(self) -> Mapping[tuple[int, int], RecordRisk]:
        """The risk of records of both attributes of a link or of an edge, by these attributes, ascending."""
        return self._record_risks(LEFT_OUT)

    def repeated_risks(self, *, draws: int, repeats: int) -> Mapping[tuple[int, int], RecordRisk]:
        """Return the risk of records of both attributes of a link of a field, after several masks of all its values.

        By these attributes, ascending. ``draws``: the number of records drawn.
        """
        if (draws, repeats) not in self._repeated:
            risks = [(field.field.links, field.risk(draws, repeats)) for field in self.prepared_fields]
            self._repeated[draws, repeats] = {
                pair: found for links, risk in risks for pair, found in risk.of_records(links).items()
            }
        return self._repeated[draws, repeats]

    def _record_risks(self, left_out: float) -> dict[tuple[int, int], RecordRisk]:
        """``left_out``: see ``transport.tree.edge_risk``."""
        found: dict[tuple[int, int], RecordRisk] = {}
        for prepared in self.prepared_fields:
            found |= prepared.risk().of_records(prepared.field.links)
        joints = {edge.parent: self._joint_of_others(edge.parent) for edge in self.edges}
        risks = edge_risks(self.edges, self._laws(), joints, lambda j: channel_rows(self.alone(j)), left_out)
        for edge, risk in zip(self.edges, risks, strict=True):
            pair = (min(edge.parent, edge.child), max(edge.parent, edge.child))
            of_others = risk.of_record(parent_first=edge.parent < edge.child)
            short = self._short_of.get(edge.child)
            found[pair] = of_others if short is None else short.mixed_risk(of_others)
        return found

    def epsilon_of_values(self) -> list[float]:
        """Return what each attribute adds at most to the ε of a record. See ``transport.tree.targets``."""
        alone = [epsilon_of_record(*self._alone(j)) for j in range(len(self.values))]
        for edge, laws in zip(self.edges, self._laws(), strict=True):
            alone[edge.child] = max(alone[edge.child], conditional_epsilon(laws))
        fields = list(self.prepared_fields)
        for short in self.prepared_short:
            scalar = short.events.parent
            alone[scalar] = max(alone[scalar], epsilon_of_record(*short.solution_alone))
            fields += short.fields.values()
        for prepared in fields:
            for j, epsilon in epsilons_of(prepared.problem, prepared.field.sharpness).items():
                alone[j] = max(alone[j], epsilon)
        return alone

    def _laws(self) -> list[Conditional]:
        return [self._laws_of(edge) for edge in self.edges]

    def _laws_of(self, edge: Edge) -> Conditional:
        return edge.laws(self.squares[edge.child], self.least)

    def changed_at_least(self, j: int) -> float:
        """Return a lower bound of the share of an attribute's values that change.

        It is the share itself, unless a value is masked given another attribute's mask: then it is the change with the
        most probable pairs of that one's values.
        """
        others = self._changed_of_others(j)
        return self._short_of[j].changed(j, others) if j in self._short_of else others

    def _changed_of_others(self, j: int) -> float:
        if j in self._in_fields:
            return self._in_fields[j].changed(j)
        edge = next((edge for edge in self.edges if edge.child == j), None)
        if edge is None:
            return float(self.fits[j].changed[0] if self.pair is None else self.pair.changed[j])
        law = self._joint_of_others(edge.parent)
        law = rows_with_both(edge, law, law.sum(axis=1))
        if law.size > BOUND_PAIRS:
            least = np.partition(law, law.size - BOUND_PAIRS, axis=None)[law.size - BOUND_PAIRS]
            law = np.where(law >= max(least, np.finfo(np.float64).tiny), law, 0.0)
        joint = joint_of_child(self._laws_of(edge), law)
        return float(joint.sum() - np.trace(joint))

    def rows(self, j: int) -> Float64Matrix:
        """Return (k, k) float64: P(a* | a) of the values of an attribute, over the window's law of its context."""
        joint = self.joint(j)
        without = joint.sum(axis=1) <= 0.0
        if without.any():
            joint[without] = self.alone(j)[without]
            missing = joint.sum(axis=1) <= 0.0
            joint[missing] = 1.0
        result: Float64Matrix = joint / joint.sum(axis=1, keepdims=True)
        return result

    @cached_property
    def _salts(self) -> tuple[UInt64Array, ...]:
        return tuple(salts_of(values.positions) for values in self.values)

    @cached_property
    def _repeated(self) -> dict[tuple[int, int], Mapping[tuple[int, int], RecordRisk]]:
        return {}

    @cached_property
    def _channels(self) -> dict[int, PairChannel]:
        return {}

    @cached_property
    def _conditionals(self) -> dict[tuple[int, int], ConditionalChannel]:
        return {}

    def _channel(self, j: int) -> PairChannel:
        """Return the channel of one attribute alone."""
        if j not in self._channels:
            self._channels[j] = self._channel_of(j, self.fits[j], self.alone_exponents(j))
        return self._channels[j]

    def _channel_of(self, j: int, fit: Fit, extra: Float64Matrix | None) -> PairChannel:
        psi = np.where(fit.written(self.least), fit.phi, 0.0)
        kernel = gibbs(self.squares32[j], float(fit.sharpness[0]), self.power, extra)
        positions = (self.values[j].positions, ONE_PLACE)
        nothing = np.ones((1, 1), np.float32)
        return PairChannel.of(fit.table, psi, kernel, nothing, self.squares32[j], positions, ONE_PLACE)

    def alone_exponents(self, j: int) -> Float64Matrix | None:
        """Return the additional exponents of an attribute that is masked alone; None for none."""
        return None if j in self._in_fields else self.root_exponents(j)

    def root_exponents(self, j: int) -> Float64Matrix | None:
        """Return the additional exponents of a scalar with arrays; None for other attributes."""
        factor = self.roots.get(j, 0.0)
        arrays = [
            replace(edge, sharpness=float(self.fits[edge.child].sharpness[0]))
            for edge in self.edges
            if edge.parent == j
        ]
        return factor * extra_exponents(arrays, self.squares, self.power)[j] if factor and arrays else None

    def _conditional(self, edge: Edge) -> ConditionalChannel:
        key = (edge.parent, edge.child)
        if key not in self._conditionals:
            self._conditionals[key] = edge.channel(self.squares[edge.child], self.least)
        return self._conditionals[key]
