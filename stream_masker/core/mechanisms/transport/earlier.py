"""Reading models of format 4, of the release before.

Its kernel is exp(−λ·sd^γ), without levels, with γ = 2 for an ε and 4 otherwise, and ψ = φ. Of arrays, and of more than
two attributes, it has trees of fields that nothing reads any more. It knows no limits of what a mask tells.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from stream_masker.core.mechanisms.transition.serialization import pack_array, read_model_field, unpack_array
from stream_masker.core.mechanisms.transport.fitting import two_numbers
from stream_masker.core.mechanisms.transport.kernel import Levels
from stream_masker.core.mechanisms.transport.scaling.table import Binding
from stream_masker.core.mechanisms.transport.target import Target
from stream_masker.errors import StatisticsError

EARLIER_FORMAT = 4


def converted(model: Mapping[str, Any], target: Target, least: int) -> dict[str, Any]:
    """Return a model of format 4 in the format of ``model``. Raises StatisticsError if it cannot be masked with."""
    if "tree" in model:
        raise StatisticsError(
            f"a model of format {EARLIER_FORMAT} is read for one or two attributes without arrays only"
        )
    singles = read_model_field(model, "single")
    if not isinstance(singles, Mapping) or len(singles) != 1 + ("pair" in model):
        raise StatisticsError("the model is not that of the mechanism's attributes")
    if target.limited:
        raise StatisticsError(f"a model of format {EARLIER_FORMAT} does not keep the limits of the target")
    values = read_model_field(model, "values")
    positions = {name: read_model_field(read_model_field(values, name), "positions") for name in singles}
    sizes = {name: unpack_array(packed, np.int32).size for name, packed in positions.items()}
    power = 2.0 if target.kind == "epsilon" else 4.0
    fits = {name: _fit(single, (sizes[name], 1), power, least) for name, single in singles.items()}
    pair = {"pair": _fit(model["pair"], tuple(sizes.values()), power, least)} if "pair" in model else {}
    return {**model, "single": fits, **pair}


def _fit(fit: object, sizes: tuple[int, ...], power: float, least: int) -> dict[str, Any]:
    """Return the transport of values, or of pairs, of format 4 as one of ``Fit``; ``sizes``: the numbers of values."""
    counts = unpack_array(read_model_field(fit, "counts"), np.int64)
    scale = unpack_array(read_model_field(fit, "scale"), np.float32, counts.size)
    sharpness, written = two_numbers(fit, "sharpness"), counts >= least
    exponents = np.where(sharpness > 0.0, sharpness, 1.0).tolist()
    levels = (Levels.flat(size, x, power).to_model() for size, x in zip(sizes, exponents, strict=True))
    return {
        **{name: read_model_field(fit, name) for name in ("tuples", "counts", "changed")},
        "written": pack_array(np.packbits(written)),
        "kernels": list(levels),
        "exponents": [1.0, 1.0],
        "scale": pack_array(scale[written]),
        "factors": [Binding.none(counts.size).to_model()] * 2,
    }
