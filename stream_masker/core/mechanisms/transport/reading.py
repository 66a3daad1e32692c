"""Reading the model of a window, in a process that masks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from stream_masker.core.dtypes import Float64Array
from stream_masker.core.mechanisms.transition.serialization import read_model_field
from stream_masker.core.mechanisms.transport.fit import Fit, read_values
from stream_masker.core.mechanisms.transport.model import TransportSettings
from stream_masker.core.mechanisms.transport.prepared import PreparedTransport
from stream_masker.core.mechanisms.transport.star.edges import Edge
from stream_masker.core.mechanisms.transport.values import Values
from stream_masker.core.statistics.summary import Statistics
from stream_masker.errors import StatisticsError


def read_model(settings: TransportSettings, statistics: Statistics) -> PreparedTransport:
    """Return what masking needs. Raises StatisticsError if the model is invalid."""
    return read_transport(settings, statistics.model, np.diag(statistics.covariance))


def read_transport(settings: TransportSettings, model: object, spread: Float64Array) -> PreparedTransport:
    """Return the transport of a model; ``spread``: (p,) sdVar. Raises StatisticsError if the model is invalid."""
    if not isinstance(model, Mapping) or spread.shape != (len(settings.attributes),):
        raise StatisticsError("the model is not that of the mechanism's attributes")
    names = settings.attributes
    packed, single = read_model_field(model, "values"), read_model_field(model, "single")
    values = tuple(
        Values.of(d.distance, *read_values(read_model_field(packed, name), len(d.distance.taxonomy)))
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
