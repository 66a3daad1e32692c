"""Semantic transport against a literal twin: the law of masks, and what they tell, from loops over all records."""

from __future__ import annotations

from collections import defaultdict
from itertools import product

import numpy as np
import pytest
from support.core_parts import Batch, Column, PositionKeys
from support.real_codes import in_force
from support.transport_law import map_in_force, pair_likelihoods

from stream_masker import Ontology, SemanticTransport

SEED = b"a seed of many bytes"
TAU = Ontology.from_edges([(f"c{k}", f"c{(k - 1) // 3}") for k in range(1, 40)]).taxonomy()


def made(batch, **parameters):
    names = [f"x{j}" for j in range(len(batch.columns))]
    return in_force(SemanticTransport(dict.fromkeys(names, TAU), seed=SEED, **parameters), batch)


@pytest.fixture(scope="module")
def pairs():
    rng = np.random.default_rng(4)
    a = rng.choice(np.arange(13, 23), 800, p=np.arange(10, 0, -1) / 55)
    b = np.where(rng.random(800) < 0.6, a + 13, rng.integers(26, 38, 800))
    return Batch(800, (Column(a.astype(np.int32)), Column(b.astype(np.int32))))


def block(position, depth):
    line = [position]
    while line[-1]:
        line.append((line[-1] - 1) // 3)
    return line[::-1][min(depth, len(line)) - 1]


def literal_target(counts, least):
    """T of (a, b): counts; the mass of rare pairs spreads within their blocks of depth 3, 2 and 1."""
    of = [{x: sum(n for s, n in counts.items() if s[j] == x) for x in {s[j] for s in counts}} for j in (0, 1)]
    target = {s: float(n) for s, n in counts.items() if n >= least}
    for s, n in counts.items():
        if n >= least:
            continue
        for depth in (3, 2, 1):
            near = [
                [x for x, m in of[j].items() if m >= least and block(x, depth) == block(s[j], depth)] for j in (0, 1)
            ]
            if near[0] and near[1]:
                break
        total = sum(of[0][x] * of[1][y] for x, y in product(*near))
        for x, y in product(*near):
            target[x, y] = target.get((x, y), 0.0) + n * of[0][x] * of[1][y] / total
    return {t: mass / sum(counts.values()) for t, mass in target.items()}


def literal_kernel(kernel, squares):
    size = len(squares)
    matrix = np.empty((size, size))
    for a, new in product(range(size), repeat=2):
        plain = np.exp(max(-kernel.sharpness * squares[a, new], -28.0))
        matrix[a, new] = min(plain, np.exp(float(kernel.levels[new]) - float(kernel.weights[a])))
    return matrix


class Twin:
    """P(t | s) of every pair s of the window and every mask t, with the redraw, as a dense (s, t) table."""

    def __init__(self, mechanism, batch, least=2):
        transport = map_in_force(mechanism)
        codes = [column.codes.tolist() for column in batch.columns]
        records = list(zip(*codes, strict=True))
        self.counts = {s: records.count(s) for s in sorted(set(records))}
        self.sources, self.target = list(self.counts), literal_target(self.counts, least)
        self.masks = sorted(self.target)
        prior = np.array([self.counts[s] / batch.size for s in self.sources])
        positions = [v.positions.tolist() for v in transport.map.law.values]
        squares = [v.distance.matrix(v.positions) ** 2 for v in transport.map.law.values]
        kernels = [literal_kernel(k, d) for k, d in zip(transport.map.kernels, squares, strict=True)]
        place = [{x: k for k, x in enumerate(each)} for each in positions]
        weights = np.array(
            [
                [np.prod([kernels[j][place[j][s[j]], place[j][t[j]]] for j in (0, 1)]) for t in self.masks]
                for s in self.sources
            ]
        )
        mask_weights = np.array([self.target[t] for t in self.masks]) / (
            transport.map.tuple_weights.astype(float) @ weights
        )
        plain = weights * mask_weights / (weights @ mask_weights)[:, None]
        redraw_chance = transport.redraw_chance
        self.redraw_chance = np.array([redraw_chance[place[0][t[0]], place[1][t[1]]] for t in self.masks], float)
        again = self.redraw_chance * (prior @ plain)
        self.rows = plain * (1.0 - self.redraw_chance) + np.outer(
            plain @ self.redraw_chance, again / max(again.sum(), 1e-300)
        )
        self.joint = prior[:, None] * self.rows

    def of_value(self, j):
        """P(x, t) of attribute j, (k, t)."""
        values = sorted({s[j] for s in self.sources})
        return np.array([self.joint[[s[j] == x for s in self.sources]].sum(axis=0) for x in values])


@pytest.mark.parametrize("parameters", [{"alpha": 0.3, "certainty": 0.45}, {"least": 6}])
def test_the_law_of_masks_is_that_of_the_twin(pairs, parameters):
    mechanism = made(pairs, **parameters)
    twin = Twin(mechanism, pairs, parameters.get("least", 2))
    wanted = np.array([twin.target[t] for t in twin.masks])
    assert np.abs(twin.joint.sum(axis=0) - wanted).sum() < 2e-3
    law = pair_likelihoods(mechanism, np.array(twin.sources).T)(np.array(twin.masks).T)
    np.testing.assert_allclose(law, twin.rows.T, rtol=1e-3, atol=1e-9)


@pytest.mark.parametrize(("alpha", "certainty"), [(1.0, 0.2), (0.1, 0.3)])
def test_no_posterior_of_the_twin_exceeds_the_promise(pairs, alpha, certainty, monkeypatch):
    mechanism = made(pairs, alpha=alpha, certainty=certainty)
    twin = Twin(mechanism, pairs)
    assert twin.redraw_chance.any()
    for j in (0, 1):
        joint = twin.of_value(j)
        limits = np.maximum(certainty, joint.sum(axis=1))
        assert (joint / joint.sum(axis=0) <= limits[:, None] * (1.0 + 1e-6)).all()
        law = mechanism._prepared_statistics().laws[j]
        blocks, error = law.blocks()
        assert error == 0.0
        assert sum(each.sum() for each in blocks) == pytest.approx(1.0, abs=1e-6)
        assert sum(each.max(axis=0).sum() for each in blocks) == pytest.approx(joint.max(axis=0).sum(), abs=1e-5)
        name, surest = mechanism.attributes[j], (joint / joint.sum(axis=0)).max()
        assert mechanism.risk().record[name].greatest == pytest.approx(surest, abs=1e-5)
        with monkeypatch.context() as patch:
            patch.setattr("stream_masker.core.mechanisms.transport.model.DRAWN_MASKS", 50)
            assert mechanism.risk().record[name].greatest >= surest - 1e-5


def test_records_are_masked_by_the_law_of_the_twin(pairs):
    mechanism = made(pairs, alpha=0.3)
    twin = Twin(mechanism, pairs)
    index, found = {t: k for k, t in enumerate(twin.masks)}, np.zeros(len(twin.masks))
    source = max(twin.counts, key=twin.counts.get)
    repeated = Batch(40_000, tuple(Column(np.full(40_000, x, np.int32)) for x in source))
    drawn = mechanism.mask_batch(repeated, PositionKeys(SEED, "t", 0, np.arange(40_000)))
    for t in zip(*(column.codes.tolist() for column in drawn.columns), strict=True):
        found[index[t]] += 1
    wanted = twin.rows[twin.sources.index(source)] * 40_000
    assert (np.abs(found - wanted) < 5.0 * np.sqrt(wanted + 1.0)).all()


def coupled(p, q, depth=2):
    """The coupling of two laws below a node, from loops: {(value, value): chance}.

    Both go to the same node below it as often as can be, and on from there. Otherwise they are independent.
    """
    if depth > 4:
        return {(x, x): 1.0 for x in p}
    below, joint = {}, defaultdict(float)
    for side, law in enumerate((p, q)):
        for x, mass in law.items():
            below.setdefault(line(x)[:depth], ({}, {}))[side][x] = mass
    masses = {node: [sum(law.values()) for law in laws] for node, laws in below.items()}
    for node, laws in below.items():
        if min(masses[node]) > 0.0:
            own = [{x: mass / sum(law.values()) for x, mass in law.items()} for law in laws]
            for pair, chance in coupled(*own, depth + 1).items():
                joint[pair] += min(masses[node]) * chance
    parting = sum(max(old - new, 0.0) for old, new in masses.values())
    for left, reached in product(below, below):
        (old, kept), (had, new) = masses[left], masses[reached]
        if old > kept and new > had:
            for (x, mass), (y, share) in product(below[left][0].items(), below[reached][1].items()):
                joint[x, y] += (old - kept) * (new - had) / parting * mass / old * share / new
    return joint


def line(x):
    """The root, chapter and block of a value, and the value."""
    return (*(("node", block(x, depth)) for depth in (1, 2, 3)), x)


@pytest.fixture(scope="module")
def lists(pairs):
    """Records of a scalar and one element, masked given it."""
    batch = Batch(800, (pairs.columns[0], Column(pairs.columns[1].codes, np.arange(801))))
    return made(batch, alpha=0.1, certainty=0.3), batch


def test_what_masks_tell_of_an_element_is_the_mean_of_literal_couplings(lists):
    """P(b, b*, a*) = Σ_a P(a, a*)·P(b, b* | a, a*), with the redraw; each coupling has the laws of both sides."""
    given, law = map_in_force(lists[0]).given[1], lists[0]._prepared_statistics().laws[1]
    positions = given.law.values[1].positions.tolist()
    size, place = len(positions), {x: k for k, x in enumerate(positions)}
    source = given.tree.laws[0, :, :size].astype(float)
    blocks, error = law.blocks()
    assert error == 0.0
    roots = np.flatnonzero(given.root.sum(axis=0))
    ends = np.cumsum((given.target[roots] > 0.0).sum(axis=1))[:-1]
    for new, found in list(zip(roots, np.split(np.concatenate(blocks, axis=1), ends, axis=1), strict=True))[::4]:
        plain, q = np.zeros((size, size)), dict(zip(positions, given.target[new].tolist(), strict=True))
        q = {x: mass for x, mass in q.items() if mass}
        for a, chance in enumerate(given.root[:, new]):
            p = {x: mass for x, mass in zip(positions, source[a].tolist(), strict=True) if mass}
            joint = np.zeros((size, size))
            for (x, y), mass in coupled(p, q).items():
                joint[place[x], place[y]] = mass
            np.testing.assert_allclose(joint.sum(axis=1), source[a], atol=1e-6)
            np.testing.assert_allclose(joint.sum(axis=0), given.target[new], atol=1e-6)
            plain += chance * joint
        some = given.target[new] > 0.0
        plain, redraw_chance = plain[:, some], np.full(some.sum(), given.redraw_chance[new], float)
        weights = redraw_chance * plain.sum(axis=0)
        literal = plain * (1.0 - redraw_chance) + np.outer(plain @ redraw_chance, weights / max(weights.sum(), 1e-300))
        own = found[np.searchsorted(law.positions, positions)]
        np.testing.assert_allclose(own, literal, atol=2e-3 * literal.sum())
        limits = np.maximum(0.3, literal.sum(axis=1) / literal.sum())
        posterior = literal / literal.sum(axis=0)
        assert (posterior <= limits[:, None] + 1e-6).all()


def test_elements_are_masked_by_the_literal_law(lists):
    (mechanism, batch), tau = lists, len(TAU)
    law, found = mechanism._prepared_statistics().laws[1], np.zeros((tau, tau))
    for k in range(10):
        drawn = mechanism.mask_batch(batch, PositionKeys(b"secret %d of many bytes" % k, "t", 0, np.arange(batch.size)))
        np.add.at(found, (batch.columns[1].codes, drawn.columns[1].codes), 1.0)
    wanted = np.zeros((tau, tau))
    wanted[np.ix_(law.positions, law.positions)] = law.joints[0]
    assert np.abs(found / found.sum() - wanted).sum() < 0.15


@pytest.mark.parametrize("seed", [0, 1])
def test_no_group_of_records_by_what_is_present_is_guessed_better_than_promised(seed):
    """Random schemas of three attributes, of which any may be missing; what is missing depends on the codes.

    The attacker counts which codes led to each combination of masks, among the records with the same attributes.
    """
    rng, size, repeats, certainty = np.random.default_rng(seed), 900, 200, 0.5
    laws = [rng.dirichlet(np.full(6, 0.5), 6) for _ in range(2)]
    a = rng.choice(6, size, p=rng.dirichlet(np.full(6, 2.0)))
    b, c = (np.array([rng.choice(6, p=law[x]) for x in a]) for law in laws)
    missing = [rng.random(size) < rng.uniform(0.0, 0.7, 6)[of] for of in (b, a, b)]
    codes = np.where(missing, -1, np.array([a + 13, b + 20, c + 27])).astype(np.int32)
    batch = Batch(size, tuple(Column(each) for each in codes))
    mechanism, seen = made(batch, certainty=certainty), []
    for k in range(repeats):
        drawn = mechanism.mask_batch(batch, PositionKeys(b"secret %d of many bytes" % k, "t", 0, np.arange(size)))
        seen.append([column.codes for column in drawn.columns])
    masks = np.concatenate(seen, axis=1)
    assert ((masks < 0) == np.tile(codes < 0, repeats)).all()
    cell = np.unique(masks, axis=1, return_inverse=True)[1].ravel()
    pattern, checked = np.unique(codes < 0, axis=1, return_inverse=True)[1].ravel(), 0
    for each in codes:
        table, priors = np.zeros((cell.max() + 1, 40)), np.zeros((pattern.max() + 1, 40))
        np.add.at(table, (cell, np.tile(each, repeats)), 1.0)
        np.add.at(priors, (pattern, each), 1.0)
        of_cell = np.zeros(cell.max() + 1, np.int64)
        of_cell[cell] = np.tile(pattern, repeats)
        total, limits = table.sum(axis=1), np.maximum(certainty, priors / priors.sum(axis=1, keepdims=True))
        often = (total >= 400) & (table[:, -1] == 0)
        checked += often.sum()
        excess = table[often] / total[often, None] - limits[of_cell[often]]
        assert (excess <= 2.5 / np.sqrt(total[often, None])).all()
    assert checked > 100
