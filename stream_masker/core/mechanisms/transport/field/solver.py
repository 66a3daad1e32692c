"""The fit of a field: ρ, ψ and λ that preserve the laws of the linked pairs and meet a distance.

With Q the law of masked records, the fixed point is ln ρ ← ln ρ + ln P(t_0) − ln Q(t_0) and
ln ψ_c ← ln ψ_c + ln P(t_c | t_p) − ln Q(t_c | t_p): iterative proportional fitting (Darroch and Ratcliff 1972), for two
attributes Sinkhorn's. λ moves along with it, ln λ_j ← ln λ_j + (ln E[sd_j²] − ln target) / η_j, where η ≥ 1 is the
elasticity of E. Anderson's method combines the steps (``transport.solver``).

As for pairs, rare tuples are not written: ρ and ψ are fitted with them, then they are left out of ψ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stream_masker.core.dtypes import Float32Matrix, Float64Array, Float64Matrix, Int64Array
from stream_masker.core.mechanisms.transport.field.links import Field, Links, Start
from stream_masker.core.mechanisms.transport.field.messages import (
    Layout,
    Weights,
    accumulate,
    entry_dots,
    kernel_with_absent,
    link_of,
    move_sums,
)
from stream_masker.core.mechanisms.transport.field.records import TreeRecords
from stream_masker.core.mechanisms.transport.products import row_products
from stream_masker.core.mechanisms.transport.search import MAX_SHARPNESS, MIN_SHARPNESS
from stream_masker.core.mechanisms.transport.solver import MAX_SETBACK, Anderson

LAW_ERROR = 4e-3
"""The greatest sum of absolute differences between the law of masked pairs of a link and that of the window."""
SQUARE_ERROR = 4e-3
"""The greatest |ln E − ln target| of a mean squared distance: RMSE within 0.2 %."""
MAX_FIELD_STEP = 1.5
GUARDED_MISS = 0.02
"""The |ln E − ln target| from which on λ must not move in the wrong direction."""
MAX_STEPS = 60
SHARPNESS_BOUNDS = (np.log(MIN_SHARPNESS), np.log(MAX_SHARPNESS))
LEAST = 1e-30
"""The least number whose logarithm is taken."""


@dataclass(frozen=True, eq=False)
class FieldProblem:
    """A tree with its pairs, and what a field has to preserve.

    * ``squares``: by node, (k, k) float32 sd². ``extra``: by node, (k, k) float64 additional exponents, or None.
    * ``power``: γ of the kernels. ``least``: the rows that a written pair must have.
    """

    links: Links
    records: TreeRecords
    squares: tuple[Float32Matrix, ...]
    extra: tuple[Float64Matrix | None, ...]
    power: float
    least: int

    def kernels(self, sharpness: Float64Array) -> list[Float32Matrix]:
        """Return K of each node; copies share it."""
        found: dict[int, Float32Matrix] = {}
        for node, attribute in enumerate(self.links.attributes):
            if attribute not in found:
                given = (float(sharpness[node]), self.power, self.extra[node])
                found[attribute] = kernel_with_absent(self.squares[node], *given)
        return [found[attribute] for attribute in self.links.attributes]

    def written(self, scales: Sequence[Float64Array]) -> list[Float64Array]:
        """Return ψ without the pairs that are not written."""
        given = enumerate(scales, start=1)
        return [np.where(self.links.written(node, self.least), scale, 0.0) for node, scale in given]


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """A field with given λ.

    * ``sharpness``: (q,) λ. ``root_scale``: ρ. ``scales``: ψ by link.
    * ``root``: (k_0 + 1,) the law of the root's masks. ``pairs``: by link, the law of its masked pairs.
    * ``totals``: (n,) Z of the records. ``joints``: by node, (k + 1, k + 1) float64 the law of (s_j, t_j).
    """

    sharpness: Float64Array
    root_scale: Float64Array
    scales: list[Float64Array]
    root: Float64Array
    pairs: list[Float64Array]
    totals: Float64Array
    joints: list[Float64Matrix]


def solve(problem: FieldProblem, start: Solution | Start | None, sharpness: Float64Array) -> Solution:
    """Find ρ and ψ for given λ; ``start``: those of a similar problem."""
    return _Iteration(problem, start, sharpness, None).run()[0]


def meet_squares(
    problem: FieldProblem, wanted: Float64Array, start: Solution | Start | None, sharpness: Float64Array
) -> Solution | None:
    """Find λ with E[sd²] = ``wanted``, (q,); None if it was not found. ``sharpness``: the first λ."""
    solution, met = _Iteration(problem, start, sharpness, wanted).run()
    return solution if met else None


def squares_of(problem: FieldProblem, solution: Solution) -> Float64Array:
    """Return (q,) float64: E[sd²] of each attribute, over the records that have a value."""
    sums = _moves(problem, solution)
    return np.asarray(sums[:, 1] / sums[:, 0])


def _moves(problem: FieldProblem, solution: Solution) -> Float64Matrix:
    """Return (q, 3) float64: ``move_sums`` of each node."""
    half, found = problem.power / 2.0, dict[int, Float64Array]()
    for attribute, squares, joint in zip(problem.links.attributes, problem.squares, solution.joints, strict=True):
        if attribute not in found:
            found[attribute] = move_sums(joint, squares, half)
    return np.stack([found[attribute] for attribute in problem.links.attributes])


class _Iteration:
    """The fixed point of a problem, from one start."""

    def __init__(
        self,
        problem: FieldProblem,
        start: Solution | Start | None,
        sharpness: Float64Array,
        wanted: Float64Array | None,
    ) -> None:
        self._problem = problem
        self._layout = Layout.of(problem.links)
        self._wanted = wanted
        self._sharpness = sharpness
        links = problem.links
        self._root_law = links.root_law
        self._rooted = np.flatnonzero(self._root_law > 0.0)
        self._laws = [links.law(node) for node in range(1, len(links.attributes))]
        self._given = [_shares(links, node, law) for node, law in enumerate(self._laws, start=1)]
        self._rare = not all(links.written(n, problem.least).all() for n in range(1, len(links.attributes)))
        self._start = start

    def run(self) -> tuple[Solution, bool]:
        """Return the solution with the least error, and whether it has the distances that are wanted."""
        x = self._first()
        accelerator = Anderson(self._coordinate_weights())
        best: tuple[float, Solution, bool] | None = None
        for _ in range(MAX_STEPS):
            full, written = self._evaluated(x)
            law_error, misses = self._errors(full, written)
            miss = float(np.abs(misses).max(initial=0.0)) / SQUARE_ERROR
            error = max(law_error / LAW_ERROR, miss)
            if best is None or error < best[0]:
                best = (error, written, miss <= 1.0)
            if error <= 1.0:
                break
            if error > MAX_SETBACK * best[0]:
                accelerator.clear()
            residual = self._residual(full, misses / self._elasticities(written))
            x = self._next(self._next_point(x, residual, misses, accelerator))
        assert best is not None
        return best[1], best[2]

    def _first(self) -> Float64Array:
        rho, scales = self._root_law, self._given
        if self._start is not None:
            rho = _filled(self._start.root_scale, rho)
            scales = [_filled(old, new) for old, new in zip(self._start.scales, scales, strict=True)]
        parts = [np.log(rho[self._rooted]), *(np.log(scale) for scale in scales)]
        if self._wanted is not None:
            parts.append(np.log(self._sharpness))
        return self._next(np.concatenate(parts))

    def _coordinate_weights(self) -> Float64Array:
        weights = [self._root_law[self._rooted], *self._laws]
        return np.concatenate([*weights, np.ones(0 if self._wanted is None else self._wanted.size)])

    def _evaluated(self, x: Float64Array) -> tuple[Solution, Solution]:
        """Return the field with all pairs, and with those that are written."""
        root, scales, sharpness = self._parts(x)
        rho = np.zeros(self._root_law.size)
        rho[self._rooted] = np.exp(root)
        kernels = self._problem.kernels(sharpness)
        psi = [np.exp(scale) for scale in scales]
        full = evaluate(self._problem, self._layout, sharpness, kernels, rho, psi, psi)
        if not self._rare:
            return full, full
        written = self._problem.written(psi)
        return full, evaluate(self._problem, self._layout, sharpness, kernels, rho, psi, written)

    def _parts(self, x: Float64Array) -> tuple[Float64Array, list[Float64Array], Float64Array]:
        """Return ln ρ where the root has values, ln ψ by link, and λ."""
        ends = np.cumsum([self._rooted.size, *(law.size for law in self._laws)])
        root, *scales = np.split(x[: ends[-1]], ends[:-1])
        return (
            root,
            scales,
            self._sharpness if self._wanted is None else np.exp(np.clip(x[ends[-1] :], *SHARPNESS_BOUNDS)),
        )

    def _errors(self, full: Solution, written: Solution) -> tuple[float, Float64Array]:
        """Return the greatest difference of the laws, and (q,) ln E − ln target; (0,) for given λ."""
        errors = [float(np.abs(found - law).sum()) for found, law in zip(full.pairs, self._laws, strict=True)]
        if self._wanted is None:
            return max(errors), np.empty(0)
        squares = np.maximum(squares_of(self._problem, written), LEAST)
        return max(errors), np.log(squares / self._wanted)

    def _next_point(
        self, x: Float64Array, residual: Float64Array, misses: Float64Array, accelerator: Anderson
    ) -> Float64Array:
        """Return the combination of the last steps; the plain step if it moves a λ that misses in the wrong
        direction."""
        proposed = accelerator.next(x, residual)
        sharpness = slice(x.size - misses.size, x.size)
        wrong = (proposed - x)[sharpness] * misses < 0.0
        if not (wrong & (np.abs(misses) > GUARDED_MISS)).any():
            return proposed
        accelerator.clear()
        return x + residual

    def _elasticities(self, written: Solution) -> Float64Array:
        """Return (q,) float64: −d ln E / d ln λ for given ρ and ψ, at least 1; (0,) for given λ.

        It is λ·Cov(sd², sd^γ) / E given the record's value; it is great for λ whose values hardly move.
        """
        if self._wanted is None:
            return np.empty(0)
        sums = _moves(self._problem, written)
        return np.maximum(written.sharpness * sums[:, 2] / np.maximum(sums[:, 1], LEAST), 1.0)

    def _residual(self, full: Solution, steps: Float64Array) -> Float64Array:
        """Return the step of all numbers; ``steps``: those of ln λ."""
        root = _log_ratio(self._root_law[self._rooted], full.root[self._rooted])
        parts = [root]
        for node, (given, law) in enumerate(zip(self._given, full.pairs, strict=True), start=1):
            parts.append(_log_ratio(given, _shares(self._problem.links, node, law)))
        parts.append(steps)
        return np.clip(np.concatenate(parts), -MAX_FIELD_STEP, MAX_FIELD_STEP)

    def _next(self, x: Float64Array) -> Float64Array:
        """Return the same field with bounded numbers: ψ of each parent's value sums to 1, and so does ρ."""
        root, scales, sharpness = self._parts(x)
        rho = np.full(self._root_law.size, -np.inf)
        rho[self._rooted] = root
        rho, psi = normalized(self._problem.links, rho, scales)
        parts = [np.maximum(numbers, np.log(LEAST)) for numbers in (rho[self._rooted], *psi)]
        if self._wanted is not None:
            parts.append(np.log(sharpness))
        return np.concatenate(parts)


def normalized(
    links: Links, root_scale: Float64Array, scales: Sequence[Float64Array]
) -> tuple[Float64Array, list[Float64Array]]:
    """Return ln ρ and ln ψ of the same channel such that ψ of each parent's value sums to 1, and so does ρ."""
    rho, scales = root_scale.copy(), [scale.copy() for scale in scales]
    for node in range(len(links.attributes) - 1, 0, -1):
        table, parent = links.tables[node - 1], links.parents[node]
        sums = _log_sums(table.rows, scales[node - 1], table.shape[0])
        scales[node - 1] -= sums[table.rows]
        if parent == 0:
            rho += sums
        else:
            scales[parent - 1] += sums[links.tables[parent - 1].columns]
    return rho - _log_sums(np.zeros(rho.size, np.int64), rho, 1)[0], scales


def _log_sums(groups: Int64Array, logs: Float64Array, size: int) -> Float64Array:
    """Return (size,) float64: ln of the sum of each group's numbers, given as logarithms; 0 for no numbers."""
    greatest = np.full(size, -np.inf)
    np.maximum.at(greatest, groups, logs)
    greatest[greatest == -np.inf] = 0.0
    sums = np.bincount(groups, np.exp(logs - greatest[groups]), minlength=size)
    return greatest + np.log(np.where(sums > 0.0, sums, 1.0))


def evaluate(
    problem: FieldProblem,
    layout: Layout,
    sharpness: Float64Array,
    kernels: list[Float32Matrix],
    root_scale: Float64Array,
    scales: list[Float64Array],
    used: list[Float64Array],
) -> Solution:
    """Return the law of the masked records of a field; ``used``: ψ of the pairs that are written."""
    weights = Weights.of(layout, kernels, root_scale, used)
    moved, reached = np.zeros(weights.kernels.size, np.float32), np.zeros(weights.messages.size, np.float32)
    inner = np.zeros(weights.psi.size)
    totals = accumulate(layout, weights, problem.records.indices, problem.records.weights, moved, reached, inner)
    joints, pairs = [], []
    for node, table in enumerate((None, *problem.links.tables)):
        size = int(layout.sizes[node])
        if not layout.leaves[node]:
            place = slice(int(layout.kernels[node]), int(layout.kernels[node + 1]))
            joints.append(moved[place].reshape(size, size).astype(np.float64))
            if table is not None:
                pairs.append(inner[layout.entries[node] : layout.entries[node + 1]])
            continue
        assert table is not None
        if layout.originals[node] < node:
            joints.append(joints[layout.originals[node]])
            pairs.append(pairs[layout.originals[node] - 1])
            continue
        copies = np.flatnonzero(layout.originals == node)
        places = [slice(int(layout.messages[each]), int(layout.messages[each + 1])) for each in copies]
        sent = weights.messages[places[0]].reshape(size, -1)
        law = np.asarray(sum(reached[place] for place in places) / np.float32(copies.size)).reshape(sent.shape)
        shares = np.divide(law, sent, out=np.zeros_like(sent), where=sent > 0.0)
        by_parent = np.ascontiguousarray(shares.T)
        offsets, partners, psi = link_of(layout, weights.psi, node)
        pairs.append(psi * entry_dots(offsets, partners, by_parent, kernels[node]))
        columns = table.by_column
        sums = row_products(columns.offsets, columns.columns, psi[table.order], by_parent.astype(np.float64))
        joints.append(kernels[node] * sums.T)
    return Solution(sharpness, root_scale, scales, joints[0].sum(axis=0), pairs, totals, joints)


def joints_of(problem: FieldProblem, solution: Solution) -> dict[int, Float64Matrix]:
    """Return (k, k) float64 for each attribute: the law of its value and its mask, over records that have a value."""
    present = [joint[:-1, :-1] / joint[:-1, :-1].sum() for joint in solution.joints]
    return dict(zip(problem.links.attributes, present, strict=True))


def solution_of(problem: FieldProblem, field: Field) -> Solution:
    """Return the solution that a field holds."""
    kernels, scales = problem.kernels(field.sharpness), list(field.scales)
    layout, written = Layout.of(problem.links), problem.written(scales)
    return evaluate(problem, layout, field.sharpness, kernels, field.root_scale, scales, written)


def field_of(problem: FieldProblem, solution: Solution) -> Field:
    """Return the field of a solution, with the numbers that its model holds.

    The factors that ρ and ψ share are chosen such that ψ of each parent's value sums to 1, and so does ρ.
    """
    with np.errstate(divide="ignore"):
        given = [np.log(scale) for scale in (solution.root_scale, *solution.scales)]
    rho, scales = normalized(problem.links, given[0], given[1:])
    changed = [1.0 - float(np.trace(joint[:-1, :-1]) / joint[:-1, :-1].sum()) for joint in solution.joints]
    rounded = tuple(_rounded(scale) for scale in scales)
    return Field(problem.links, solution.sharpness, _rounded(rho), rounded, np.clip(changed, 0.0, 1.0))


def _rounded(logs: Float64Array) -> Float64Array:
    return np.asarray(np.exp(logs.astype(np.float32).astype(np.float64)))


def _shares(links: Links, node: int, law: Float64Array) -> Float64Array:
    """Return (m,) float64: the law of a node given its parent's value, at the pairs of their link."""
    table = links.tables[node - 1]
    sums = np.bincount(table.rows, law, minlength=table.shape[0])
    return np.asarray(law / np.maximum(sums[table.rows], LEAST))


def _log_ratio(wanted: Float64Array, found: Float64Array) -> Float64Array:
    return np.asarray(np.log(np.maximum(wanted, LEAST) / np.maximum(found, LEAST)))


def _filled(old: Float64Array, new: Float64Array) -> Float64Array:
    return np.where(np.isnan(old), new, old)
