"""Other implementations of distances and of the distance covariance, which ``table.py`` compares.

* the literal algorithm: equations 11, 12 and 15 to 18 of the 2017 paper in NumPy, on precomputed arrays of ancestors;
* HESML V2R1, the fastest published library: what its paper reports for Wu–Palmer on one core.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from measuring import SNOMED_CONCEPTS

from stream_masker.core.ontology import Taxonomy

HESML = {"hpo": 1.08e6, f"snomed:{SNOMED_CONCEPTS}": 435_252.0}
PairDistance = Callable[[int, int], float]


def literal_wu_palmer(tau: Taxonomy) -> PairDistance:
    up, depth = tau.closure, tau.depth

    def distance(i: int, j: int) -> float:
        of_i, of_j = slice(up.offsets[i], up.offsets[i + 1]), slice(up.offsets[j], up.offsets[j + 1])
        common, at_i, at_j = np.intersect1d(up.ancestors[of_i], up.ancestors[of_j], return_indices=True)
        deepest = depth[common] == depth[common].max()
        links = (up.paths[of_i][at_i].astype(np.int64) + up.paths[of_j][at_j])[deepest].min()
        double = 2 * int(depth[common].max())
        return 1 - double / (double + int(links))

    return distance


def literal_log_taxonomic(tau: Taxonomy) -> PairDistance:
    up = tau.closure

    def distance(i: int, j: int) -> float:
        t_i, t_j = (up.ancestors[up.offsets[c] : up.offsets[c + 1]] for c in (i, j))
        union, common = np.union1d(t_i, t_j).size, np.intersect1d(t_i, t_j).size
        return math.log2(1 + (union - common) / union)

    return distance


LITERAL: dict[str, Callable[[Taxonomy], PairDistance]] = {
    "wu_palmer": literal_wu_palmer,
    "log_taxonomic": literal_log_taxonomic,
}


def distances_to_all(tau: Taxonomy, a: int) -> np.ndarray:
    """Return the (m,) distances of one concept to every other one (2017: equations 11 and 12)."""
    up = tau.closure
    ancestors_of_a = slice(up.offsets[a], up.offsets[a + 1])
    links = np.full(len(tau), -1)
    links[up.ancestors[ancestors_of_a]] = up.paths[ancestors_of_a]
    common = links[up.ancestors] >= 0
    depth = np.where(common, tau.depth[up.ancestors], 0)
    deepest = np.maximum.reduceat(depth, up.offsets[:-1])
    here = depth == np.repeat(deepest, np.diff(up.offsets))
    lengths = np.where(here, up.paths + links[up.ancestors], np.iinfo(np.int64).max)
    return 1 - 2 * deepest / (2 * deepest + np.minimum.reduceat(lengths, up.offsets[:-1]))


def replaced_literally(tau: Taxonomy, a: int, r: int, noise: float) -> int:
    """Replace a value by 2017's algorithms 1 to 3, which differ only in the reference."""
    to_a, to_r = distances_to_all(tau, a), distances_to_all(tau, r)
    admissible = to_r > to_r[a] if noise > 0 else to_r < to_r[a]
    admissible = (admissible | (a == r)) & (to_a >= abs(noise))
    admissible[a] = False
    return int(np.argmin(np.where(admissible, to_a, np.inf))) if admissible.any() else a


def literal_covariance(a: np.ndarray, b: np.ndarray) -> float:
    delta_a, delta_b = (x - x.mean(axis=0) - x.mean(axis=1)[:, None] + x.mean() for x in (a, b))
    return float(np.sqrt(max(0.0, (delta_a * delta_b).sum())) / len(a))
