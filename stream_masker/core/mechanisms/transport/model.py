"""The model of a window: computed from its counts, and JSON-serialisable for the processes that mask.

It holds for each attribute its values, the levels of its kernel, and the transport of the attribute alone; for two
attributes their transport as pairs; and the edges of a star (``transport.star.edges``) otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from stream_masker.core.arrays import located
from stream_masker.core.distance import Distance
from stream_masker.core.dtypes import BoolArray, Float64Array, Float64Matrix, Int64Array
from stream_masker.core.kernels.elementary import logarithms
from stream_masker.core.mechanisms.transition.serialization import read_model_field
from stream_masker.core.mechanisms.transport.disclosure import epsilon_of_record
from stream_masker.core.mechanisms.transport.fitting import (
    Fit,
    Goal,
    check_written,
    checked,
    counts_to_model,
    fit,
    meet_level,
    read_counts,
)
from stream_masker.core.mechanisms.transport.kernel import Levels, design
from stream_masker.core.mechanisms.transport.limits import Caps, Groups
from stream_masker.core.mechanisms.transport.prepared import ONE_PLACE, TRIVIAL, PreparedTransport
from stream_masker.core.mechanisms.transport.scaling.search import (
    Solved,
    solve,
)
from stream_masker.core.mechanisms.transport.scaling.solver import Problem, Scaling, Start, columns_of
from stream_masker.core.mechanisms.transport.scaling.table import CountedPairs, Table
from stream_masker.core.mechanisms.transport.star.edges import Edge, Star, array_attributes, flipped, meet_distance
from stream_masker.core.mechanisms.transport.star.figures import EdgeFigures, conditional_epsilon, limited
from stream_masker.core.mechanisms.transport.star.rare import masks_of
from stream_masker.core.mechanisms.transport.target import Target
from stream_masker.core.mechanisms.transport.values import Values, pair_table, single_table, square_distances
from stream_masker.core.statistics.counts import Counts
from stream_masker.core.statistics.summary import Statistics
from stream_masker.errors import StatisticsError

ROUNDING = 1e-6
"""By how much a posterior may exceed its limit for fitting, which is lower than that of the target."""
MAX_CONCEPTS = 1 << 31
"""The number of int32 positions."""
MAX_NOISE = 0.995
"""The greatest noise of a given α, as a share of the mean squared distances of independent records.

α·sdVar can exceed what the window's values allow; as for semantic noise, the noise is then truncated.
"""
MAX_REFITS = 12
"""How often the root of a star is fitted, each time without the masks that would tell too much of a child."""


@dataclass(frozen=True, slots=True)
class TransportSettings:
    """The parameters that a model depends on; ``groups``: the sensitive groups of each attribute's concepts;
    ``seed``: secret, of the exchange of rare pairs."""

    attributes: tuple[str, ...]
    distances: tuple[Distance, ...]
    target: Target
    groups: tuple[Groups, ...]
    least: int
    seed: bytes

    def limits(self, j: int, positions: np.ndarray[Any, Any], counts: Int64Array, *, fitting: bool) -> Caps:
        """Return the limits of the values of an attribute; ``positions``, ``counts``: (k,) of its values."""
        groups = {name: (members[positions], limit) for name, (members, limit) in self.groups[j].items()}
        return Caps.of(counts / counts.sum(), self.target.certainty, groups, fitting=fitting)


class ModelBuilder:
    """Computes the model of one window."""

    def __init__(
        self, settings: TransportSettings, counts: Counts, statistics: Statistics, previous: PreparedTransport | None
    ) -> None:
        """``previous``: the model in force, whose solution is the start. Raises StatisticsError."""
        self._settings = settings
        self._target = settings.target
        self._counts = counts
        self._statistics = statistics
        self._previous = previous
        columns = zip(settings.distances, counts.values, strict=True)
        self._values = [Values.most_frequent(d, column) for d, column in columns]
        self._squares = [square_distances(v.distance, v.positions) for v in self._values]
        self._laws = [v.counts / v.counts.sum() for v in self._values]
        self._given = wanted_squares(settings.target, statistics)
        written = [np.where(v.units >= settings.least, v.counts, 0) for v in self._values]
        self._most = [greatest_noise(*each) for each in zip(self._laws, written, self._squares, strict=True)]
        self._wanted = np.minimum(self._given, self._most) if settings.target.kind == "alpha" else self._given

    def build(self) -> dict[str, Any]:
        """Return the model. Raises StatisticsError if the target cannot be met."""
        names = self._settings.attributes
        exceeded = [name for name, more in zip(names, self._given > self._most, strict=True) if more]
        model: dict[str, Any] = {
            "values": {
                n: counts_to_model("positions", v.positions, v.counts) for n, v in zip(names, self._values, strict=True)
            },
            "truncated": exceeded if self._target.kind == "alpha" else [],
        }
        for name, values in zip(names, self._values, strict=True):
            check_written(name, values.units >= self._settings.least)
        singles = [self._single(j) for j in range(len(names))]
        arrays = array_attributes(self._counts)
        if len(names) == 2 and not arrays and self._counts.pairs[0, 1].keys.size:
            model["pair"] = self._pair().to_model()
        elif len(names) > 1:
            star = Star.of(self._statistics, self._counts)
            if star.children:
                edges = self._star(star, singles)
                model["star"] = {"root": names[star.root], "edges": [edge.to_model(names) for edge in edges]}
        model["single"] = {n: each.to_model() for n, each in zip(names, singles, strict=True)}
        return model

    @cached_property
    def _levels(self) -> list[Levels]:
        """The levels of each attribute's kernel; for an ε the kernel is exp(−λ·sd²), whose ε is less."""
        if self._target.kind == "epsilon":
            pairs = zip(self._wanted, self._values, strict=True)
            return [Levels.flat(len(v), float(self._wanted.min() / wanted)) for wanted, v in pairs]
        return [self._designed(j) for j in range(len(self._values))]

    def _designed(self, j: int) -> Levels:
        before = None
        if self._previous is not None:
            levels = self._previous.fits[j].levels[0]
            place, known = located(self._previous.values[j].positions, self._values[j].positions)
            before = replace(levels, rows=np.where(known, levels.rows[place], logarithms(self._laws[j])))
        return design(self._laws[j], self._squares[j], float(self._wanted[j]), before)

    def _limits(self, j: int, *, fitting: bool) -> Caps:
        return self._settings.limits(j, self._values[j].positions, self._values[j].counts, fitting=fitting)

    def _goal(self, js: tuple[int, ...], table: Table, counts: Int64Array, written: BoolArray) -> Goal:
        """Return the goal of one attribute, or of two; ``table``, ``counts``, ``written``: see ``Goal``."""
        lone = len(js) == 1
        exact, lower = (
            [self._limits(j, fitting=fitting) for j in js] + [Caps.none(1)] * lone for fitting in (False, True)
        )
        squares = [self._squares[j] for j in js] + [TRIVIAL] * lone
        levels = [self._levels[j] for j in js] + [Levels.flat(1, 1.0)] * lone
        return Goal(
            tuple(self._settings.attributes[j] for j in js),
            self._wanted[list(js)],
            self._target,
            (exact[0], exact[1]),
            (lower[0], lower[1]),
            table,
            counts,
            written,
            (squares[0], squares[1]),
            (levels[0], levels[1]),
        )

    def _single_goal(self, j: int, allowed: BoolArray | None = None) -> Goal:
        """Return the goal of an attribute that is masked alone; ``allowed``: (k,) which values may be written."""
        values = self._values[j]
        written = values.units >= self._settings.least
        return self._goal((j,), single_table(values), values.counts, written if allowed is None else written & allowed)

    def _single(self, j: int, allowed: BoolArray | None = None) -> Fit:
        goal = self._single_goal(j, allowed)
        return fit(goal, None if self._previous is None else self._start(goal, self._previous.fits[j], (j,)))

    def _pair(self) -> Fit:
        table, counts, units = pair_table(self._counts.pairs[0, 1], *self._values)
        goal = self._goal((0, 1), table, counts, units >= self._settings.least)
        before = None if self._previous is None else self._previous.pair
        return fit(goal, None if before is None else self._start(goal, before, (0, 1)))

    def _start(self, goal: Goal, before: Fit, js: tuple[int, ...]) -> tuple[Float64Array, Start]:
        """Return the exponents and the solution of the model in force, for the window's tuples."""
        assert self._previous is not None
        now, then = ([v[j].positions for j in js] + [ONE_PLACE] for v in (self._values, self._previous.values))
        keys, own = (
            first[table.rows].astype(np.int64) * MAX_CONCEPTS + second[table.columns]
            for (first, second, *_), table in ((now, goal.table), (then, before.table))
        )
        places = [located(new, old) for new, old in zip(now, then, strict=True)]
        first, second = (np.where(held, place, -1) for place, held in places[:2])
        return before.exponents, before.start_for(goal.problem.target, keys, own, (first, second))

    def _star(self, star: Star, singles: list[Fit]) -> list[Edge]:
        """Return the edges to the children, and replace the fits of attributes that are masked alone."""
        edges = [self._edge(star.root, child) for child in star.children]
        if not self._target.by_distance:
            return self._measured_star(star.root, edges, singles)
        allowed = np.ones(len(self._values[star.root]), np.bool_)
        if self._target.limited:
            allowed = np.logical_and.reduce([edge.partnered for edge in edges])
        root = singles[star.root]
        for _ in range(MAX_REFITS):
            if not (allowed | ~root.written).all():
                check_written(self._settings.attributes[star.root], root.written & allowed)
                root = self._single(star.root, allowed)
            law = self._joint(star.root, root)
            fitted = [self._fitted(edge, law) for edge in edges]
            fails = np.logical_or.reduce([figures.fails for _, figures in fitted])
            if not fails.any():
                for edge, figures in fitted:
                    if figures.excess > ROUNDING:
                        raise StatisticsError(self._too_certain(Star(edge.root, (edge.child,))))
                singles[star.root] = root
                return [edge for edge, _ in fitted]
            allowed &= ~fails
        raise StatisticsError(self._too_certain(star))

    def _fitted(self, edge: Edge, law: Float64Matrix) -> tuple[Edge, EdgeFigures]:
        """Return an edge that meets its distance and its limits, and what it tells."""
        squares, wanted = self._squares[edge.child], float(self._wanted[edge.child])
        sharpness = meet_distance(edge, squares, law, wanted, truncated=self._target.kind == "alpha")
        if isinstance(sharpness, str):
            name = self._settings.attributes[edge.child]
            raise StatisticsError(
                f"target {self._target.kind} cannot be met: {name} follows the mask of "
                f"{self._settings.attributes[edge.root]}, which allows an RMSE {sharpness} (wanted: {wanted**0.5:.3f})"
            )
        return self._limited(replace(edge, sharpness=sharpness), law)

    def _limited(self, edge: Edge, law: Float64Matrix) -> tuple[Edge, EdgeFigures]:
        limits = self._limits(edge.child, fitting=True)
        return limited(edge, self._squares[edge.child], law, limits, solve=self._target.limited)

    def _too_certain(self, star: Star) -> str:
        names = ", ".join(self._settings.attributes[child] for child in star.children)
        return (
            f"{names}: the limits of the target cannot be met given the mask of "
            f"{self._settings.attributes[star.root]}: use a greater alpha, or greater limits"
        )

    def _joint(self, j: int, single: Fit) -> Float64Matrix:
        """Return (k, k) float64: P(a, a*) of an attribute that is masked alone."""
        return columns_of(*self._alone(j, single), self._squares[j], joint=True).joint

    def _alone(self, j: int, single: Fit) -> tuple[Problem, Scaling]:
        """Return the transport of an attribute alone, without limits."""
        squares = self._squares[j]
        return single.solution((squares, TRIVIAL), (Caps.none(len(squares)), Caps.none(1)))

    def _measured_star(self, root: int, edges: Sequence[Edge], singles: list[Fit]) -> list[Edge]:
        """Return a star that meets a vulnerability or an ε: λ of all attributes have one common factor.

        For an ε, the children that are masked alone have this factor, too.
        """
        goals = {j: self._single_goal(j) for j in (root, *(edge.child for edge in edges))}
        of_epsilon = self._target.kind == "epsilon"

        def solved_alone(j: int, factor: float) -> tuple[Goal, Solved]:
            goal, exponent = (goals[j], factor) if of_epsilon else (goals[j].sharpened(factor), 1.0)
            return goal, solve(goal.problem, goal.squares, np.full(2, exponent), None)

        def measure(factor: float, _: StarState | None) -> tuple[float, StarState]:
            alone = {j: solved_alone(j, factor) for j in (goals if of_epsilon else (root,))}
            fits = {j: Fit.of(g.problem, g.counts, g.levels, s.scaling) for j, (g, s) in alone.items()}
            law = self._joint(root, fits[root])
            moved = [replace(e, sharpness=factor / float(self._wanted[e.child])) for e in edges]
            fitted = [self._limited(edge, law) for edge in moved]
            state = StarState(alone, fits, [edge for edge, _ in fitted])
            if not all(s.met for _, s in alone.values()) or any(figures.fails.any() for _, figures in fitted):
                return np.inf, state
            if of_epsilon:
                return self._epsilon(root, state), state
            return max(float(law.max(axis=0).sum()), *(each.child for _, each in fitted)), state

        state = meet_level(self._target, measure)
        for j, alone in state.alone.items():
            singles[j] = checked(*alone)
        return state.edges

    def _epsilon(self, root: int, state: StarState) -> float:
        """Return the ε of records with one value of each attribute, of any of which others may be absent."""
        alone = {j: epsilon_of_record(*self._alone(j, single)) for j, single in state.fits.items()}
        given = (max(alone[e.child], conditional_epsilon(e.laws(self._squares[e.child]))) for e in state.edges)
        return alone[root] + sum(given)

    def _edge(self, root: int, child: int) -> Edge:
        pair = (min(root, child), max(root, child))
        table, counts, units = pair_table(self._counts.pairs[pair], self._values[pair[0]], self._values[pair[1]])
        if root > child:
            table, counts, units = flipped(table, counts, units)
        before = {} if self._previous is None else {edge.child: edge.sharpness for edge in self._previous.edges}
        sharpness = before.get(child, 1.0 / float(self._wanted[child]))
        pairs, values = CountedPairs(table, counts), (self._values[root], self._values[child])
        masks = masks_of(pairs, units, values, self._settings.least, self._settings.seed)
        return Edge(root, child, pairs, masks, sharpness, np.zeros(masks.counts.size, np.float32))


@dataclass(frozen=True, slots=True, eq=False)
class StarState:
    """A star for one factor of λ: goals, solutions and fits of attributes that are masked alone, and the edges."""

    alone: dict[int, tuple[Goal, Solved]]
    fits: dict[int, Fit]
    edges: list[Edge]


def greatest_noise(law: Float64Array, written: Float64Array, squares: Float64Matrix) -> float:
    """Return the mean squared distance of independent values, times ``MAX_NOISE``; 0 without masks.

    * ``law``, ``written``: (k,) the law of values, and that of masks, up to a factor. ``squares``: (k, k) sd².
    """
    masks = written.sum()
    return MAX_NOISE * float(law @ squares @ written / masks) if masks > 0.0 else 0.0


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
    return target.mean_squares(spread) if target.by_distance else np.asarray(spread)


def read_transport(settings: TransportSettings, model: object, spread: Float64Array) -> PreparedTransport:
    """Return the transport of a model; ``spread``: (p,) sdVar. Raises StatisticsError if the model is invalid."""
    if not isinstance(model, Mapping) or spread.shape != (len(settings.attributes),):
        raise StatisticsError("the model is not that of the mechanism's attributes")
    names = settings.attributes
    packed, single = read_model_field(model, "values"), read_model_field(model, "single")
    values = tuple(
        Values.of(d, *read_counts(read_model_field(packed, name), "positions", np.int32, len(d.taxonomy)))
        for name, d in zip(names, settings.distances, strict=True)
    )
    sizes = [len(v) for v in values]
    fits = tuple(
        Fit.from_model(read_model_field(single, name), (size, 1)) for name, size in zip(names, sizes, strict=True)
    )
    pair = Fit.from_model(model["pair"], (sizes[0], sizes[1])) if "pair" in model else None
    noise = settings.target.mean_squares(spread) if settings.target.by_distance else np.zeros(len(values))
    limits = tuple(
        settings.limits(j, v.positions, fit.counts, fitting=False)
        for j, (v, fit) in enumerate(zip(values, fits, strict=True))
    )
    return PreparedTransport(
        values,
        settings.distances,
        fits,
        pair,
        _read_edges(model.get("star"), names, sizes),
        limits,
        tuple(noise.tolist()),
        _read_truncated(model.get("truncated", []), names),
    )


def _read_truncated(model: object, names: Sequence[str]) -> tuple[bool, ...]:
    if not isinstance(model, list) or not set(map(str, model)) <= set(names):
        raise StatisticsError("the model's truncated attributes are not a list of attributes")
    return tuple(name in model for name in names)


def _read_edges(model: object, names: Sequence[str], sizes: Sequence[int]) -> tuple[Edge, ...]:
    if model is None:
        return ()
    root, edges = read_model_field(model, "root"), read_model_field(model, "edges")
    if not isinstance(model, Mapping) or root not in names or not isinstance(edges, list):
        raise StatisticsError("the model's star has another attribute, or no edges")
    read = tuple(Edge.from_model(edge, names, names.index(str(root)), sizes) for edge in edges)
    if len({edge.child for edge in read}) < len(read):
        raise StatisticsError("an attribute of the model has two places in its star")
    return read
