"""Semantic transport against a literal twin: the law of masks, and what they tell, from loops over all records."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from stream_masker import SemanticTransport
from stream_masker.core.batch import Batch, Column
from stream_masker.core.mechanisms.transport.certainty import Limits
from stream_masker.core.ontology import Ontology
from stream_masker.core.random import PositionKeys
from stream_masker.core.risk.records import Tuples
from stream_masker.core.statistics import count_batch

SEED = b"a seed of many bytes"
TAU = Ontology.from_edges([(f"c{k}", f"c{(k - 1) // 3}") for k in range(1, 40)]).taxonomy()


def made(batch, **parameters):
    names = [f"x{j}" for j in range(len(batch.columns))]
    mechanism = SemanticTransport(dict.fromkeys(names, TAU), seed=SEED, **parameters)
    counts = count_batch(batch, [len(TAU)] * len(names))
    return mechanism.with_statistics(mechanism.compute(counts, version=1), counts)


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
        transport = mechanism._prepared_statistics().maps[0]
        codes = [column.codes.tolist() for column in batch.columns]
        records = list(zip(*codes, strict=True))
        self.counts = {s: records.count(s) for s in sorted(set(records))}
        self.sources, self.target = list(self.counts), literal_target(self.counts, least)
        self.masks = sorted(self.target)
        prior = np.array([self.counts[s] / batch.size for s in self.sources])
        positions = [v.positions.tolist() for v in transport.values]
        squares = [v.distance.matrix(v.positions) ** 2 for v in transport.values]
        kernels = [literal_kernel(k, d) for k, d in zip(transport.map.kernels, squares, strict=True)]
        place = [{x: k for k, x in enumerate(each)} for each in positions]
        weights = np.array(
            [
                [np.prod([kernels[j][place[j][s[j]], place[j][t[j]]] for j in (0, 1)]) for t in self.masks]
                for s in self.sources
            ]
        )
        psi = np.array([self.target[t] for t in self.masks]) / (transport.map.phi.astype(float) @ weights)
        plain = weights * psi / (weights @ psi)[:, None]
        self.eta = np.array([transport.redraw.eta[place[0][t[0]], place[1][t[1]]] for t in self.masks], float)
        again = self.eta * (prior @ plain)
        self.rows = plain * (1.0 - self.eta) + np.outer(plain @ self.eta, again / max(again.sum(), 1e-300))
        self.joint = prior[:, None] * self.rows

    def of_value(self, j):
        """P(x, t) of attribute j, (k, t)."""
        values = sorted({s[j] for s in self.sources})
        return np.array([self.joint[[s[j] == x for s in self.sources]].sum(axis=0) for x in values])


@pytest.mark.parametrize("parameters", [{}, {"alpha": 0.3, "certainty": 0.45}, {"least": 6}])
def test_the_law_of_masks_is_that_of_the_twin(pairs, parameters):
    mechanism = made(pairs, **parameters)
    twin = Twin(mechanism, pairs, parameters.get("least", 2))
    wanted = np.array([twin.target[t] for t in twin.masks])
    assert np.abs(twin.joint.sum(axis=0) - wanted).sum() < 2e-3
    tuples = Tuples.of(mechanism._counts, (0, 1), (len(TAU),) * 2)
    law = mechanism.mask_law(tuples, (), mechanism._counts)
    for t in range(0, len(twin.masks), 7):
        np.testing.assert_allclose(law.likelihood(twin.masks[t]), twin.rows[:, t], rtol=1e-3, atol=1e-9)


@pytest.mark.parametrize(("alpha", "certainty"), [(1.0, 0.2), (0.3, 0.45), (0.1, 0.3)])
def test_no_posterior_of_the_twin_exceeds_the_promise(pairs, alpha, certainty):
    mechanism = made(pairs, alpha=alpha, certainty=certainty)
    twin = Twin(mechanism, pairs)
    assert twin.eta.any()
    for j in (0, 1):
        joint = twin.of_value(j)
        limits = np.maximum(certainty, joint.sum(axis=1))
        assert (joint / joint.sum(axis=0) <= limits[:, None] * (1.0 + 1e-6)).all()
        law = mechanism.record_joint(j, mechanism._counts)
        assert not law.sampled
        assert (joint / joint.sum(axis=0)).max() == pytest.approx(law.greatest, abs=1e-5)
        blocks = list(law.blocks)
        assert sum(each.sum() for each in blocks) == pytest.approx(1.0, abs=1e-6)
        assert sum(each.max(axis=0).sum() for each in blocks) == pytest.approx(joint.max(axis=0).sum(), abs=1e-5)


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


@pytest.fixture(scope="module")
def given(pairs):
    elements = Column(pairs.columns[1].codes, np.arange(801))
    (found,) = made(Batch(800, (pairs.columns[0], elements)))._prepared_statistics().pooled((0,)).given
    return found


def coupled(given, a, new):
    """P(b, b* | a, a*), from the law of the mask of each value."""
    size = len(given.values)
    laws = given.laws(np.full(size, a), np.full(size, new), np.arange(size))
    return given.couplings.source[a][:, None] * laws.astype(np.float64)


def test_couplings_have_the_laws_of_both_sides_and_keep_what_both_have(given):
    """Σ_b* P(b, b* | a, a*) = P(b | a), and Σ_b = P(b* | a*), for every value of the root and every mask of it."""
    source, target = given.couplings[:2]
    for a, new in product(range(len(given.root)), repeat=2):
        joint = coupled(given, a, new)
        np.testing.assert_allclose(joint.sum(axis=1), source[a], atol=1e-5)
        np.testing.assert_allclose(joint.sum(axis=0), target[new], atol=1e-5)
        np.testing.assert_allclose(np.diag(joint), np.minimum(source[a], target[new]), atol=1e-6)


def test_what_masks_tell_given_that_of_the_root_is_the_mean_of_the_couplings(given):
    group = (np.arange(len(given.values)) % 3 == 0).astype(np.float32)
    for new in range(len(given.root)):
        chances = given.joint[:, new] / given.joint[:, new].sum()
        joint = sum(chance * coupled(given, a, new) for a, chance in enumerate(chances))
        law, told = joint.sum(axis=0), given.told(new)
        posterior = np.divide(joint, law, out=np.zeros_like(joint), where=law > 1e-9)
        masks = np.flatnonzero(law > 1e-9)
        np.testing.assert_allclose(told.posteriors(masks), posterior[:, masks], atol=2e-4)
        np.testing.assert_allclose(told.mixed(told.chance), joint.sum(axis=1), atol=1e-5)
        limits = Limits(np.full(law.size, 0.2), group[None], np.array([0.3]))
        found, asked = told.exceeding(limits), np.concatenate([posterior, group[None] @ posterior])
        wanted = {(x, j) for x, j in np.argwhere(asked > limits.all[:, None] + 1e-3).tolist()}
        seen = set(zip(found.which.tolist(), found.j.tolist(), strict=True))
        assert wanted <= seen
        np.testing.assert_allclose(found.posterior, asked[found.which, found.j], atol=2e-4)
        assert found.others <= 0.2 + 1e-3
