"""The law of masked pairs of semantic transport, from the map in force."""

from __future__ import annotations

import numpy as np

from stream_masker.core.mechanisms.transport.model import EVERY


def map_in_force(made):
    """The map of the records that have all attributes."""
    return made._prepared_statistics().maps(EVERY, 0)[0]


def pair_likelihoods(made, pairs):
    """A function that returns P(a*, b* | a, b), (n, t), of n masked pairs given t pairs of the window.

    Pairs are two rows of positions.
    """
    transport = map_in_force(made)
    own, eta, (first, second) = transport.map, transport.redraw_chance, transport.map.matrices
    again = (eta * own.chances * own.mask_weights).astype(np.float64)
    i, j = (v.indices(codes) for v, codes in zip(own.law.values, pairs, strict=True))
    redrawn = (first @ (eta * own.mask_weights) @ second.T)[i, j]

    def likelihoods(masked):
        x, y = (v.indices(codes)[:, None] for v, codes in zip(own.law.values, masked, strict=True))
        kept = first[i, x] * second[j, y] * own.mask_weights[x, y] * (1.0 - eta[x, y])
        drawn = redrawn * (again[x, y] / max(again.sum(), 1e-300))
        return np.asarray((kept + drawn) / own.totals[i, j], np.float64)

    return likelihoods
