"""Random windows over a small taxonomy, with the problems of their fields."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from hypothesis import strategies as st
from support.enumeration import field_weights

from stream_masker import SemanticTransport
from stream_masker.core.batch import Batch, Column
from stream_masker.core.mechanisms.transport.field.channel import FieldChannel
from stream_masker.core.mechanisms.transport.field.links import Field, Links
from stream_masker.core.mechanisms.transport.field.records import TreeRecords
from stream_masker.core.mechanisms.transport.field.solver import FieldProblem
from stream_masker.core.mechanisms.transport.values import Values
from stream_masker.core.ontology import Ontology
from stream_masker.core.ontology.preorder import first_parents_of, preorder_of
from stream_masker.core.statistics import Counts, count_batch

TAU = Ontology.from_edges([(f"c{k}", f"c{(k - 1) // 2}") for k in range(1, 15)]).taxonomy()
DISTANCE = SemanticTransport({"x": TAU}, seed=b"a seed of many bytes").distances[0]


@st.composite
def trees(draw, greatest=5):
    """The parents of 2 to ``greatest`` nodes, −1 for the root: stars, chains, and all other trees."""
    size = draw(st.integers(2, greatest))
    return (-1, *(draw(st.integers(0, node - 1)) for node in range(1, size)))


@dataclass(frozen=True)
class Window:
    """A window of n rows of q attributes with a tree.

    * ``codes``: (q, n) int32, −1 for absent. ``links``: (parent, child) attributes.
    * ``counts``, ``values``: of the rows.
    """

    codes: np.ndarray
    links: tuple[tuple[int, int], ...]
    counts: Counts
    values: list[Values]

    @classmethod
    def of(cls, codes: np.ndarray, links: Sequence[tuple[int, int]]) -> Window:
        counts = count_batch(batch_of(codes), [len(TAU)] * len(codes))
        return cls(codes, tuple(links), counts, [Values.most_frequent(DISTANCE, column) for column in counts.values])

    @classmethod
    def random(cls, rng, parents, *, kinds=3, size=80, absent=0.2) -> Window:
        """Rows in which each node often is a function of its parent; ``absent``: the share of absent values."""
        attributes = rng.permutation(len(parents))
        codes = np.empty((len(parents), size), np.int32)
        for node, parent in enumerate(parents):
            own = np.sort(rng.choice(len(TAU), kinds, replace=False))
            others = rng.choice(kinds, size, p=rng.dirichlet(np.full(kinds, 2.0)))
            if node:
                above = codes[attributes[parent]]
                others = np.where((above >= 0) & (rng.random(size) < 0.5), above % kinds, others)
            lacking = rng.random(size) < absent
            lacking[:kinds] = False
            others[:kinds] = np.arange(kinds)
            codes[attributes[node]] = np.where(lacking, -1, own[others])
        links = [(attributes[parent], attributes[node]) for node, parent in enumerate(parents) if node]
        return cls.of(codes, [(int(a), int(b)) for a, b in links])

    @property
    def tree(self) -> Links:
        """The links with their pairs."""
        return Links.of(self.links, self.counts, self.values)

    @property
    def records(self) -> np.ndarray:
        """(n, q) int32: the rows as indices of values by node, k for an absent one."""
        columns = [
            np.where(self.codes[j] >= 0, self.values[j].indices(self.codes[j]), len(self.values[j]))
            for j in self.tree.attributes
        ]
        return np.stack(columns, axis=1).astype(np.int32)

    def problem(self, *, least=1, power=2.0, extra=None) -> FieldProblem:
        """The problem of the window's field."""
        links = self.tree
        squares = [self.values[j].distance.matrix(self.values[j].positions) ** 2 for j in links.attributes]
        squares = tuple(each.astype(np.float32) for each in squares)
        return FieldProblem(links, TreeRecords.of(links), squares, extra or (None,) * len(squares), power, least)

    def channel(self, problem: FieldProblem, field: Field) -> FieldChannel:
        """What draws the masks of a field."""
        positions = [self.values[j].positions for j in problem.links.attributes]
        places = [preorder_of(first_parents_of(TAU.parent_offsets, TAU.parents))] * len(positions)
        squares, extra = list(problem.squares), list(problem.extra)
        return FieldChannel.of(field, squares, positions, places, extra, problem.power, problem.least)


def batch_of(codes) -> Batch:
    return Batch(len(codes[0]), tuple(Column(np.ascontiguousarray(column)) for column in codes))


def random_field(rng, links: Links) -> Field:
    """A field with any numbers that a model may hold."""
    q = len(links.attributes)
    root_scale = np.where(links.root_law > 0.0, rng.uniform(0.05, 1.0, links.sizes[0]), 0.0)
    scales = tuple(rng.uniform(0.05, 1.0, table.rows.size) for table in links.tables)
    return Field(links, rng.uniform(0.1, 30.0, q), root_scale, scales, np.zeros(q))


def random_exponents(rng, problem_squares) -> tuple[np.ndarray | None, ...]:
    """Additional exponents of about half of the nodes."""
    found = [np.abs(rng.normal(size=s.shape)) for s in problem_squares]
    return tuple((x + x.T) / 2.0 if rng.random() < 0.5 else None for x in found)


def all_records(links: Links, rng=None) -> TreeRecords:
    """Each combination of values and of absent ones; with ``rng``, with random weights."""
    indices = np.array(list(product(*map(range, links.sizes))), np.int32)
    weights = np.ones(len(indices)) if rng is None else rng.random(len(indices))
    starts = np.searchsorted(indices[:, 0], np.arange(links.sizes[0] + 1))
    return TreeRecords(indices, weights / weights.sum(), starts)


@dataclass(frozen=True)
class Enumerated:
    """Figures of a field over some records, from its formula.

    * ``totals``: (n,) Z. ``masks``: (n, k_0 + 1, …) M(t | s), 0 where Z is.
    * ``joints``: by node, (k + 1, k + 1) the law of (s_j, t_j). ``pairs``: by link, the law of masks of all pairs of
      values.
    """

    totals: np.ndarray
    masks: np.ndarray
    joints: list[np.ndarray]
    pairs: list[np.ndarray]

    @classmethod
    def of(cls, problem: FieldProblem, field: Field, records: TreeRecords) -> Enumerated:
        links, given = problem.links, (problem.squares, problem.extra, problem.power, problem.least)
        weights = np.array([field_weights(field, *given, record) for record in records.indices])
        axes = tuple(range(1, weights.ndim))
        totals = weights.sum(axis=axes)
        masks = weights / np.where(totals > 0.0, totals, 1.0).reshape(-1, *(1 for _ in axes))
        shares = masks * records.weights.reshape(-1, *(1 for _ in axes))
        joints, pairs = [], []
        for node, size in enumerate(links.sizes):
            by_record = shares.sum(axis=tuple(axis for axis in axes if axis != node + 1))
            joints.append(np.zeros((size, size)))
            np.add.at(joints[-1], records.indices[:, node], by_record)
            if node:
                parent = links.parents[node]
                found = shares.sum(axis=(0, *(axis for axis in axes if axis not in (node + 1, parent + 1))))
                pairs.append(found if parent < node else found.T)
        return cls(totals, masks, joints, pairs)
