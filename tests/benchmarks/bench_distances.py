"""Semantic distances by the number of concepts, and other implementations, which ``table.py`` compares.

Run by hand: ``python tests/benchmarks/bench_distances.py [--quick]``. One core. Rates are the best of several runs.

* the literal algorithm: equations 11 and 12 of the 2017 paper in NumPy, on precomputed arrays of ancestors;
* NLTK's ``wup_similarity`` and nxontology's ``batet`` (|T1 ∩ T2| / |T1 ∪ T2|, of which the logarithmic distance is a
  function), on the same concepts;
* HESML V2R1, the fastest published library: what its paper reports for Wu–Palmer on one core.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable

import networkx as nx
import numpy as np
from measuring import SNOMED_CONCEPTS, best, random_positions, table, taxonomy
from nltk.corpus.reader.wordnet import NOUN, Synset
from nxontology import NXOntology

from stream_masker.core.distance import Distance, LogTaxonomic, WuPalmer
from stream_masker.core.ontology import Taxonomy

HESML = {"hpo": 1.08e6, f"snomed:{SNOMED_CONCEPTS}": 435_252.0}
FEW = 300
"""The number of pairs for slow implementations."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a smaller SNOMED-shaped taxonomy")
    sizes("snomed:50000" if parser.parse_args().quick else f"snomed:{SNOMED_CONCEPTS}")


def check_and_rate(d: Distance, other: Callable[[int, int], float], a: np.ndarray, b: np.ndarray) -> float:
    """Return another implementation's pairs per second; it must agree on nearly all pairs (some subsumers differ)."""
    given = list(zip(a.tolist(), b.tolist(), strict=True))
    seconds = best(lambda: [other(i, j) for i, j in given], repeats=3)
    found = np.array([other(i, j) for i, j in given])
    assert np.isclose(found, d.pairs(a, b), atol=1e-12).mean() > 0.5
    return len(given) / seconds


def literal(d: Distance) -> Callable[[Taxonomy], Callable[[int, int], float]]:
    """Return the literal implementation of the paper's formulas in NumPy."""
    return literal_wu_palmer if d.name == "wu_palmer" else literal_log_taxonomic


def literal_wu_palmer(tau: Taxonomy) -> Callable[[int, int], float]:
    up, depth = tau.closure, tau.depth

    def distance(i: int, j: int) -> float:
        of_i, of_j = slice(up.offsets[i], up.offsets[i + 1]), slice(up.offsets[j], up.offsets[j + 1])
        common, at_i, at_j = np.intersect1d(up.ancestors[of_i], up.ancestors[of_j], return_indices=True)
        deepest = depth[common] == depth[common].max()
        links = (up.paths[of_i][at_i].astype(np.int64) + up.paths[of_j][at_j])[deepest].min()
        double = 2 * int(depth[common].max())
        return 1 - double / (double + int(links))

    return distance


def literal_log_taxonomic(tau: Taxonomy) -> Callable[[int, int], float]:
    up = tau.closure

    def distance(i: int, j: int) -> float:
        t_i = up.ancestors[up.offsets[i] : up.offsets[i + 1]]
        t_j = up.ancestors[up.offsets[j] : up.offsets[j + 1]]
        union, common = np.union1d(t_i, t_j).size, np.intersect1d(t_i, t_j).size
        return math.log2(1 + (union - common) / union)

    return distance


def library(d: Distance) -> Callable[[Taxonomy], Callable[[int, int], float]]:
    """Return a Python library's implementation of the measure."""
    return nltk_wu_palmer if d.name == "wu_palmer" else nxontology_log_taxonomic


class Term(Synset):
    """A concept with the interface of NLTK's Wu–Palmer similarity."""

    def __init__(self, name: str) -> None:
        super().__init__(None)
        self._name, self._pos, self.parents = name, NOUN, []

    def _needs_root(self) -> bool:
        return False

    def _hypernyms(self) -> list[Term]:
        return self.parents

    def _instance_hypernyms(self) -> list[Term]:
        return []

    hypernyms, instance_hypernyms = _hypernyms, _instance_hypernyms


def nltk_wu_palmer(tau: Taxonomy) -> Callable[[int, int], float]:
    terms = [Term(concept) for concept in tau.ids]
    for c, term in enumerate(terms):
        term.parents = [terms[p] for p in tau.parents[tau.parent_offsets[c] : tau.parent_offsets[c + 1]].tolist()]
    return lambda i, j: 1 - terms[i].wup_similarity(terms[j])


def nxontology_log_taxonomic(tau: Taxonomy) -> Callable[[int, int], float]:
    children = np.repeat(np.arange(len(tau)), np.diff(tau.parent_offsets))
    links: nx.DiGraph[int] = nx.DiGraph(zip(tau.parents.tolist(), children.tolist(), strict=True))
    links.add_node(0)
    ontology: NXOntology[int] = NXOntology(links)
    ontology.freeze()
    return lambda i, j: math.log2(2 - ontology.similarity(i, j).batet)


def sizes(largest: str) -> None:
    """Measure the cost by |τ|."""
    most = int(largest.removeprefix("snomed:"))
    rows = [size_row(f"snomed:{m}") for m in (1000, 10_000, 50_000, 100_000, most) if m <= most]
    head = [
        "concepts",
        "Wu–Palmer pairs/s",
        "table of hubs, ms",
        "table, MB",
        "pairs without it/s",
        "LogTaxonomic pairs/s",
    ]
    table("Random pairs against |τ|, SNOMED-shaped", head, rows)


def size_row(name: str) -> list[object]:
    tau, n = taxonomy(name), 500_000
    d, a, b = WuPalmer(tau), random_positions(tau, n, seed=1), random_positions(tau, n, seed=2)
    few = max(1, len(tau) // 5)
    walked = few / best(lambda: WuPalmer(tau).pairs(a[:few], b[:few]))
    rate = n / best(lambda: d.pairs(a, b))
    made = best(lambda: WuPalmer(tau).pairs(a, b), repeats=3) - n / rate
    other = LogTaxonomic(tau)
    return [len(tau), rate, made * 1e3, len(tau) * 64 / 1e6, walked, n / best(lambda: other.pairs(a, b))]


if __name__ == "__main__":
    main()
