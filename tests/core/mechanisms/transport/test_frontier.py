"""The vulnerability of semantic transport against that of every other mechanism at the same RMSE."""

from __future__ import annotations

import numpy as np
import pytest
from support.attacking import attacked
from support.data import icd9cm
from support.least_vulnerability import least_vulnerability, most_frequent
from support.real_codes import real_pairs

from stream_masker import SemanticTransport
from stream_masker.core.batch import Batch, Column
from stream_masker.core.mechanisms import MECHANISMS, mechanism
from stream_masker.core.ontology import Ontology
from stream_masker.core.statistics import count_batch

SEED = b"a seed of many bytes"
RECORDS = 400
REPEATS = 30
GROUP = 50

DESTROYING = {"data_swapping", "exponential", "naive_distortion", "probabilistic_distortion"}
"""The mechanisms whose masks, with the default parameters, hardly depend on the value, so that correlation is lost."""

SETTINGS = [
    *((name, {}) for name in sorted(set(MECHANISMS) - DESTROYING - {"semantic_transport", "semantic_noise"})),
    *(("semantic_noise", {"reference": r, "rounding": "calibrated"}) for r in ("mean", "pair", "root")),
    *(("semantic_noise", {"reference": "pair", "rounding": "ceil", "candidates": c}) for c in ("all", "observed")),
    ("semantic_noise", {"reference": "pair", "candidates": "observed", "rounding": "calibrated"}),
    ("microaggregation", {"k": 3}),
    ("rank_swapping", {"k": 5}),
    ("rank_swapping", {"k": 5, "multivariate": True}),
    ("exponential", {"epsilon": 20.0}),
]


@pytest.fixture(scope="module")
def tau():
    rng = np.random.default_rng(3)
    return Ontology.from_edges([(f"c{k}", f"c{rng.integers(0, k)}") for k in range(1, 40)]).taxonomy()


@pytest.fixture(scope="module")
def batch():
    """Correlated values, of which the second is often a function of the first."""
    rng = np.random.default_rng(5)
    a = rng.choice(20, RECORDS, p=np.arange(20, 0, -1) / 210)
    b = np.where(rng.random(RECORDS) < 0.8, (a * 7) % 20, rng.integers(0, 20, RECORDS))
    return Batch(RECORDS, (Column(a.astype(np.int32)), Column(b.astype(np.int32))))


def calibrated(made, batch):
    counts = count_batch(batch, [len(d.taxonomy) for d in made.distances])
    return made.with_statistics(made.compute(counts, version=1), counts)


def transport(tau, batch, rmse):
    """Transport whose attributes move by these distances, as far as the window allows."""
    free = [float((d.between(c.codes, c.codes) ** 2).mean() ** 0.5) for d, c in pairs_of(tau, batch)]
    wanted = dict(zip(("x0", "x1"), np.minimum(rmse, 0.98 * np.array(free)).tolist(), strict=True))
    return calibrated(SemanticTransport({"x0": tau, "x1": tau}, target={"rmse": wanted}, seed=SEED), batch)


def pairs_of(tau, batch):
    made = SemanticTransport({"x0": tau, "x1": tau}, seed=SEED)
    return zip(made.distances, batch.columns, strict=True)


@pytest.mark.parametrize(("name", "parameters"), SETTINGS, ids=str)
def test_a_record_is_guessed_right_less_often_than_with_any_mechanism_that_preserves_correlation(
    tau, batch, name, parameters
):
    """The figure of the other mechanism is a lower bound, that of transport is exact."""
    other = calibrated(mechanism(name)({"x0": tau, "x1": tau}, seed=SEED, **parameters), batch)
    found = attacked(other, batch, repeats=REPEATS, group=GROUP)
    made = transport(tau, batch, found.rmse)
    figures = made.disclosure()
    assert (np.array(list(figures.rmse.values())) <= found.rmse + 0.001).all()
    assert figures.given_record["x0"] < found.given_record
    assert attacked(made, batch, repeats=4, group=GROUP).kept > found.kept - 0.05


def test_the_attack_finds_what_the_exact_channel_says(tau, batch):
    made = transport(tau, batch, np.array([0.3, 0.3]))
    found = attacked(made, batch, repeats=200, group=GROUP)
    figures, told = made.disclosure(), made.expected_risk()
    assert found.own == pytest.approx(told.value["x0"].vulnerability, abs=0.02)
    assert found.given_record == pytest.approx(figures.given_record["x0"], abs=0.03)


@pytest.mark.parametrize("name", sorted(DESTROYING))
def test_mechanisms_with_less_vulnerability_destroy_the_correlation(tau, batch, name):
    other = calibrated(mechanism(name)({"x0": tau, "x1": tau}, seed=SEED), batch)
    assert attacked(other, batch, repeats=6, group=GROUP).kept < 0.3


@pytest.mark.parametrize("target", [None, {"alpha": 0.3}])
def test_one_attribute_is_near_the_least_chance_of_any_channel(target):
    """On the 60 most frequent principal diagnoses of the real discharges: within a tenth, with the promise too."""
    batch = most_frequent(real_pairs()[0], 60)
    made = calibrated(SemanticTransport({"x0": icd9cm().taxonomy()}, target=target, seed=SEED), batch)
    risk = made.risk()
    present, counts = np.unique(batch.columns[0].codes, return_counts=True)
    squares = made.distances[0].between(present, present) ** 2
    least = least_vulnerability(counts / batch.size, squares, risk.rmse["x0"])
    assert least * (1 - 1e-6) <= risk.value["x0"].vulnerability <= 1.1 * least
    assert 0.95 * least <= made.disclosure().least["x0"] <= least * (1 + 1e-6)
