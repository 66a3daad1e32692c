"""The model of a window: computed from its counts, and JSON-serialisable for the processes that mask.

It holds for each attribute its values and the transport of the attribute alone; for two attributes their transport as
pairs; and the fields of scalars and the edges to arrays if there are arrays or more than two attributes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from stream_masker.core.dtypes import Float64Array, Float64Matrix
from stream_masker.core.mechanisms.transport.disclosure import channel_rows, joint_of_first
from stream_masker.core.mechanisms.transport.field.fitting import FieldStart, check_written, meet_distance
from stream_masker.core.mechanisms.transport.field.links import Field, Links, start_for
from stream_masker.core.mechanisms.transport.field.records import TreeRecords
from stream_masker.core.mechanisms.transport.field.solver import FieldProblem, field_of, joints_of
from stream_masker.core.mechanisms.transport.fit import Fit, pack_values
from stream_masker.core.mechanisms.transport.fitting import Goal, fit, greatest_noise, problem_of
from stream_masker.core.mechanisms.transport.prepared import PreparedTransport
from stream_masker.core.mechanisms.transport.short.events import NO_LENGTHS, ShortEvents, rows_by_elements
from stream_masker.core.mechanisms.transport.short.fitting import ShortProblem, starts_from
from stream_masker.core.mechanisms.transport.solver import Scaling
from stream_masker.core.mechanisms.transport.target import Target
from stream_masker.core.mechanisms.transport.tree.cores import Core, FieldCore, SingleCore
from stream_masker.core.mechanisms.transport.tree.groups import (
    FACTOR_STEP,
    FIRST_FACTOR,
    NEXT_FACTOR_STEP,
    CoreFit,
    FitCore,
    Group,
    GroupProblem,
)
from stream_masker.core.mechanisms.transport.tree.structure import Edge, Tree, array_attributes, flipped
from stream_masker.core.mechanisms.transport.tree.targets import Component, VulnerabilitySearch, meet_epsilon
from stream_masker.core.mechanisms.transport.values import SquareDistances, Values, pair_table, single_table
from stream_masker.core.statistics.counts import Counts
from stream_masker.core.statistics.summary import Statistics
from stream_masker.errors import StatisticsError

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
        if paired:
            singles = [self._single(j) for j in range(2)]
            model["pair"] = self._pair().to_model()
        elif len(names) == 1:
            singles = [self._single(0)]
        else:
            singles, model["tree"] = self._tree() if self._settings.target.by_distance else self._measured_tree()
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

    def _groups(self) -> list[Group]:
        """Return the scalars that are masked together, with their arrays, and the attributes without neighbours."""
        tree = Tree.of(self._statistics, self._counts)
        fields = [Links.of(links, self._counts, self._values) for links in tree.fields]
        taken = {j for links in fields for j in links.attributes} | {array for _, array in tree.arrays}
        lone = [j for j in range(len(self._values)) if j not in taken]
        cores = [*((links.attributes, links) for links in fields), *(((j,), None) for j in lone)]
        return [Group(core, links, tuple(e for e in tree.arrays if e[0] in core)) for core, links in cores]

    def _tree(self) -> tuple[list[Fit], dict[str, Any]]:
        """Return the fits of all attributes, and the tree, that meet mean squared distances."""
        singles = [self._single(j) for j in range(len(self._settings.attributes))]
        factors: dict[int, float] = {}
        edges: list[Edge] = []
        fields: list[Field] = []
        short: list[ShortEvents] = []
        for group in self._groups():
            if group.links is None and not group.arrays:
                continue
            short += self._short_events(group, singles)
            fitted = self._group_problem(group, singles).fit(self._core_fitter(group))
            edges += fitted.edges
            factors |= dict.fromkeys((edge.parent for edge in fitted.edges), fitted.factor)
            if fitted.core.field is not None:
                fields.append(fitted.core.field)
            if fitted.core.single is not None:
                singles[group.core[0]] = fitted.core.single
        return singles, self._tree_model(factors, edges, fields, short)

    def _group_problem(self, group: Group, singles: Sequence[Fit]) -> GroupProblem:
        target, least = self._settings.target, self._settings.least
        edges = tuple(self._edge(*link, float(singles[link[1]].sharpness[0])) for link in group.arrays)
        known = {} if self._previous is None else self._previous.roots
        factors = [known[j] for j in group.core if known.get(j)]
        first = (factors[0], NEXT_FACTOR_STEP) if factors else (FIRST_FACTOR, FACTOR_STEP)
        return GroupProblem(
            self._settings.attributes,
            self._squares,
            self._wanted,
            target,
            least,
            edges,
            first,
            lambda j: self._rows_alone(j, singles[j]),
        )

    def _short_events(self, group: Group, singles: Sequence[Fit]) -> list[ShortEvents]:
        """Return how events with few elements are masked: of a scalar without others that has one array."""
        if group.links is not None or len(group.arrays) != 1:
            return []
        ((parent, child),) = group.arrays
        rows = rows_by_elements(self._counts.lengths.get(child, NO_LENGTHS))
        if not rows[1:].any():
            return []
        edge, previous, ratios = self._edge(parent, child, 1.0), None, np.ones(2)
        before: Sequence[Values] = self._values
        if self._previous is not None:
            before = self._previous.values
            ratios = np.array([self._ratios(self._previous, j)[0] for j in (parent, child)])
            previous = next((s for s in self._previous.short if (s.parent, s.child) == (parent, child)), None)
        problem = ShortProblem(
            edge,
            (self._settings.attributes[parent], self._settings.attributes[child]),
            self._values,
            (self._squares[parent].astype(np.float32), self._squares[child].astype(np.float32)),
            self._settings.target,
            self._wanted[[parent, child]],
            self._settings.least,
        )
        fields = problem.fields(rows, starts_from(previous, edge, self._values, before, ratios))
        return [ShortEvents(parent, child, singles[parent], rows, fields)]

    def _core_fitter(self, group: Group) -> FitCore:
        """Return the function that fits the scalars of a group to their distances."""
        if group.links is None:
            return partial(self._fitted_single, group.core[0])
        return partial(self._fitted_field, self._field_problem(group.links))

    def _fitted_single(self, j: int, extra: Mapping[int, Float64Matrix], start: Scaling | None) -> CoreFit:
        exponents = extra.get(j)
        single = self._single(j, exponents, start)
        power, least = self._settings.target.power, self._settings.least
        solution = single.solution((self._squares[j], TRIVIAL), least, power, exponents)
        return CoreFit(single, None, {j: joint_of_first(*solution)}, single.as_start())

    def _fitted_field(
        self, problem: FieldProblem, extra: Mapping[int, Float64Matrix], start: FieldStart | None
    ) -> CoreFit:
        core = list(problem.links.attributes)
        problem = replace(problem, extra=tuple(extra.get(j) for j in core))
        names = [self._settings.attributes[j] for j in core]
        start = start or self._start_of_field(problem.links)
        found = meet_distance(problem, names, self._settings.target, self._wanted[core], start)
        return CoreFit(None, field_of(problem, found), joints_of(problem, found), (found, found.sharpness))

    def _tree_model(
        self, factors: Mapping[int, float], edges: Sequence[Edge], fields: Sequence[Field], short: Sequence[ShortEvents]
    ) -> dict[str, Any]:
        names = self._settings.attributes
        return {
            "roots": {names[root]: factor for root, factor in sorted(factors.items())},
            "edges": [edge.to_model(names) for edge in edges],
            "fields": [field.to_model(names) for field in fields],
            "short": [events.to_model(names) for events in short],
        }

    def _measured_tree(self) -> tuple[list[Fit], dict[str, Any]]:
        """Return the fits of all attributes, and the tree, that meet a vulnerability or an ε."""
        target, groups = self._settings.target, self._groups()
        components = [self._component(group) for group in groups]
        edges: list[Edge] = []
        fields: list[Field] = []
        if target.kind == "epsilon":
            alone = {j: self._single_core(j) for j in range(len(self._settings.attributes))}
            factor = meet_epsilon(components, alone, target, self._first_common_factor(range(len(alone))))
            singles = [core.fit(factor) for core in alone.values()]
            factors = [factor] * len(groups)
            edges = [edge for component in components for edge in component.edges_at(factor)]
        else:
            singles, factors = [self._single(j) for j in range(len(self._settings.attributes))], []
            for group, component in zip(groups, components, strict=True):
                factors.append(self._vulnerable(group, component, singles, edges))
        for component, factor in zip(components, factors, strict=True):
            if isinstance(component.core, FieldCore):
                fields.append(component.core.field(factor))
        roots = dict.fromkeys((edge.parent for edge in edges), 0.0)
        return singles, self._tree_model(roots, edges, fields, [])

    def _vulnerable(self, group: Group, component: Component, singles: list[Fit], edges: list[Edge]) -> float:
        """Fit a group to a vulnerability: return the factor of λ, add its edges, and replace the fit of one scalar."""
        members = (*group.core, *(array for _, array in group.arrays))
        start = min(float(singles[j].sharpness[0] / component.ratios[j]) for j in members)
        alone = dict(enumerate(singles))
        previous = {} if self._previous is None else {edge.child: edge.sharpness for edge in self._previous.edges}
        search = VulnerabilitySearch(
            component, self._settings.target, lambda j: self._rows_alone(j, alone[j]), previous
        )
        factor = search.factor(self._first_common_factor(group.core, start))
        if isinstance(component.core, SingleCore):
            singles[group.core[0]] = component.core.fit(factor)
        edges += search.raised(factor)
        return factor

    def _rows_alone(self, j: int, single: Fit) -> Float64Matrix:
        """Return (k, k) float64: M(b* | b) of an attribute that is masked alone."""
        solution = single.solution((self._squares[j], TRIVIAL), self._settings.least, self._settings.target.power)
        return channel_rows(joint_of_first(*solution))

    @property
    def _ratios_of_sharpness(self) -> Float64Array:
        """(p,) float64: λ of all attributes for a common factor of 1."""
        return np.asarray(self._wanted.min() / self._wanted)

    def _component(self, group: Group) -> Component:
        core: Core = self._single_core(group.core[0])
        if group.links is not None:
            start = self._start_of_field(group.links)
            core = FieldCore(
                self._field_problem(group.links),
                [self._values[j].positions for j in group.core],
                [self._settings.distances[j].preorder for j in group.core],
                self._ratios_of_sharpness[list(group.core)],
                start and start[0],
            )
        edges = tuple(self._edge(*link, 1.0) for link in group.arrays)
        power, least = self._settings.target.power, self._settings.least
        return Component(core, edges, self._squares, self._ratios_of_sharpness, power, least)

    def _single_core(self, j: int) -> SingleCore:
        table, counts = single_table(self._values[j])
        problem = problem_of(self._goal(j), table, counts, (self._squares[j], TRIVIAL))
        return SingleCore(j, problem, counts, float(self._ratios_of_sharpness[j]))

    def _first_common_factor(self, attributes: Iterable[int], otherwise: float | None = None) -> float:
        """Return the common factor of λ in the model in force; without one, ``otherwise`` or a guess for an ε."""
        chosen = set(attributes)
        if self._previous is not None:
            for field in self._previous.fields:
                if chosen & set(field.links.attributes):
                    return float(field.sharpness[0] / self._ratios_of_sharpness[field.links.attributes[0]])
            for j in sorted(chosen & set(self._previous.roots)):
                return float(self._previous.fits[j].sharpness[0] / self._ratios_of_sharpness[j])
        return otherwise or self._settings.target.level / len(self._settings.attributes)

    def _field_problem(self, links: Links) -> FieldProblem:
        """Return the problem of a field. Raises StatisticsError if too few of its pairs may be written."""
        squares = tuple(self._squares[j].astype(np.float32) for j in links.attributes)
        power, least = self._settings.target.power, self._settings.least
        problem = FieldProblem(links, TreeRecords.of(links), squares, (None,) * len(squares), power, least)
        check_written(problem, [self._settings.attributes[j] for j in links.attributes])
        return problem

    def _start_of_field(self, links: Links) -> FieldStart | None:
        """Return the field in force for the same attributes, and λ for this window's mean squared distances."""
        previous = self._previous
        for field in () if previous is None else previous.fields:
            assert previous is not None
            start = start_for(links, field, self._values, previous.values)
            if start is not None:
                ratios = [self._ratios(previous, j)[0] for j in links.attributes]
                return start, field.sharpness * ratios
        return None

    def _edge(self, parent: int, child: int, sharpness: float) -> Edge:
        pair = (min(parent, child), max(parent, child))
        table, counts = pair_table(self._counts.pairs[pair], self._values[pair[0]], self._values[pair[1]])
        if parent > child:
            table, counts = flipped(table, counts)
        return Edge(parent, child, table, counts, sharpness, self._settings.target.array_power)


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
