"""What is published of the maps of a window.

A message holds the window's tuples with their numbers of records, Φ, the kernels and η, in float32. All the rest, T and
Ψ, follows from them, so that every process masks alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from stream_masker.core.distance import Distance
from stream_masker.core.dtypes import Float64Array, Float64Matrix
from stream_masker.core.mechanisms.transport.certainty import Limits, Redraw, redrawn_joint, told_by
from stream_masker.core.mechanisms.transport.fit import Kernel, Map, Tuples, Values
from stream_masker.core.mechanisms.transport.given import Given
from stream_masker.core.mechanisms.transport.model import Hidden, Maps, Stratum, Transport
from stream_masker.core.statistics.packing import pack_array, read_array, read_model_field
from stream_masker.errors import StatisticsError

FORMAT = 9
"""The number of the format of models and snapshots."""
GREATEST = float(np.finfo(np.float32).max)


def packed(transport: Transport) -> dict[str, Any]:
    """Return what is published of a map."""
    kernels = transport.map.kernels[: len(transport.values)]
    return {
        "attributes": list(transport.attributes),
        "values": [{"values": pack_array(v.positions)} for v in transport.values],
        "tuples": packed_tuples(transport.tuples),
        "front": pack_array(transport.map.phi),
        "kernels": [
            {"sharpness": k.sharpness, "weights": pack_array(k.weights), "levels": pack_array(k.levels)}
            for k in kernels
        ],
        "eta": pack_array(transport.redraw.eta),
        "moved": [list(transport.wanted), list(transport.moved), list(transport.redraw.greatest)],
        "given": [
            {
                "attribute": each.attribute,
                "values": pack_array(each.values[1].positions),
                "tuples": packed_tuples(each.tuples),
                "eta": pack_array(each.couplings.eta.astype(np.float32)),
                "moved": [each.wanted, each.moved, each.greatest],
            }
            for each in transport.given
        ],
    }


def packed_tuples(tuples: Tuples) -> dict[str, str]:
    """Return what is published of tuples."""
    keys = tuples.rows.astype(np.int64) * tuples.frequent[1].size + tuples.columns
    flags = zip(("heavy", "first", "second"), (tuples.heavy, *tuples.frequent), strict=True)
    numbers = {"keys": pack_array(np.diff(keys, prepend=0)), "counts": pack_array(tuples.counts)}
    return numbers | {name: pack_array(each.astype(np.uint8)) for name, each in flags}


def read_maps(
    model: Mapping[str, Any], context: Sequence[Any], distances: tuple[Distance, ...], noise: Float64Array
) -> Maps:
    """Return the maps of a model. Raises StatisticsError if it is not valid, or of other contexts.

    ``context``: the contexts of the mechanism. ``noise``: (p,) α·sdVar.
    """
    if read_model_field(model, "context") != context:
        raise StatisticsError("the model's contexts are not those of this mechanism")
    try:
        strata = tuple(_stratum(each, distances) for each in model["strata"])
        read = ((_values(each, d), each) for each, d in zip(model["hidden"], distances, strict=True))
        hidden = tuple(Hidden.of(values, _tuples(each["tuples"], len(values), 1)) for values, each in read)
    except (TypeError, ValueError, KeyError, IndexError, AttributeError) as error:
        raise StatisticsError(f"the model does not have the expected format ({type(error).__name__})") from None
    return Maps(distances, strata, hidden, tuple(noise.tolist()), bool(context))


def _stratum(model: Mapping[str, Any], distances: Sequence[Distance]) -> Stratum:
    maps = None if model["maps"] is None else tuple(_transport(each, distances) for each in model["maps"])
    made = Stratum(int(model["context"]), int(model["pattern"]), int(model["records"]), maps)
    masked = [j for each in maps or () for j in (*each.attributes, *(g.attribute for g in each.given))]
    if maps is not None and sorted(masked) != [j for j in range(len(distances)) if not made.pattern >> j & 1]:
        raise StatisticsError("the model's maps are not of the attributes of their records")
    return made


def _transport(model: Mapping[str, Any], distances: Sequence[Distance]) -> Transport:
    attributes = tuple(map(int, model["attributes"]))
    values = tuple(_values(each, distances[j]) for each, j in zip(model["values"], attributes, strict=True))
    tuples = _tuples(model["tuples"], len(values[0]), len(values[1]) if len(values) == 2 else 1)
    kernels = [_kernel(each, v) for each, v in zip(model["kernels"], values, strict=True)]
    phi = read_array(model, "front", np.float32, tuples.rows.size, low=1e-45, high=GREATEST)
    own = Map(tuples.law(values), (kernels[0], kernels[1] if len(kernels) == 2 else Kernel.flat()), phi)
    if not np.isfinite(own.psi).all():
        raise StatisticsError("the front of the model has numbers that are not allowed")
    told = told_by(own, [Limits.of(own.law.share_of(j), 1.0) for j in range(len(values))])
    wanted, moved, greatest = (tuple(map(float, each)) for each in model["moved"])
    eta = read_array(model, "eta", np.float32, own.psi.size, low=0.0, high=1.0)
    again = replace(Redraw.of(told, eta), greatest=greatest)
    given = [_given(each, values[0], distances, redrawn_joint(own, again, 0)) for each in model["given"]]
    return Transport(attributes, values, tuples, own, again, wanted, moved, tuple(given))


def _given(model: Mapping[str, Any], root: Values, distances: Sequence[Distance], joint: Float64Matrix) -> Given:
    values = _values(model, distances[model["attribute"]])
    wanted, moved, greatest = map(float, model["moved"])
    made = Given.of(model["attribute"], (root, values), _tuples(model["tuples"], len(root), len(values)), wanted)
    eta = read_array(model, "eta", np.float32, made.couplings.eta.size, low=0.0, high=1.0).astype(np.float64)
    couplings = made.couplings._replace(eta=eta)
    return replace(made, root=joint, moved=moved, greatest=greatest, couplings=couplings)


def _kernel(model: Mapping[str, Any], values: Values) -> Kernel:
    weights, levels = (
        read_array(model, name, np.float32, len(values), low=-GREATEST, high=GREATEST) for name in ("weights", "levels")
    )
    return Kernel(values.squares, float(model["sharpness"]), weights, levels)


def _values(model: Mapping[str, Any], distance: Distance) -> Values:
    positions = read_array(model, "values", np.int32, low=0, high=len(distance.taxonomy) - 1)
    if not positions.size or np.diff(positions).min(initial=1) < 1:
        raise StatisticsError("the values of the model are not distinct")
    return Values.of(distance, positions)


def _tuples(model: Mapping[str, Any], first: int, second: int) -> Tuples:
    keys = np.cumsum(read_array(model, "keys", np.int64, low=0, high=first * second))
    if not keys.size or keys[-1] >= first * second or np.diff(keys).min(initial=1) < 1:
        raise StatisticsError("the tuples of the model are not distinct, or not allowed")
    counts = read_array(model, "counts", np.int64, keys.size, low=1)
    rows, columns = (each.astype(np.int32) for each in np.divmod(keys, second))
    sizes = {"heavy": keys.size, "first": first, "second": second}
    heavy, *flags = (read_array(model, name, np.uint8, n, low=0, high=1) > 0 for name, n in sizes.items())
    return Tuples(rows, columns, counts, heavy, (flags[0], flags[1]))
