"""Reading the model of a window, in a process that masks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np

from stream_masker.core.mechanisms.transition.serialization import read_model_field
from stream_masker.core.mechanisms.transport.field.links import Field
from stream_masker.core.mechanisms.transport.fit import Fit, read_values
from stream_masker.core.mechanisms.transport.model import TransportSettings
from stream_masker.core.mechanisms.transport.prepared import PreparedTransport
from stream_masker.core.mechanisms.transport.short.events import ShortEvents
from stream_masker.core.mechanisms.transport.tree.structure import Edge
from stream_masker.core.mechanisms.transport.values import Values
from stream_masker.core.statistics.summary import Statistics
from stream_masker.errors import StatisticsError


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
    roots, edges, fields, short = _read_tree(model.get("tree"), names, values, settings.target.array_power)
    noise = settings.target.mean_squares(statistics) if settings.target.by_distance else np.zeros(len(values))
    return PreparedTransport(
        values,
        settings.distances,
        fits,
        pair,
        roots,
        edges,
        fields,
        short,
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
    model: object, names: Sequence[str], values: Sequence[Values], array_power: float
) -> tuple[Mapping[int, float], tuple[Edge, ...], tuple[Field, ...], tuple[ShortEvents, ...]]:
    if model is None:
        return {}, (), (), ()
    roots = read_model_field(model, "roots")
    edges, fields, short = (_read_list(model, name) for name in ("edges", "fields", "short"))
    if not isinstance(roots, Mapping):
        raise StatisticsError("the model's tree does not have the expected format")
    if not set(roots) <= set(names):
        raise StatisticsError("the model's tree has other attributes")
    sizes = [len(v) for v in values]
    shapes = {(a, b): (sizes[a], sizes[b]) for a, b in product(range(len(names)), repeat=2)}
    read = tuple(Edge.from_model(edge, names, shapes, array_power) for edge in edges)
    factors = {names.index(name): factor for name, factor in roots.items()}
    if not all(isinstance(factor, float) and 0.0 <= factor < np.inf for factor in factors.values()):
        raise StatisticsError("a factor of the model's tree is not a number from 0")
    found = tuple(Field.from_model(field, names, values) for field in fields)
    masked = [j for field in found for j in field.links.attributes] + [edge.child for edge in read]
    if len(set(masked)) < len(masked):
        raise StatisticsError("an attribute of the model has two places in its tree")
    return factors, read, found, tuple(ShortEvents.from_model(one, names, values, read) for one in short)


def _read_list(model: object, name: str) -> list[object]:
    found = read_model_field(model, name)
    if not isinstance(found, list):
        raise StatisticsError(f"the model's {name} are not a list")
    return found
