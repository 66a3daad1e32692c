"""Similarity by co-occurrence: Table 2 of 2012, and literal computations of its equation 2 and algorithm 1."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from math import sqrt

import numpy as np
import pytest
from support.core_parts import ValueGraph
from support.nominal import BANK, counts_of, flat_taxonomies


def edges_of(records, multigraph):
    """The number of edges between two vertices; a vertex is an attribute with a value."""
    edges = Counter()
    for record in records:
        for i, j in combinations(record.items(), 2):
            edges[i, j] += 1
            edges[j, i] += 1
    return edges if multigraph else Counter(dict.fromkeys(edges, 1))


def direct(edges, vertices, i, j):
    """Equation 2."""
    degree = {v: sum(n for (a, _), n in edges.items() if a == v) for v in (i, j)}
    return sum(sqrt(edges[i, k] * edges[k, j]) for k in vertices) / sqrt(degree[i] * degree[j])


def merged_graph(edges, vertices, similarity, threshold, i, j):
    """The merged graph of algorithm 1 for i and j: the group of each vertex."""
    group = {v: v for v in vertices}
    for c in vertices:
        for d in vertices:
            if c[0] != d[0] or c[0] == i[0] or c == d:
                continue
            linked = (edges[c, i] and edges[d, j]) or (edges[c, j] and edges[d, i])
            if linked and group[c] != group[d] and similarity[c, d] > threshold:
                old, new = group[d], group[c]
                group = {v: new if g == old else g for v, g in group.items()}
    return group


def transitive(edges, vertices, similarity, threshold, i, j):
    group = merged_graph(edges, vertices, similarity, threshold, i, j)
    merged = Counter()
    for (a, b), n in edges.items():
        merged[group[a], group[b]] += n
    return direct(merged, set(group.values()), i, j)


@pytest.mark.parametrize("multigraph", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_similarities_equal_literal_computations(seed, multigraph):
    rng = np.random.default_rng(seed)
    sizes = {"a": 5, "b": 4, "c": 3}
    records = [{name: f"{name}{rng.integers(v)}" for name, v in sizes.items()} for _ in range(int(rng.integers(6, 14)))]
    taxonomies = flat_taxonomies(records)
    counts = counts_of(records, taxonomies)
    graph = ValueGraph.of(counts, tuple(map(len, taxonomies.values())), multigraph=multigraph)
    edges = edges_of(records, multigraph)
    vertices = sorted({item for record in records for item in record.items()})
    first = {(i, j): direct(edges, vertices, i, j) for i in vertices for j in vertices if i[0] == j[0]}
    for threshold in (0.3, 0.6):
        found = graph.direct(), graph.transitive(graph.direct(), threshold)
        for x, (name, tau) in enumerate(taxonomies.items()):
            values = [(name, concept) for concept in tau.decode(counts.values[x].keys)]
            for i, one in enumerate(values):
                for j, other in enumerate(values):
                    assert found[0][x][i, j] == pytest.approx(first[one, other])
                    expected = transitive(edges, vertices, first, threshold, one, other)
                    assert found[1][x][i, j] == pytest.approx(expected)


TAXONOMIES = flat_taxonomies(BANK)
GRAPH = ValueGraph.of(counts_of(BANK, TAXONOMIES), [len(tau) for tau in TAXONOMIES.values()], multigraph=False)

S2 = """1.000 1.000 0.000 0.000 0.000 0.258
        1.000 1.000 0.000 0.000 0.000 0.258
        0.000 0.000 1.000 1.000 1.000 0.775
        0.000 0.000 1.000 1.000 1.000 0.882
        0.000 0.000 1.000 1.000 1.000 0.882
        0.258 0.258 0.775 0.882 0.882 1.000"""

S = """1.000 0.800 0.000 0.000 0.000 0.103
       0.800 1.000 0.000 0.000 0.000 0.258
       0.000 0.000 1.000 0.600 0.400 0.465
       0.000 0.000 0.600 1.000 0.800 0.508
       0.000 0.000 0.400 0.800 1.000 0.663
       0.103 0.258 0.465 0.508 0.663 1.000"""


def printed(table):
    return np.array([[float(cell) for cell in line.split()] for line in table.splitlines()])


def test_the_second_and_the_third_part_of_table_2():
    """S56 = 0.6·0.5164 + 0.4·0.8815 = 0.6625 rounds to 0.662; the printed 0.663 uses the rounded S'' = 0.882."""
    first = GRAPH.direct()[0]
    np.testing.assert_array_equal(GRAPH.transitive(GRAPH.direct(), 0.4)[0].round(3), printed(S2))
    np.testing.assert_array_equal((0.6 * first + 0.4 * printed(S2)).round(3), printed(S))
    exact = GRAPH.similarities(threshold=0.4, c1=0.6)[0]
    assert np.abs(exact - printed(S)).max() < 0.0006
