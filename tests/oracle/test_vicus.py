"""VICUS and Random (2012): the example of the paper, its equations entry by entry, and parts of greatest fitness."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from support.channels import assert_drawn_from, channel, trained
from support.core_parts import divided
from support.nominal import BANK, flat_taxonomies

from stream_masker import RandomTransitions, Vicus

SEED = b"a seed.........."
TAXONOMIES = flat_taxonomies(BANK)


def made(kind=Vicus, **parameters):
    return trained(kind(TAXONOMIES, threshold=0.4, multigraph=False, seed=SEED, **parameters), BANK)


CLIENTS = sorted({record["client"] for record in BANK})


def matrix_of(mechanism):
    """P(a* | a) of the clients."""
    rows = [channel(mechanism, "client", client) for client in CLIENTS]
    return np.array([[row.get(client, 0.0) for client in CLIENTS] for row in rows])


PARTS = [["01", "02"], ["03", "04", "05", "06"]]
"""The parts of the example. Green and Blue share branch and advisor; Brown, Pink and White are similar through similar
values; Black is near."""


@pytest.mark.parametrize(("k1", "k2"), [(2, 20), (5, 20), (10, 10), (1, 1)])
def test_the_transition_probabilities_equal_the_papers(k1, k2):
    """Equations 5 and 8 to 11, entry by entry."""
    matrix = matrix_of(made(k1=k1, k2=k2))
    for i, value in enumerate(CLIENTS):
        part = next(members for members in PARTS if value in members)
        s, other = len(part), 6 - len(part)
        stay = k1 * k2 / (k1 * k2 + k2 * (s - 1) + other)
        for j, target in enumerate(CLIENTS):
            expected = stay if i == j else stay / k1 if target in part else stay / (k1 * k2)
            assert matrix[i, j] == pytest.approx(expected)
    np.testing.assert_allclose(matrix.sum(axis=1), 1.0)


def test_the_random_method_keeps_values_as_often_as_vicus():
    """Equation 12."""
    vicus, matrix = matrix_of(made()), matrix_of(made(RandomTransitions))
    np.testing.assert_allclose(np.diag(matrix), np.diag(vicus))
    for i in range(6):
        np.testing.assert_allclose(np.delete(matrix[i], i), (1 - matrix[i, i]) / 5)


@pytest.mark.parametrize("kind", [Vicus, RandomTransitions])
def test_values_are_drawn_with_the_probabilities(kind):
    mechanism = made(kind, k1=2, k2=3)
    for value in CLIENTS:
        masks = mechanism.mask_many([{**BANK[0], "client": value}] * 6000, keys=[b"%d" % k for k in range(6000)])
        assert_drawn_from(channel(mechanism, "client", value), [record["client"] for record in masks])


def similarity(rng, v):
    matrix = rng.random((v, v))
    matrix = (matrix + matrix.T) / 2
    np.fill_diagonal(matrix, 1.0)
    return matrix


def all_divisions(v, labels=()) -> Iterator[tuple[int, ...]]:
    if len(labels) == v:
        yield labels
        return
    for part in range(max(labels, default=-1) + 2):
        yield from all_divisions(v, (*labels, part))


def fitness(matrix, labels):
    """The similarity within parts of pairs, beyond the mean of all pairs."""
    pairs = [(i, j) for i in range(len(labels)) for j in range(i)]
    mean = float(np.mean([matrix[i, j] for i, j in pairs]))
    return sum(matrix[i, j] - mean for i, j in pairs if labels[i] == labels[j])


@pytest.mark.parametrize(("part_size", "share"), [(1, 0.8), (2, 0.6), (3, 0.4)])
def test_parts_have_their_least_size_and_are_nearly_as_fit_as_the_best_division(part_size, share):
    """Even of values whose similarities are random."""
    rng, fitnesses = np.random.default_rng(part_size), []
    for v in (4, 6, 7) * 5:
        matrix = similarity(rng, v)
        found = divided(matrix, part_size).tolist()
        assert min(map(found.count, found)) >= part_size
        allowed = [labels for labels in all_divisions(v) if min(map(labels.count, labels)) >= part_size]
        fitnesses.append((fitness(matrix, found), max(fitness(matrix, labels) for labels in allowed)))
    ours, best = np.sum(fitnesses, axis=0)
    assert ours > share * best


def test_blocks_of_similar_values_are_found():
    blocks = np.repeat(np.arange(6), [2, 3, 4, 5, 6, 10])
    matrix = np.where(blocks[:, None] == blocks[None, :], 0.8, 0.1)
    np.fill_diagonal(matrix, 1.0)
    order = np.random.default_rng(2).permutation(30)
    found = divided(matrix[np.ix_(order, order)], 2)
    assert np.array_equal(found[:, None] == found[None, :], blocks[order][:, None] == blocks[order][None, :])
