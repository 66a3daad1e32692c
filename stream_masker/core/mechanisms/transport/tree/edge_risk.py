"""What the masks of the two attributes of an edge tell, from the exact channel P(a, b)·M(a* | a)·M(b* | b, a, a*).

Given A*, the mask B* is independent of A: its law is P(b* | a*), whatever a is. So B* tells nothing about A that A*
does not tell, but A* and B* together tell more about B than B* alone.

A large window has many pairs (a, a*), most of which hardly ever occur. The least probable ones for their cost can be
left out; what they would contribute counts as guessed right, so the figures are then upper bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from stream_masker.core.dtypes import BoolArray, Float64Array, Float64Matrix, Int32Array, Int64Array
from stream_masker.core.mechanisms.transport.couplings import Conditional
from stream_masker.core.mechanisms.transport.products import row_products, transposed
from stream_masker.core.mechanisms.transport.tree.edge_kernels import Scratch, add_best_guesses, greatest_ratio
from stream_masker.core.mechanisms.transport.tree.structure import Edge
from stream_masker.core.risk.sampling import RecordRisk

LEFT_OUT = 1e-3
"""The probability of the pairs (a, a*) that may be left out of the figures of an edge."""
RATIO_STEPS = 8.0
"""Pairs are left out in groups of equal ln(probability / cost), in steps of 1 / this number."""


@dataclass(frozen=True, slots=True, eq=False)
class EdgeRisk:
    """The chances of the best guesses, given the masks of a parent A and its child B.

    * ``parent``: V(A | A*, B*). ``child``: V(B | A*, B*). ``both``: V(A, B | A*, B*). Upper bounds, which exceed the
      true values by at most ``left_out``.
    * ``unchanged``: the probability that both values stay.
    * ``joint``: (k_B, k_B) float64 P(b, b*), without what is left out. ``prior``: (k_B,) P(b).
    """

    parent: float
    child: float
    both: float
    unchanged: float
    left_out: float
    joint: Float64Matrix
    prior: Float64Array

    @classmethod
    def of(
        cls,
        edge: Edge,
        laws: Conditional,
        law: Float64Matrix,
        alone: Callable[[], Float64Matrix],
        left_out: float,
    ) -> EdgeRisk:
        """Return the figures of an edge.

        * ``law``: (k_A, k_A) P(a, a*) of the rows that have both attributes; its sum may lack what is left out.
        * ``alone``: returns (k_B, k_B) M(b* | b) of values whose context is not written. ``left_out``: the probability
          that may be left out.
        """
        writes = laws.writes()
        joint, (child, both, unchanged) = _added_guesses(laws, law, left_out)
        parent = float(law[:, writes].max(axis=0, initial=0.0).sum())
        if law[:, ~writes].any():
            extra = _AloneGuesses.of(edge, laws, law[:, ~writes], alone())
            parent, child, both = parent + extra.parent, child + extra.child, both + extra.both
            unchanged += float(np.where(writes, 0.0, np.diag(law)) @ extra.stays)
            joint += extra.joint
        missing = max(0.0, 1.0 - float(joint.sum()))
        prior = np.bincount(edge.table.columns, edge.counts, minlength=len(joint)) / edge.counts.sum()
        parent += max(0.0, 1.0 - float(law.sum()))
        return cls(parent, child + missing, both + missing, unchanged, missing, joint, prior)

    @property
    def estimate(self) -> float:
        """V(B | A*, B*), if the best guesses of what is left out are right as often as those of the rest."""
        return (self.child - self.left_out) / (1.0 - self.left_out)

    def of_record(self, *, parent_first: bool) -> RecordRisk:
        """Return the figures as those of records of both attributes, in their order."""
        of_attributes = (self.parent, self.child) if parent_first else (self.child, self.parent)
        return RecordRisk(self.both, of_attributes, self.unchanged, self.left_out)


@dataclass(frozen=True, slots=True, eq=False)
class _AloneGuesses:
    """What is added for masks a* without a written partner, for which B is masked alone.

    ``joint``: (k_B, k_B) what is added to P(b, b*). ``stays``: (k_A,) the probability that B stays, given a.
    """

    parent: float
    child: float
    both: float
    joint: Float64Matrix
    stays: Float64Array

    @classmethod
    def of(cls, edge: Edge, laws: Conditional, law: Float64Matrix, alone: Float64Matrix) -> _AloneGuesses:
        """``law``: (k_A, n) P(a, a*) of these masks. ``alone``: (k_B, k_B) M(b* | b)."""
        entries = edge.table.by_row
        masks = row_products(entries.offsets, entries.columns, laws.source, alone)
        stays = row_products(entries.offsets, entries.columns, laws.source, np.diag(alone)[:, None].copy())[:, 0]
        dense = np.zeros(edge.table.shape)
        dense[edge.table.rows, edge.table.columns] = laws.source
        parent, child, both = 0.0, 0.0, 0.0
        values = law.T @ dense
        for column, of_b in zip(law.T, values, strict=True):
            parent += float((column[:, None] * masks).max(axis=0).sum())
            child += float((of_b[:, None] * alone).max(axis=0).sum())
            both += float(((column[:, None] * dense).max(axis=0)[:, None] * alone).max(axis=0).sum())
        return cls(parent, child, both, values.sum(axis=0)[:, None] * alone, stays)


def edge_risks(
    edges: Sequence[Edge],
    laws: Sequence[Conditional],
    joints: Mapping[int, Float64Matrix],
    alone: Callable[[int], Float64Matrix],
    left_out: float,
) -> tuple[EdgeRisk, ...]:
    """Return the figures of each edge; exact if ``left_out`` is 0 and an array depends on its scalar only.

    * ``laws``: of each edge. ``joints``: (k, k) P(a, a*) of each scalar. ``alone``: returns M(b* | b) of an array that
      is masked alone. ``left_out``: the probability that each edge may leave out.
    """
    found = []
    for edge, given in zip(edges, laws, strict=True):
        joint = joints[edge.parent]
        law = rows_with_both(edge, joint, joint.sum(axis=1))
        found.append(EdgeRisk.of(edge, given, law, partial(alone, edge.child), left_out))
    return tuple(found)


def rows_with_both(edge: Edge, joint: Float64Matrix, prior: Float64Array) -> Float64Matrix:
    """Return (k_A, k_A) float64: P(a, a*) of the rows that have both attributes of an edge.

    ``joint``: (k_A, k_A) P(a, a*) of all rows. ``prior``: (k_A,) P(a).
    """
    shares = np.bincount(edge.table.rows, edge.counts, minlength=len(prior)) / edge.counts.sum()
    return np.asarray(joint * np.where(prior > 0.0, shares / np.where(prior > 0.0, prior, 1.0), 0.0)[:, None])


def joint_of_child(laws: Conditional, law: Float64Matrix) -> Float64Matrix:
    """Return (k_B, k_B) float64: P(b, b*) for the joint law P(a, a*), (k_A, k_A), where a* has a written partner."""
    return _added_guesses(laws, law, 0.0)[0]


def _added_guesses(laws: Conditional, law: Float64Matrix, left_out: float) -> tuple[Float64Matrix, list[float]]:
    """Return P(b, b*) and the sums of ``add_best_guesses`` over the pairs (a, a*) with a written partner."""
    sizes = np.diff(laws.offsets)
    chosen = _most_probable(np.where(laws.writes(), law, 0.0), sizes, left_out)
    joint = np.zeros(laws.kernel.shape)
    sums = np.empty(int(sizes.max()) * len(joint))
    return joint, add_best_guesses(laws, *chosen, _scratch(laws), sums, joint).tolist()


def conditional_epsilon(laws: Conditional) -> float:
    """Return the greatest ln M(b* | b, a, a*) − ln M(b* | b′, a′, a*) of an edge: over all a* and window pairs."""
    written = np.flatnonzero(laws.writes()).astype(np.int32)
    return float(greatest_ratio(laws, written, _scratch(laws)))


def _scratch(laws: Conditional) -> Scratch:
    most = int(np.diff(laws.offsets).max())
    return Scratch(np.empty(most * most), np.empty(most * most), np.empty((2, most)), np.empty((3, most)))


def _most_probable(
    law: Float64Matrix, sizes: Int64Array, left_out: float
) -> tuple[Int64Array, Int32Array, Float64Array]:
    """Select pairs (a, a*) in the order of probability / cost, until at most ``left_out`` is missing.

    * ``law``: (k, k) P(a, a*). ``sizes``: (k,) the number of partners of each value.

    Returns the pairs ordered by a*: (k + 1,) where each a* starts, (n,) a, and (n,) P(a, a*).
    """
    by_mask = transposed(np.ascontiguousarray(law))
    kept = (by_mask > 0.0) & (sizes > 0)
    if left_out > 0.0:
        new_a, a = np.nonzero(kept)
        kept[new_a, a] = _frequent(by_mask[new_a, a], sizes[a] * sizes[new_a], left_out)
    starts = np.concatenate([[0], np.cumsum(np.count_nonzero(kept, axis=1))])
    return starts, np.nonzero(kept)[1].astype(np.int32), by_mask[kept]


def _frequent(weights: Float64Array, costs: Int64Array, left_out: float) -> BoolArray:
    """Return (n,) bool: which pairs are kept."""
    steps = np.floor(RATIO_STEPS * np.log(weights / costs)).astype(np.int64)
    steps -= steps.min(initial=0)
    lost = np.cumsum(np.bincount(steps, weights))
    return np.asarray(lost[steps] > left_out)
