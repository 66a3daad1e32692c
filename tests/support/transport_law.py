"""The law of masked pairs of semantic transport, from the map in force."""

from __future__ import annotations

import numpy as np

from stream_masker.core.mechanisms.transport.model import EVERY


def map_in_force(made, attribute=0):
    """The map of the records that have all attributes."""
    return made._prepared_statistics().maps(EVERY, 0)[attribute]


def pair_likelihoods(made, pairs, masked):
    """P(a*, b* | a, b) of n masked pairs given t pairs of the window, both (2, …) positions: (n, t)."""
    transport = map_in_force(made)
    own, again, (first, second) = transport.map, transport.redraw, transport.map.matrices
    i, j = (v.indices(codes) for v, codes in zip(transport.values, pairs, strict=True))
    x, y = (v.indices(codes)[:, None] for v, codes in zip(transport.values, masked, strict=True))
    place = x * own.psi.shape[1] + y
    kept = first[i, x] * second[j, y] * own.psi[x, y] * (1.0 - again.eta[place])
    redrawn = first @ (again.eta.reshape(own.psi.shape) * own.psi) @ second.T
    drawn = redrawn[i, j] * (again.weights[place] / max(again.share, 1e-300))
    return np.asarray((kept + drawn) / own.totals[i, j], np.float64)
