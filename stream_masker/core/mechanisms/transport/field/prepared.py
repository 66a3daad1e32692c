"""A field in use: what it masks with, and what its masks tell; derived arrays are computed on first use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from stream_masker.core.batch import Batch
from stream_masker.core.dtypes import Float32Matrix, Float64Matrix, Int32Array, UInt64Array
from stream_masker.core.mechanisms.transport.field.channel import FieldChannel, draw_records
from stream_masker.core.mechanisms.transport.field.disclosure import DRAWS, FieldRisk
from stream_masker.core.mechanisms.transport.field.links import Field
from stream_masker.core.mechanisms.transport.field.records import TreeRecords
from stream_masker.core.mechanisms.transport.field.solver import FieldProblem, Solution, joints_of, solution_of
from stream_masker.core.mechanisms.transport.values import single_places


@dataclass(frozen=True, eq=False)
class PreparedField:
    """A field with what it needs of its attributes.

    By node: ``squares``, (k, k) sd²; ``positions``, (k,) of the values; ``preorders``, the place of each concept of the
    taxonomy; ``extra``, (k, k) additional exponents, or None. ``power``: γ. ``least``: the rows of a written pair.
    """

    field: Field
    squares: tuple[Float32Matrix, ...]
    positions: tuple[Int32Array, ...]
    preorders: tuple[Int32Array, ...]
    extra: tuple[Float64Matrix | None, ...]
    power: float
    least: int

    @cached_property
    def channel(self) -> FieldChannel:
        """The channel that masks."""
        return FieldChannel.of(
            self.field,
            list(self.squares),
            list(self.positions),
            list(self.preorders),
            list(self.extra),
            self.power,
            self.least,
        )

    @cached_property
    def problem(self) -> FieldProblem:
        """What the field solves."""
        links = self.field.links
        return FieldProblem(links, TreeRecords.of(links), self.squares, self.extra, self.power, self.least)

    @cached_property
    def solution(self) -> Solution:
        """The solution that the field holds."""
        return solution_of(self.problem, self.field)

    @cached_property
    def joints(self) -> Mapping[int, Float64Matrix]:
        """P(a, a*) of each attribute."""
        return joints_of(self.problem, self.solution)

    def risk(self, draws: int = DRAWS, repeats: int = 1) -> FieldRisk:
        """Return what masked records tell, each of them masked ``repeats`` times; ``draws``: the records drawn."""
        return FieldRisk.of(self.channel, self.field.links, self.problem.records, self.solution.totals, draws, repeats)

    def changed(self, attribute: int) -> float:
        """Return the share of an attribute's values that change."""
        return float(self.field.changed[self.field.links.attributes.index(attribute)])

    def draw(self, batch: Batch, before: list[Int32Array], after: list[Int32Array], words: list[UInt64Array]) -> None:
        """Set the masks of the records that the field explains; the arguments are those of all columns.

        Arrays that the window knows with single elements only count as absent where they have several.
        """
        nodes = self.field.links.attributes
        places = [single_places(batch.columns[j], before[j]) for j in nodes]
        records = np.empty((batch.size, len(nodes)), np.int32)
        chosen = np.zeros((batch.size, len(nodes)), np.uint64)
        for node, (j, place) in enumerate(zip(nodes, places, strict=True)):
            present = np.flatnonzero(place >= 0)
            values = before[j][place[present]]
            records[:, node] = self._absent(node)
            records[present, node] = np.where(values >= 0, values, self._absent(node))
            chosen[present, node] = words[j][place[present]]
        drawn = draw_records(self.channel, records, chosen)
        for node, (j, place) in enumerate(zip(nodes, places, strict=True)):
            rows = np.flatnonzero((records[:, node] < self._absent(node)) & (drawn[:, node] >= 0))
            after[j][place[rows]] = drawn[rows, node]

    def _absent(self, node: int) -> int:
        return self.positions[node].size
