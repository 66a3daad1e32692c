"""The model of a window: computed from its counts, and JSON-serialisable for the processes that mask.

It holds for each attribute its values, the levels of its kernel, and the transport of the attribute alone; for two
attributes their transport as pairs; and the edges of a star (``transport.star.edges``) otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np

from stream_masker.core.arrays import located
from stream_masker.core.distance import Distance
from stream_masker.core.dtypes import BoolArray, Float64Array, Float64Matrix, Int64Array
from stream_masker.core.mechanisms.transition.serialization import pack_array, read_model_field, unpack_array
from stream_masker.core.mechanisms.transport.disclosure import epsilon_of_record
from stream_masker.core.mechanisms.transport.fitting import (
    Goal,
    check_written,
    checked,
    counts_to_model,
    fit,
    fit_to_model,
    meet_level,
    published,
    read_counts,
    read_fit,
    solve_for,
)
from stream_masker.core.mechanisms.transport.kernel import Levels, design
from stream_masker.core.mechanisms.transport.limits import Caps, Groups
from stream_masker.core.mechanisms.transport.prepared import ONE_PLACE, TRIVIAL, PreparedTransport
from stream_masker.core.mechanisms.transport.scaling.solver import Problem, Scaling, Start, columns_of
from stream_masker.core.mechanisms.transport.scaling.table import Binding, CountedPairs, Table
from stream_masker.core.mechanisms.transport.star.edges import (
    Edge,
    Star,
    array_attributes,
    flipped,
    masks_of,
    meet_distance,
)
from stream_masker.core.mechanisms.transport.star.figures import EdgeFigures, conditional_epsilon, limited
from stream_masker.core.mechanisms.transport.target import Target, greatest_noise, wanted_squares
from stream_masker.core.mechanisms.transport.values import (
    Values,
    events_of_pairs,
    pair_table,
    single_table,
    square_distances,
)
from stream_masker.core.statistics.counts import Counts, SparseCounts
from stream_masker.core.statistics.summary import Statistics
from stream_masker.errors import StatisticsError

ROUNDING = 1e-6
"""By how much a posterior may exceed its limit for fitting, which is lower than that of the target."""
MAX_CONCEPTS = 1 << 31
"""The number of int32 positions."""
Each = TypeVar("Each")

SAME_COUNT = 0.5
"""The greatest relative difference between the counts of a value that is about as frequent as before."""
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

    def limits(self, j: int, values: Values, edge: Edge | None = None, *, fitting: bool) -> Caps:
        """Return the limits of the values of an attribute; ``edge``: that to it, if it is masked given its root."""
        groups = {name: (members[values.positions], limit) for name, (members, limit) in self.groups[j].items()}
        laws = values.laws if edge is None else edge.priors(values)
        return Caps.of(laws, self.target.certainty, groups, fitting=fitting)


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
        columns = enumerate(zip(settings.distances, counts.values, strict=True))
        self._values = [Values.most_frequent(*each, counts.events.get((j,))) for j, each in columns]
        self._squares = [square_distances(v.distance, v.positions) for v in self._values]
        self._laws = [v.counts / v.counts.sum() for v in self._values]
        self._given = wanted_squares(settings.target, statistics)
        written = [np.where(v.units >= settings.least, v.counts, 0.0) for v in self._values]
        self._most = [greatest_noise(*each) for each in zip(self._laws, written, self._squares, strict=True)]
        self._wanted = np.minimum(self._given, self._most) if settings.target.kind == "alpha" else self._given

    def build(self) -> dict[str, Any]:
        """Return the model. Raises StatisticsError if the target cannot be met."""
        names = self._settings.attributes
        exceeded = [name for name, more in zip(names, self._given > self._most, strict=True) if more]
        model: dict[str, Any] = {
            "values": {
                n: {
                    **counts_to_model("positions", v.positions, v.counts),
                    **({} if v.events is None else {"events": pack_array(v.events)}),
                }
                for n, v in zip(names, self._values, strict=True)
            },
            "truncated": exceeded if self._target.kind == "alpha" else [],
        }
        for name, values in zip(names, self._values, strict=True):
            check_written(name, values.units >= self._settings.least)
        singles = [self._single(j) for j in range(len(names))]
        arrays = array_attributes(self._counts)
        if len(names) == 2 and not arrays and self._counts.pairs[0, 1].keys.size:
            model["pair"] = fit_to_model(self._pair(singles))
        elif len(names) > 1:
            star = Star.of(self._statistics, self._counts)
            if star.children:
                edges = self._star(star, singles)
                model["star"] = {"root": names[star.root], "edges": [edge.to_model(names) for edge in edges]}
        model["single"] = {n: fit_to_model(each) for n, each in zip(names, singles, strict=True)}
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
            levels = self._previous.fits[j].problem.levels[0]
            place, known = located(self._previous.values[j].positions, self._values[j].positions)
            before = replace(levels, rows=np.where(known, levels.rows[place], np.log(self._laws[j])))
        return design(self._laws[j], self._squares[j], float(self._wanted[j]), before)

    def _goal(self, js: tuple[int, ...], table: Table, counts: Int64Array, written: BoolArray) -> Goal:
        """Return the goal of one attribute, or of two; ``table``, ``counts``, ``written``: see ``Problem``."""
        names = tuple(self._settings.attributes[j] for j in js)
        squares, levels = [self._squares[j] for j in js], [self._levels[j] for j in js]
        limits, fitting = (
            [self._settings.limits(j, self._values[j], fitting=lower) for j in js] for lower in (False, True)
        )
        problem = Problem(
            table,
            counts,
            written,
            two(squares, TRIVIAL),
            two(levels, Levels.flat(1, 1.0)),
            two(limits, Caps.none(1)),
            two(fitting, Caps.none(1)),
        )
        return Goal(names, self._wanted[list(js)], self._target, problem)

    def _single_goal(self, j: int, allowed: BoolArray | None = None) -> Goal:
        """Return the goal of an attribute that is masked alone; ``allowed``: (k,) which values may be written."""
        values = self._values[j]
        written = values.units >= self._settings.least
        return self._goal((j,), single_table(values), values.counts, written if allowed is None else written & allowed)

    def _single(self, j: int, allowed: BoolArray | None = None) -> Scaling:
        before = None if self._previous is None else self._previous.fits[j]
        goal = self._single_goal(j, allowed)
        return self._fitted((j,), goal, before, None)

    def _pair(self, singles: Sequence[Scaling]) -> Scaling:
        """Fit the pair, from the solution in force, or with the exponents of both attributes."""
        table, counts, units = pair_table(self._counts.pairs[0, 1], *self._values)
        goal = self._goal((0, 1), table, counts, units >= self._settings.least)
        known = None if self._previous is None else self._previous.pair
        none = Binding.none(counts.size)
        exponents = np.array([each.exponents[0] for each in singles])
        return self._fitted((0, 1), goal, known, (exponents, (goal.problem.target, (none, none))))

    def _fitted(
        self, js: tuple[int, ...], goal: Goal, before: Scaling | None, start: tuple[Float64Array, Start] | None
    ) -> Scaling:
        """Fit a goal from the solution in force for the same attributes; without one, from the given start."""
        target = goal.problem.target
        if before is None or self._previous is None:
            return fit(goal, start)
        now, then = ([v[j].positions for j in js] + [ONE_PLACE] for v in (self._values, self._previous.values))
        places = [located(new, old) for new, old in zip(now, then, strict=True)]
        first, second = (np.where(held, place, -1) for place, held in places[:2])
        old, new = before.problem.table, goal.problem.table
        keys, own = (
            a[t.rows].astype(np.int64) * MAX_CONCEPTS + b[t.columns] for (a, b, *_), t in ((now, new), (then, old))
        )
        place, held = located(own, keys)
        known, ratio = held & (before.psi[place] > 0.0) & (target > 0.0), np.ones(target.size)
        if known.any():
            ratio[known] = before.psi[place[known]] / before.problem.target[place[known]]
            ratio[~known] = math.exp(np.average(np.log(ratio[known]), weights=target[known]))
        factors = [b.carried(place, known, v) for b, v in zip(before.binding, (first, second), strict=True)]
        return fit(goal, (before.exponents, (ratio * target, (factors[0], factors[1]))))

    def _star(self, star: Star, singles: list[Scaling]) -> list[Edge]:
        """Return the edges to the children, and replace the fits of attributes that are masked alone."""
        edges = [self._edge(star.root, child) for child in star.children]
        if not self._target.by_distance:
            return self._measured_star(star.root, edges, singles)
        allowed = np.ones(len(self._values[star.root]), np.bool_)
        if self._target.limited:
            allowed = np.logical_and.reduce([edge.partnered for edge in edges]) & ~self._left_out(star.root)
        root = singles[star.root]
        check_written(self._settings.attributes[star.root], root.problem.written & allowed)
        for _ in range(MAX_REFITS):
            if not (allowed | ~root.problem.written).all():
                root = self._single(star.root, allowed)
            law = joint_of(root)
            fitted = [self._moved(edge, law) for edge in edges]
            edges = [edge for edge, _ in fitted]
            failing = [edge for edge, figures in fitted if figures.fails.any()]
            if not failing:
                for edge, figures in fitted:
                    if figures.child.excess.max() > ROUNDING:
                        raise StatisticsError(self._too_certain(Star(edge.root, (edge.child,))))
                singles[star.root] = root
                return edges
            allowed &= ~np.logical_or.reduce([edge.strained for edge in failing])
            if np.count_nonzero(root.problem.written & allowed) < 2:
                raise StatisticsError(self._too_certain(Star(star.root, tuple(edge.child for edge in failing))))
        raise StatisticsError(self._too_certain(star))

    def _left_out(self, root: int) -> BoolArray:
        """Return (k,) bool: the values of the root that the model in force does not write, and are about as frequent
        there. They would most likely fail again, which costs a fit to find out."""
        values = self._values[root]
        if self._previous is None:
            return np.zeros(len(values), np.bool_)
        before = self._previous.values[root]
        place, known = located(before.positions, values.positions)
        counts, written = before.counts[place], self._previous.fits[root].problem.written[place]
        return np.asarray(known & ~written & (np.abs(values.counts - counts) <= SAME_COUNT * counts))

    def _moved(self, edge: Edge, law: Float64Matrix) -> tuple[Edge, EdgeFigures]:
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
        of_child = self._settings.limits(edge.child, self._values[edge.child], edge, fitting=True)
        limits = (of_child, self._settings.limits(edge.root, self._values[edge.root], fitting=True))
        return limited(edge, self._squares[edge.child], law, limits, solve=self._target.limited)

    def _too_certain(self, star: Star) -> str:
        names = ", ".join(self._settings.attributes[child] for child in star.children)
        return (
            f"{names}: the limits of the target cannot be met given the mask of "
            f"{self._settings.attributes[star.root]}: use a greater alpha, or greater limits"
        )

    def _measured_star(self, root: int, edges: Sequence[Edge], singles: list[Scaling]) -> list[Edge]:
        """Return a star that meets a vulnerability or an ε: λ of all attributes have one common factor.

        For an ε, the children that are masked alone have this factor, too.
        """
        of_epsilon = self._target.kind == "epsilon"
        goals = {j: self._single_goal(j) for j in (root, *(edge.child for edge in edges if of_epsilon))}

        def measure(factor: float, _: StarState | None) -> tuple[float, StarState]:
            alone = {j: solve_for(goal, factor) for j, goal in goals.items()}
            law = joint_of(published(alone[root]))
            moved = [replace(e, sharpness=factor / float(self._wanted[e.child])) for e in edges]
            fitted = [self._limited(edge, law) for edge in moved]
            state = StarState(alone, [edge for edge, _ in fitted])
            if not all(each.met for each in alone.values()) or any(figures.fails.any() for _, figures in fitted):
                return np.inf, state
            if of_epsilon:
                return self._epsilon(root, state), state
            return max(float(law.max(axis=0).sum()), *(each.child.vulnerability for _, each in fitted)), state

        state = meet_level(self._target, measure)
        for j, alone in state.alone.items():
            singles[j] = checked(goals[j], alone)
        return state.edges

    def _epsilon(self, root: int, state: StarState) -> float:
        """Return the ε of records with one value of each attribute, of any of which others may be absent."""
        alone = {j: epsilon_of_record(published(solved)) for j, solved in state.alone.items()}
        given = (max(alone[e.child], conditional_epsilon(e.laws(self._squares[e.child]))) for e in state.edges)
        return alone[root] + sum(given)

    def _edge(self, root: int, child: int) -> Edge:
        pair = (min(root, child), max(root, child))

        def tabled(column: SparseCounts) -> tuple[CountedPairs, Int64Array]:
            table, counts, units = pair_table(column, self._values[pair[0]], self._values[pair[1]])
            if root > child:
                table, counts, units = flipped(table, counts, units)
            return CountedPairs(table, counts), units

        (pairs, units), counted = tabled(self._counts.pairs[pair]), self._counts.events.get(pair)
        before = {} if self._previous is None else {edge.child: edge.sharpness for edge in self._previous.edges}
        sharpness = before.get(child, 1.0 / float(self._wanted[child]))
        values = (self._values[root], self._values[child])
        masks = masks_of(pairs, units, values, self._settings.least, self._settings.seed)
        events = events_of_pairs(pairs, values[0], None if counted is None else tabled(counted)[0])
        return Edge(root, child, pairs, masks, sharpness, np.zeros(masks.counts.size, np.float32), events)


class StarState(NamedTuple):
    """A star for one factor of λ: the attributes that are masked alone, and the edges."""

    alone: dict[int, Scaling]
    edges: list[Edge]


def two(each: Sequence[Each], other: Each) -> tuple[Each, Each]:
    """Return what two attributes have; ``other``: what one has that is not there."""
    return each[0], each[1] if len(each) > 1 else other


def joint_of(alone: Scaling) -> Float64Matrix:
    """Return (k, k) float64: P(a, a*) of an attribute that is masked alone."""
    return columns_of(alone, first=True, joint=True).joint


def read_transport(settings: TransportSettings, model: object, spread: Float64Array) -> PreparedTransport:
    """Return the transport of a model; ``spread``: (p,) sdVar. Raises StatisticsError if the model is invalid."""
    if not isinstance(model, Mapping) or spread.shape != (len(settings.attributes),):
        raise StatisticsError("the model is not that of the mechanism's attributes")
    names = settings.attributes
    packed, single = read_model_field(model, "values"), read_model_field(model, "single")
    values = tuple(_read_values(read_model_field(packed, n), d) for n, d in zip(names, settings.distances, strict=True))
    squares = tuple(square_distances(v.distance, v.positions) for v in values)
    limits = tuple(settings.limits(j, v, fitting=False) for j, v in enumerate(values))
    fits = tuple(
        read_fit(read_model_field(single, name), (own, TRIVIAL), (caps, Caps.none(1)))
        for name, own, caps in zip(names, squares, limits, strict=True)
    )
    both = "pair" in model and len(names) == 2
    pair = read_fit(model["pair"], (squares[0], squares[1]), (limits[0], limits[1])) if both else None
    noise = settings.target.mean_squares(spread) if settings.target.by_distance else np.zeros(len(values))
    edges = _read_edges(model.get("star"), names, [len(v) for v in values])
    of_edges = tuple(settings.limits(edge.child, values[edge.child], edge, fitting=False) for edge in edges)
    truncated = _read_truncated(model.get("truncated", []), names)
    return PreparedTransport(values, squares, fits, pair, edges, of_edges, tuple(noise.tolist()), truncated)


def _read_values(model: object, distance: Distance) -> Values:
    positions, counts = read_counts(model, "positions", np.int32, len(distance.taxonomy))
    values = Values.of(distance, positions, counts)
    if not isinstance(model, Mapping) or "events" not in model:
        return values
    events = unpack_array(model["events"], np.int64, counts.size)
    if events.min() < 0 or not events.any():
        raise StatisticsError("the events of the model's values are not numbers from 0, or there are none")
    return replace(values, events=events)


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
