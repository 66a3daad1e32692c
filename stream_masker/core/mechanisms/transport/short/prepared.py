"""Events with few elements in use: what masks them, and what their masks tell."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from stream_masker.core.batch import Batch
from stream_masker.core.dtypes import Float64Matrix, Int32Array, Int64Array, Int64Matrix, UInt64Array
from stream_masker.core.mechanisms.transport.disclosure import channel_rows, joint_of_first
from stream_masker.core.mechanisms.transport.field.channel import draw_records
from stream_masker.core.mechanisms.transport.field.prepared import PreparedField
from stream_masker.core.mechanisms.transport.sampling import PairChannel, draw_values
from stream_masker.core.mechanisms.transport.short.events import ShortEvents
from stream_masker.core.mechanisms.transport.solver import Problem, Scaling
from stream_masker.core.mechanisms.transport.tree.edge_risk import rows_with_both
from stream_masker.core.mechanisms.transport.tree.structure import Edge
from stream_masker.core.risk.sampling import RecordRisk


@dataclass(frozen=True, eq=False)
class PreparedShort:
    """Short events with their fields in use.

    * ``edge``: from A to B. ``fields``: by number of elements.
    * ``alone``: the channel of A in events without elements; ``solution_alone``: its transport.
    """

    events: ShortEvents
    edge: Edge
    fields: Mapping[int, PreparedField]
    alone: PairChannel
    solution_alone: tuple[Problem, Scaling]

    def make_channels(self) -> None:
        """Compute the channels of the fields."""
        for field in self.fields.values():
            _ = field.channel

    def draw(self, batch: Batch, before: list[Int32Array], after: list[Int32Array], words: list[UInt64Array]) -> None:
        """Set the masks of events with few elements, all of them present; the arguments are those of all columns."""
        scalar, array = self.events.parent, self.events.child
        offsets = batch.columns[array].offsets
        if offsets is None or batch.columns[scalar].is_array:
            return
        lengths = np.diff(offsets)
        without = np.flatnonzero(lengths == 0)
        after[scalar][without] = draw_values(self.alone, before[scalar][without], words[scalar][without])
        for elements, field in self.fields.items():
            events = np.flatnonzero(lengths == elements)
            places = offsets[events][:, None] + np.arange(elements)
            known = (before[array][places] >= 0).all(axis=1)
            _draw_together(field, events[known], places[known], (scalar, array), before, after, words)

    def mixed(self, attribute: int, others: Float64Matrix) -> Float64Matrix:
        """Return (k, k) float64: P(a, a*) of A or of B; ``others``: that of events without a field.

        The values of A in rows without elements are those that the window has there.
        """
        joints = {elements: field.joints[attribute] for elements, field in self.fields.items()}
        shares, left = self._shares(joints)
        if attribute == self.events.parent:
            others = rows_with_both(self.edge, others, others.sum(axis=1))
        found = np.asarray(left * others + sum(shares[n] * joint for n, joint in joints.items()))
        if attribute == self.events.child:
            return found
        return np.asarray((1.0 - self._without_elements.sum()) * found + self._without_elements)

    @cached_property
    def _without_elements(self) -> Float64Matrix:
        """(k_A, k_A) float64: P(a, a*) of the rows of A without an element; the sum is their share."""
        counts = self.events.alone.counts
        with_elements = np.bincount(self.edge.table.rows, self.edge.counts, minlength=counts.size)
        without = (counts - with_elements) / counts.sum()
        return np.asarray(without[:, None] * channel_rows(joint_of_first(*self.solution_alone)))

    def changed(self, attribute: int, others: float) -> float:
        """Return the share of the values of A or of B that change; ``others``: that of events without a field."""
        found = {elements: field.changed(attribute) for elements, field in self.fields.items()}
        if attribute == self.events.parent:
            found[0] = float(self.events.alone.changed[0])
        shares, left = self._shares(found)
        return left * others + sum(shares[n] * share for n, share in found.items())

    def mixed_risk(self, others: RecordRisk) -> RecordRisk:
        """Return the risk of records of A and one element of B, by these attributes, ascending; the attacker has all
        masks of an event, and sees whether it has elements. ``others``: that of events without a field.

        The chance of A is that of all its rows, with and without elements.
        """
        pair = (min(self.events.parent, self.events.child), max(self.events.parent, self.events.child))
        found = {n: field.risk().of_records(field.field.links)[pair] for n, field in self.fields.items()}
        shares, left = self._shares(found)
        risks = [(left, others), *((shares[n], risk) for n, risk in found.items())]
        chances = [sum(share * risk.of_attributes[end] for share, risk in risks) for end in range(2)]
        place = pair.index(self.events.parent)
        without = self._without_elements
        chances[place] = (1.0 - without.sum()) * chances[place] + without.max(axis=0).sum()
        return RecordRisk(
            sum(share * risk.vulnerability for share, risk in risks),
            tuple(map(float, chances)),
            sum(share * risk.unchanged for share, risk in risks),
            max(risk.bound for share, risk in risks if share > 0.0),
        )

    def _shares(self, numbers: Collection[int]) -> tuple[dict[int, float], float]:
        """Return the shares of the window's rows of events with these numbers of elements, and that of all others.

        If 0 is among the numbers, these are rows with or without elements, otherwise those with elements.
        """
        rows = self.events.rows if 0 in numbers else np.append(0, self.events.rows[1:])
        shares = {n: float(rows[n] / rows.sum()) for n in numbers}
        return shares, max(0.0, 1.0 - sum(shares.values()))


def _draw_together(
    field: PreparedField,
    events: Int64Array,
    places: Int64Matrix,
    attributes: tuple[int, int],
    before: list[Int32Array],
    after: list[Int32Array],
    words: list[UInt64Array],
) -> None:
    """Set the masks of events that the field explains.

    * ``events``: (m,) their indices. ``places``: (m, n) the places of their n elements. ``attributes``: A and B.
    """
    scalar, array = attributes
    own = before[scalar][events]
    present = own >= 0
    values = np.where(present, own, field.positions[0].size)
    records = np.concatenate([values[:, None], before[array][places]], axis=1).astype(np.int32)
    chosen = np.concatenate([words[scalar][events][:, None], words[array][places]], axis=1)
    masked = draw_records(field.channel, records, chosen)
    explained = masked[:, 0] >= 0
    after[scalar][events[explained & present]] = masked[explained & present, 0]
    after[array][places[explained]] = masked[explained, 1:]
