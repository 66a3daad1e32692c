"""What no posterior may exceed: the promise of a target, for the values of one attribute.

For every masked record, every value x and every sensitive group G, P(x | masks) ≤ max(β, P(x)) and
P(G | masks) ≤ max(β_G, P(G)): nobody is surer than β who was not so before. A value or a group that is more frequent
than its limit would have to be as frequent given every mask; it may be ``PRIOR_ROOM`` more frequent, relatively.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

import numpy as np

from stream_masker.core.arrays import offsets_from_lengths
from stream_masker.core.dtypes import BoolArray, Float64Array, Int32Array, Int64Array
from stream_masker.core.kernels.jit import part

NO_LIMIT = 2.0
"""A limit that no probability exceeds."""
PRIOR_ROOM = 0.01
FITTING_SLACK = 0.01
"""By which share limits are lowered while a transport is fitted, so that the result meets them."""


Groups: TypeAlias = Mapping[str, tuple[BoolArray, float]]
"""Of each sensitive group, by name: its members among the values, and its limit."""


class Caps(NamedTuple):
    """The limits of the k values of one attribute, and of g sensitive groups of them.

    * ``values``: (k,) max(β, P(x)). ``groups``: (g,) max(β_G, P(G)).
    * ``starts``, ``members``: the values of each group, as compressed rows.
    * ``least``: the least of all limits; nothing is limited if it is ``NO_LIMIT``.
    """

    values: Float64Array
    groups: Float64Array
    starts: Int64Array
    members: Int32Array
    least: float

    @classmethod
    def of(cls, prior: Float64Array, certainty: float | None, groups: Groups, *, fitting: bool) -> Caps:
        """Return the limits of values with this prior; lower ones for ``fitting``.

        * ``prior``: (k,) P(x). ``certainty``: β, or None. ``groups``: for each name (k,) bool its members, and β_G.
        """
        scale, room = (1.0 - FITTING_SLACK, PRIOR_ROOM / 2.0) if fitting else (1.0, PRIOR_ROOM)
        values = np.full(prior.size, NO_LIMIT)
        if certainty is not None:
            values = np.maximum(certainty * scale, prior * (1.0 + room))
        members = [np.flatnonzero(inside).astype(np.int32) for inside, _ in groups.values()]
        limits = [max(limit * scale, float(prior[inside].sum()) * (1.0 + room)) for inside, limit in groups.values()]
        return cls(
            values,
            np.array(limits, np.float64),
            offsets_from_lengths(np.array([each.size for each in members], np.int64)),
            np.concatenate([np.empty(0, np.int32), *members]),
            min([float(values.min()), *limits]),
        )

    @classmethod
    def none(cls, size: int) -> Caps:
        """Return limits of ``size`` values that limit nothing."""
        return cls.of(np.zeros(size), None, {}, fitting=False)

    @property
    def any(self) -> bool:
        """Whether anything is limited."""
        return self.least < NO_LIMIT


@part
def inside_of(column: Float64Array, limits: Caps, group: int) -> float:
    """Return the sum of the values of a group in a column."""
    result = 0.0
    for k in range(limits.starts[group], limits.starts[group + 1]):
        result += column[limits.members[k]]
    return result


@part
def excess_of(column: Float64Array, limits: Caps, total: float) -> float:
    """Return by how much a value or a group of a column exceeds its limit at most, times the sum of the column."""
    result = -np.inf
    for x in range(column.size):
        result = max(result, column[x] - limits.values[x] * total)
    for group in range(limits.groups.size):
        result = max(result, inside_of(column, limits, group) - limits.groups[group] * total)
    return result
