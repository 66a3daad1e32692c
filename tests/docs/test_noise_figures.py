"""How often values stay under ``calibrated``, how surely this is recognised, and the least that is possible."""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np
import pytest
from support.data import icd9cm
from support.documentation import DOCS
from support.real_codes import as_batch, real_pairs, strong_sample

from stream_masker import Ontology
from stream_masker.core.batch import Batch, Column
from stream_masker.core.mechanisms import SemanticNoise, SemanticTransport
from stream_masker.core.random import PositionKeys
from stream_masker.core.risk.records import value_law
from stream_masker.core.statistics import compute_statistics, count_batch

SEED = b"a seed of sixteen bytes"
SCHEDULED = pytest.mark.scheduled
ALPHAS = (
    pytest.param(0.1, marks=SCHEDULED),
    0.3,
    pytest.param(0.5, marks=SCHEDULED),
    pytest.param(1.0, marks=SCHEDULED),
)
"""The tables of the page repeat one computation at four noise levels; ``.ci/run`` checks the one of the other pages."""

PAGE = (DOCS / "security" / "attacks.md").read_text()
TEXT = " ".join(PAGE.split())


@pytest.fixture(scope="module")
def tau():
    return icd9cm().taxonomy()


@pytest.fixture(scope="module")
def strong(tau):
    """A sample of strongly related diagnoses."""
    return as_batch(strong_sample(real_pairs(), tau))


@pytest.fixture(scope="module")
def batch():
    """The principal and the first secondary diagnosis of all real discharges that have both."""
    return as_batch(real_pairs())


@pytest.fixture(scope="module")
def counts(batch, tau):
    return counted(batch, tau)


def counted(batch, tau):
    return count_batch(batch, [len(tau)] * 2)


def ready(made, counts):
    return made.with_statistics(made.compute(counts, version=1), counts)


def noise(tau, counts, alpha=0.3, **parameters):
    """Semantic noise of a pair with the statistics of the counts."""
    options = {"rounding": "calibrated", **parameters}
    return ready(SemanticNoise({"a": tau, "b": tau}, alpha=alpha, reference="pair", seed=SEED, **options), counts)


class Disclosure:
    """The figures of the principal diagnosis, from the exact channel.

    ``stays``: of each value. ``sure``: the mean posterior probability of a value that has stayed.
    """

    def __init__(self, made, counts, channel=None):
        values, prior = value_law(counts.values[0])
        channel = channel or made.attribute_channel(0, values, counts)
        joint = prior[:, None] * channel.rows
        best = joint.max(axis=0)
        kept = prior * channel.unchanged
        total = joint.sum(axis=0)[channel.classes.class_of[values]]
        distances = made.distances[0].between(values, channel.classes.representatives)
        self.stays = channel.unchanged
        self.unchanged = float(kept.sum())
        likely = np.divide(kept, total, out=np.zeros_like(kept), where=kept > 0.0)
        self.sure = float(kept @ likely) / self.unchanged if self.unchanged > 1e-9 else None
        self.right = float(best.sum())
        self.certain = float(joint.sum(axis=0)[best > 0.9 * joint.sum(axis=0)].sum())
        self.rmse = float(np.sqrt((joint * distances**2).sum()))


def least_stays(made, counts) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return, by value: its share, s(a) and 1 − σ²/d₁², for the concepts of the window as candidates."""
    values, prior = value_law(counts.values[0])
    distances = made.distances[0].between(values, values)
    np.fill_diagonal(distances, np.inf)
    nearest = distances.min(axis=1)
    law = made._rule(0).law
    given_noise = law.below(nearest) - law.square_below(nearest) / nearest**2
    return prior, given_noise, np.maximum(0.0, 1.0 - law.deviation**2 / nearest**2)


def lost_correlation(made, batch, repeats) -> float:
    """Return by how much sdCor falls."""
    size = batch.size * repeats
    masks = [
        made.mask_batch(batch, PositionKeys(b"secret %d" % k, "t", 0, np.arange(batch.size))) for k in range(repeats)
    ]
    columns = tuple(Column(np.concatenate([m.columns[j].codes for m in masks])) for j in (0, 1))
    masked = counted(Batch(size, columns), made.distances[0].taxonomy)
    after = compute_statistics(masked, made.attributes, made.distances, version=1)
    return float(made.statistics.correlation[0, 1] - after.correlation[0, 1])


def shown(table_head: str, *names: str) -> list[str]:
    """Return the cells of a row of a table of the page, after the given first ones."""
    table = PAGE[PAGE.index(table_head) :]
    row = re.search(r"\| " + r" \| ".join(re.escape(name) for name in names) + r" \| (.+) \|\n", table)
    return [cell.strip() for cell in row[1].split("|")]


def as_shown(figures) -> list[str]:
    return ["" if figure is None else f"{figure:.2f}" for figure in figures]


@pytest.mark.exhaustive
@pytest.mark.parametrize("alpha", ALPHAS)
def test_values_stay_no_more_than_the_rmse_of_the_noise_forces(tau, counts, alpha):
    """The bounds hold for each value; the window as a whole is within 0.01 of them."""
    made = noise(tau, counts, alpha, candidates="observed")
    risk = Disclosure(made, counts)
    prior, given_noise, whole = least_stays(made, counts)
    assert (given_noise >= whole - 1e-12).all()
    assert (risk.stays >= given_noise - 1e-9).all()
    forced = float(prior @ given_noise)
    assert forced <= risk.unchanged <= forced + 0.01
    assert risk.right >= risk.unchanged - 1e-9
    assert risk.sure >= risk.unchanged - 1e-9
    other = Disclosure(noise(tau, counts, alpha), counts)
    figures = (risk.rmse, forced, risk.unchanged, risk.sure, risk.right, other.sure, other.right)
    assert shown("| α | RMSE | unchanged, at least", str(alpha)) == as_shown(figures)


@pytest.mark.exhaustive
@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("rounding", ["calibrated", "ceil"])
def test_what_an_attacker_learns(tau, counts, rounding, alpha):
    risk = Disclosure(noise(tau, counts, alpha, rounding=rounding), counts)
    cells = shown("| `rounding` | α | RMSE | unchanged | best guess right |", f"`{rounding}`", str(alpha))
    assert cells == as_shown((risk.rmse, risk.unchanged, risk.right))


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("candidates", "rounding"),
    [
        ("all", "calibrated"),
        ("all", "ceil"),
        pytest.param("leaves", "calibrated", marks=SCHEDULED),
        pytest.param("leaves", "ceil", marks=SCHEDULED),
        ("observed", "calibrated"),
    ],
)
def test_the_figures_of_the_candidates(tau, counts, candidates, rounding):
    risk = Disclosure(noise(tau, counts, candidates=candidates, rounding=rounding), counts)
    cells = shown("| `candidates` | `rounding` |", f"`{candidates}`", f"`{rounding}`")
    assert cells == as_shown((risk.rmse, risk.unchanged, risk.sure, risk.right, risk.certain))


@pytest.mark.exhaustive
def test_transport_leaves_the_attacker_as_unsure_about_unchanged_codes(tau, counts):
    made = ready(SemanticTransport({"a": tau, "b": tau}, alpha=0.3, certainty=1.0, seed=SEED), counts)
    assert f"on average {100 * Disclosure(made, counts).sure:.0f} % sure" in TEXT


@SCHEDULED
@pytest.mark.timeout(1800)
def test_the_lost_correlation(tau, counts, batch):
    lost = [
        lost_correlation(noise(tau, counts, alpha, candidates=candidates), batch, repeats=4)
        for alpha in (0.3, 1.0)
        for candidates in ("observed", "all")
    ]
    stated = "by {:.3f} instead of {:.3f} at α = 0.3, and by {:.3f} instead of {:.3f} at α = 1"
    assert stated.format(*lost) in TEXT


@pytest.mark.exhaustive
def test_the_figures_of_strongly_related_codes(tau, strong):
    related = counted(strong, tau)
    made = [noise(tau, related, candidates=candidates) for candidates in ("observed", "all")]
    lost = [lost_correlation(each, strong, repeats=40) for each in made]
    right = [Disclosure(each, related).right for each in made]
    assert "the losses are {:.2f} and {:.2f} at α = 0.3".format(*lost) in TEXT
    assert "right in {:.2f} of the cases, with `all` in {:.2f}".format(*right) in TEXT


SIBLINGS = Ontology.from_edges(
    [(f"b{i}", "root") for i in range(4)] + [(f"l{i}{k}", f"b{i}") for i in range(4) for k in range(9)]
).taxonomy()


@pytest.mark.parametrize("alpha", [0.05, 0.2])
def test_siblings_that_no_sign_tells_apart_replace_each_other_at_the_distance_of_the_noise(alpha):
    """All siblings of a are equally far from b. E[sd²] = ε² in each of the intervals of ε² between levels."""
    rng = np.random.default_rng(3)
    window = [
        rng.choice(SIBLINGS.encode([f"l{i}{k}" for i in pair for k in range(9)]), 4_000) for pair in ((0, 1), (2, 3))
    ]
    counts = count_batch(Batch(4_000, tuple(Column(c.astype(np.int32)) for c in window)), [len(SIBLINGS)] * 2)
    made = noise(SIBLINGS, counts, alpha, candidates="observed")
    size = 40_000
    batch = Batch(size, tuple(Column(np.full(size, SIBLINGS.position(name), np.int32)) for name in ("l00", "l20")))
    keys = PositionKeys(b"secret", "t", 0, np.arange(size))
    masks = made.mask_batch(batch, keys).columns[0].codes
    epsilon = np.abs(made.noise_of(batch, keys)[0][0])
    squares = made.distances[0].pairs(batch.columns[0].codes, masks) ** 2
    levels = np.unique(squares)
    near = SIBLINGS.encode([f"l0{k}" for k in range(1, 9)])
    assert set(near.tolist()) <= set(masks.tolist())
    assert levels[0] == 0.0
    for low, high in pairwise(levels):
        inside = (epsilon**2 > low) & (epsilon**2 <= high)
        error = 4 * squares[inside].std() / np.sqrt(inside.sum())
        assert abs(squares[inside].mean() - (epsilon[inside] ** 2).mean()) < error
