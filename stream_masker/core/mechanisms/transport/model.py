"""The model of a window: computed from its counts, and JSON-serialisable for the processes that mask.

It holds for each attribute its values and the transport of the attribute alone; for two attributes their transport as
pairs; and the edges of the tree if there are arrays or more than two attributes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from stream_masker.core.dtypes import Float64Array, Float64Matrix, Int32Array
from stream_masker.core.mechanisms.transition.serialization import read_model_field
from stream_masker.core.mechanisms.transport.disclosure import channel_rows, joint_of_first
from stream_masker.core.mechanisms.transport.fit import Fit, pack_values, read_values
from stream_masker.core.mechanisms.transport.fitting import Goal, fit, greatest_noise, problem_of
from stream_masker.core.mechanisms.transport.prepared import PreparedTransport
from stream_masker.core.mechanisms.transport.solver import Scaling, gibbs
from stream_masker.core.mechanisms.transport.target import Target
from stream_masker.core.mechanisms.transport.tree.structure import (
    Edge,
    array_attributes,
    component_of,
    energy,
    fit_child,
    flipped,
    roots_of,
    sample_child,
    sample_joint,
    spanning_tree,
)
from stream_masker.core.mechanisms.transport.tree.targets import TreeProblem, VulnerabilitySearch, meet_epsilon
from stream_masker.core.mechanisms.transport.values import SquareDistances, Values, pair_table, single_table
from stream_masker.core.statistics.counts import Counts
from stream_masker.core.statistics.summary import Statistics
from stream_masker.errors import StatisticsError

FIRST_FACTOR = 0.5
"""The factor of a root's additional exponents that is tried first."""
FACTOR_STEP = 2.0
"""The ratio of the factors that are tried until one is too great."""
NEXT_FACTOR_STEP = 1.2
"""The ratio of the factors that are tried if the model in force has a factor."""
FACTOR_PRECISION = 1.05
"""The search ends when the ratio of a factor that is too great to one that is too small is below this number."""
MAX_FACTORS = 12

TRIVIAL = np.zeros((1, 1))
"""The squared distances of an attribute with a single value."""


@dataclass(frozen=True, slots=True)
class TransportSettings:
    """The parameters that a model depends on."""

    attributes: tuple[str, ...]
    distances: tuple[SquareDistances, ...]
    target: Target
    least: int


class ModelBuilder:
    """Computes the model of one window."""

    def __init__(
        self, settings: TransportSettings, counts: Counts, statistics: Statistics, previous: PreparedTransport | None
    ) -> None:
        """``previous``: the model in force, whose solution is the start. Raises StatisticsError."""
        self._settings = settings
        self._counts = counts
        self._statistics = statistics
        self._previous = previous
        self._wanted = wanted_squares(settings.target, statistics)
        columns = zip(settings.distances, counts.values, strict=True)
        self._values = [Values.most_frequent(d.distance, column) for d, column in columns]
        self._squares = [d.of(v.positions) for d, v in zip(settings.distances, self._values, strict=True)]

    def build(self) -> dict[str, Any]:
        """Return the model. Raises StatisticsError if the target cannot be met."""
        names = self._settings.attributes
        values = {n: pack_values(v.positions, v.counts) for n, v in zip(names, self._values, strict=True)}
        model: dict[str, Any] = {"values": values, "truncated": self._truncated()}
        arrays = bool(array_attributes(self._counts))
        paired = len(names) == 2 and not arrays and self._counts.pairs[0, 1].keys.size > 0
        if self._settings.target.by_distance or paired or len(names) == 1:
            singles = [self._single(j) for j in range(len(names))]
            if paired:
                model["pair"] = self._pair().to_model()
            if len(names) > 2 or arrays:
                model["tree"] = self._tree(singles)
        else:
            singles, model["tree"] = self._measured_tree()
        model["single"] = {n: f.to_model() for n, f in zip(names, singles, strict=True)}
        return model

    def _truncated(self) -> list[str]:
        """Return the attributes whose α requires more noise than the window allows."""
        if self._settings.target.kind != "alpha":
            return []
        laws = [v.counts / v.counts.sum() for v in self._values]
        written = [np.where(v.counts >= self._settings.least, v.counts, 0) for v in self._values]
        greatest = [greatest_noise(*given) for given in zip(laws, written, self._squares, strict=True)]
        exceeded = zip(self._settings.attributes, self._wanted, greatest, strict=True)
        return [name for name, wanted, most in exceeded if wanted > most]

    def _goal(self, *attributes: int) -> Goal:
        means = np.full(2, np.nan)
        means[: len(attributes)] = self._wanted[list(attributes)]
        names = tuple(self._settings.attributes[j] for j in attributes)
        return Goal(names, means, self._settings.target, self._settings.least)

    def _single(self, j: int, extra: Float64Matrix | None = None, start: Scaling | None = None) -> Fit:
        table, counts = single_table(self._values[j])
        squares = (self._squares[j], TRIVIAL)
        return fit(self._goal(j), table, counts, squares, extra=extra, start=start or self._start_of_single(j))

    def _start_of_single(self, j: int) -> Scaling | None:
        if self._previous is None:
            return None
        old = self._previous.fits[j]
        law = self._values[j].counts / self._values[j].counts.sum()
        positions = self._previous.values[j].positions[old.table.rows]
        keys = self._values[j].positions.astype(np.int64)
        return old.start_for(law, keys, positions.astype(np.int64), self._ratios(self._previous, j))

    def _ratios(self, previous: PreparedTransport, *attributes: int) -> Float64Array:
        """Return (2,) float64: the wanted mean squared distances of the previous window, divided by those of this
        one."""
        ratios = np.ones(2)
        if self._settings.target.by_distance:
            ratios[: len(attributes)] = [previous.noise[j] / self._wanted[j] for j in attributes]
        return ratios

    def _pair(self) -> Fit:
        table, counts = pair_table(self._counts.pairs[0, 1], *self._values)
        start = None
        if self._previous is not None and self._previous.pair is not None:
            old = self._previous.pair
            keys = _position_keys(table.rows, table.columns, self._values)
            own = _position_keys(old.table.rows, old.table.columns, self._previous.values)
            start = old.start_for(counts / counts.sum(), keys, own, self._ratios(self._previous, 0, 1))
        return fit(self._goal(0, 1), table, counts, (self._squares[0], self._squares[1]), start=start)

    def _tree(self, singles: list[Fit]) -> dict[str, Any]:
        """Fit the tree, and replace the fits of its roots in ``singles``."""
        edges = [
            self._edge(parent, child, float(singles[child].sharpness[0]))
            for parent, child in spanning_tree(self._statistics, self._counts)
        ]
        roots = roots_of(edges)
        factors = {root: self._component(root, edges, singles) for root in sorted(roots)}
        names = self._settings.attributes
        return {
            "roots": {names[root]: factor for root, factor in factors.items()},
            "edges": [edge.to_model(names) for edge in edges],
        }

    def _measured_tree(self) -> tuple[list[Fit], dict[str, Any]]:
        """Return the fits of all attributes, and the tree, that meet a vulnerability or an ε."""
        names, target = self._settings.attributes, self._settings.target
        edges = [self._edge(parent, child, 1.0) for parent, child in spanning_tree(self._statistics, self._counts)]
        roots = roots_of(edges)
        if target.kind == "epsilon":
            problem = self._tree_problem(range(len(names)), edges)
            factor = meet_epsilon(problem, target, self._first_common_factor(problem, roots))
            singles, fitted = list(problem.fits(factor).values()), problem.edges_at(factor)
        else:
            singles, fitted = [self._single(j) for j in range(len(names))], ()
            for root in sorted(set(range(len(names))) - {edge.child for edge in edges}):
                fitted += self._vulnerable_component(root, component_of(root, edges), singles)
        tree = {"roots": {names[root]: 0.0 for root in sorted(roots)}, "edges": [e.to_model(names) for e in fitted]}
        return singles, tree

    def _vulnerable_component(self, root: int, edges: Sequence[Edge], singles: list[Fit]) -> tuple[Edge, ...]:
        """Fit the tree below a root to a vulnerability: return its edges, and replace its fit."""
        problem = self._tree_problem([root], edges)
        start = min(float(singles[j].sharpness[0] / problem.ratios[j]) for j in (root, *(e.child for e in edges)))
        alone = dict(enumerate(singles))
        previous = {} if self._previous is None else {edge.child: edge.sharpness for edge in self._previous.edges}
        search = VulnerabilitySearch(problem, self._settings.target, lambda j: self._rows_alone(j, alone[j]), previous)
        factor = search.factor(self._first_common_factor(problem, {root}, start))
        singles[root] = problem.fits(factor)[root]
        return search.raised(factor)

    def _rows_alone(self, j: int, single: Fit) -> Float64Matrix:
        """Return (k, k) float64: M(b* | b) of an attribute that is masked alone."""
        solution = single.solution((self._squares[j], TRIVIAL), self._settings.least, self._settings.target.power)
        return channel_rows(joint_of_first(*solution))

    def _tree_problem(self, alone: Iterable[int], edges: Sequence[Edge]) -> TreeProblem:
        problems = {}
        for j in alone:
            table, counts = single_table(self._values[j])
            problems[j] = (problem_of(self._goal(j), table, counts, (self._squares[j], TRIVIAL)), counts)
        ratios = self._wanted.min() / self._wanted
        power, least = self._settings.target.power, self._settings.least
        return TreeProblem(problems, self._squares, ratios, tuple(edges), power, least)

    def _first_common_factor(self, problem: TreeProblem, roots: Iterable[int], otherwise: float | None = None) -> float:
        """Return the common factor of λ in the model in force; without one, ``otherwise`` or a guess for an ε."""
        previous = self._previous
        if previous is not None:
            known = [float(previous.fits[j].sharpness[0] / problem.ratios[j]) for j in roots if j in previous.roots]
            if known:
                return known[0]
        return otherwise or self._settings.target.level / (len(problem.alone) + len(problem.edges))

    def _edge(self, parent: int, child: int, sharpness: float) -> Edge:
        pair = (min(parent, child), max(parent, child))
        table, counts = pair_table(self._counts.pairs[pair], self._values[pair[0]], self._values[pair[1]])
        if parent > child:
            table, counts = flipped(table, counts)
        return Edge(parent, child, table, counts, sharpness)

    def _component(self, root: int, edges: list[Edge], singles: list[Fit]) -> float:
        """Fit the tree below a root: replace its edges and its fit, and return the factor of its extra exponents.

        A root that moves too freely forces its children to move too far; a root that moves too little does not reach
        its own target. The factor is found by bisection. If there is none, children with a given α move farther than
        that. Raises StatisticsError for other targets.
        """
        starts, low, high = list(edges), 0.0, math.inf
        factor, step = self._first_factor(root)
        unit = extra_exponents(root, starts, self._squares, self._settings.target.power, 1.0)
        failures: dict[str, StatisticsError] = {}
        held: tuple[Fit, Float64Matrix | None] | None = None
        start: Scaling | None = None
        for _ in range(MAX_FACTORS):
            extra = None if unit is None else factor * unit
            try:
                single = self._single(root, extra, start)
            except StatisticsError as failure:
                failures["root"], high = failure, factor
            else:
                start = single.as_start()
                try:
                    edges[:] = self._fitted_edges(root, starts, single, extra)
                except StatisticsError as failure:
                    failures["child"], low, held = failure, factor, (single, extra)
                else:
                    singles[root] = single
                    return factor
            if high <= FACTOR_PRECISION * low:
                break
            factor = low * step if high == math.inf else math.sqrt(max(low, high / step**2) * high)
        if self._settings.target.kind != "alpha" or held is None:
            raise failures.get("child") or failures["root"]
        singles[root] = held[0]
        edges[:] = self._fitted_edges(root, starts, *held, raised=True)
        return low

    def _first_factor(self, root: int) -> tuple[float, float]:
        """Return the first factor of a root's extra exponents, and the ratio of the next ones."""
        if self._previous is None or root not in self._previous.roots:
            return FIRST_FACTOR, FACTOR_STEP
        return self._previous.roots[root] or FIRST_FACTOR, NEXT_FACTOR_STEP

    def _fitted_edges(
        self,
        root: int,
        edges: Sequence[Edge],
        single: Fit,
        extra: Float64Matrix | None,
        *,
        raised: bool = False,
    ) -> list[Edge]:
        power, least = self._settings.target.power, self._settings.least
        samples = {root: self._sample(root, single, extra)}
        fitted = []
        for edge in edges:
            if edge.parent not in samples:
                fitted.append(edge)
                continue
            fitted.append(self._fitted_edge(edge, *samples[edge.parent], raised=raised))
            if any(other.parent == edge.child for other in edges):
                laws = fitted[-1].laws(self._squares[edge.child], power, least)
                samples[edge.child] = sample_child(laws, *samples[edge.parent])
        return fitted

    def _fitted_edge(self, edge: Edge, a: Int32Array, new_a: Int32Array, *, raised: bool) -> Edge:
        target = self._settings.target
        wanted = float(self._wanted[edge.child])
        found = fit_child(
            edge,
            self._squares[edge.child],
            target.power,
            self._settings.least,
            a,
            new_a,
            wanted,
            truncated=target.kind == "alpha",
            raised=raised,
        )
        if isinstance(found, str):
            parent, child = (self._settings.attributes[j] for j in (edge.parent, edge.child))
            raise StatisticsError(
                f"target {target.kind} cannot be met: given {parent}, this window allows an RMSE of {child} {found} "
                f"(wanted: {np.sqrt(wanted):.3f})"
            )
        return Edge(edge.parent, edge.child, edge.table, edge.counts, found)

    def _sample(self, root: int, single: Fit, extra: Float64Matrix | None) -> tuple[Int32Array, Int32Array]:
        """Return (n,) int32 each: a sample of a root's values and masks."""
        squares = self._squares[root].astype(np.float32)
        channel = gibbs(squares, float(single.sharpness[0]), self._settings.target.power, extra)
        return sample_joint(single.law, channel, np.where(single.written(self._settings.least), single.phi, 0.0))


def extra_exponents(
    root: int, edges: Sequence[Edge], squares: Sequence[Float64Matrix], power: float, factor: float
) -> Float64Matrix | None:
    """Return (k, k) float64: the additional exponents of a root's kernel; None for none (see ``transport.tree``).

    They use λ of each child alone, so that they do not depend on λ of the edges.
    """
    children = [edge for edge in edges if edge.parent == root]
    if factor == 0.0 or not children:
        return None
    total = np.zeros_like(squares[root])
    for edge in children:
        total += factor * edge.sharpness * energy(edge.table, edge.counts, squares[edge.child] ** (power / 2.0))
    return total


def wanted_squares(target: Target, statistics: Statistics) -> Float64Array:
    """Return (p,) float64: the mean squared distances to meet; for a target of whole records, the ratios of 1 / λ.

    Raises StatisticsError for an attribute with a single value.
    """
    spread = np.diag(statistics.covariance)
    constant = [name for name, s in zip(statistics.attributes, spread, strict=True) if not s > 0.0]
    if constant:
        raise StatisticsError(
            f"{', '.join(constant)}: all values are equal, so nothing could be masked; calibrate on records with "
            "different values"
        )
    return target.mean_squares(statistics) if target.by_distance else np.asarray(spread)


def _position_keys(rows: np.ndarray, columns: np.ndarray, values: Sequence[Values]) -> np.ndarray:
    """Return (m,) int64 ascending: keys of tuples that do not depend on the window."""
    first, second = (v.positions.astype(np.int64) for v in values)
    return np.asarray(first[rows] * len(values[1].index_of) + second[columns])


def read_model(settings: TransportSettings, statistics: Statistics) -> PreparedTransport:
    """Return what masking needs. Raises StatisticsError if the model is invalid."""
    model = statistics.model
    names = settings.attributes
    packed, single = read_model_field(model, "values"), read_model_field(model, "single")
    values = tuple(
        Values.of(d.distance, *read_values(read_model_field(packed, name), len(d.distance.taxonomy)))
        for name, d in zip(names, settings.distances, strict=True)
    )
    fits = tuple(
        Fit.from_model(read_model_field(single, name), (len(v), 1)) for name, v in zip(names, values, strict=True)
    )
    pair = Fit.from_model(model["pair"], (len(values[0]), len(values[1]))) if "pair" in model else None
    roots, edges = _read_tree(model.get("tree"), names, values)
    noise = settings.target.mean_squares(statistics) if settings.target.by_distance else np.zeros(len(values))
    return PreparedTransport(
        values,
        settings.distances,
        fits,
        pair,
        roots,
        edges,
        settings.least,
        settings.target.power,
        pair is not None and not settings.target.by_distance,
        tuple(noise.tolist()),
        _read_truncated(model.get("truncated", []), names),
    )


def _read_truncated(model: object, names: Sequence[str]) -> tuple[bool, ...]:
    if not isinstance(model, list) or not set(map(str, model)) <= set(names):
        raise StatisticsError("the model's truncated attributes are not a list of attributes")
    return tuple(name in model for name in names)


def _read_tree(
    model: object, names: Sequence[str], values: Sequence[Values]
) -> tuple[Mapping[int, float], tuple[Edge, ...]]:
    if model is None:
        return {}, ()
    roots, edges = read_model_field(model, "roots"), read_model_field(model, "edges")
    if not isinstance(roots, Mapping) or not isinstance(edges, list) or not set(roots) <= set(names):
        raise StatisticsError("the model's tree does not have the expected format")
    shapes = {(a, b): (len(values[a]), len(values[b])) for a, b in product(range(len(names)), repeat=2)}
    read = tuple(Edge.from_model(edge, names, shapes) for edge in edges)
    return {names.index(name): float(factor) for name, factor in roots.items()}, read
