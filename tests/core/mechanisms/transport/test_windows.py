"""Semantic transport of any window: a noise level is never an error, and attributes move by it or more."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from stream_masker import SemanticTransport
from stream_masker.core.ontology import Ontology

SEED = b"a seed of many bytes"
TAU = Ontology.from_edges([(f"c{k}", f"c{(k - 1) // 2}") for k in range(1, 31)]).taxonomy()
FLAT = Ontology.from_values(["negative", "positive"]).taxonomy()
CODES = st.sampled_from(TAU.ids)
ALPHAS = st.sampled_from([0.3, 0.5, 1.0, 10.0])
MOST_NOISE = 0.95
"""A noise level is truncated to this share of the mean squared distance of independent records."""


def calibrated(records, taxonomies, alpha):
    made = SemanticTransport(taxonomies, target={"alpha": alpha}, least=1, seed=SEED, window=len(records))
    made.learn_many(records)
    made.calibrate()
    return made


def different(values):
    return len(set(values)) > 1


@given(st.lists(st.tuples(CODES, CODES, st.integers(1, 200)), min_size=2, max_size=6), ALPHAS)
@example([("c3", "c5", 50), ("c4", "c5", 50), ("c9", "c6", 50)], 0.3)
@example([("c3", "c3", 999), ("c4", "c4", 1)], 0.3)
@example([("c3", "c3", 50), ("c4", "c4", 50), ("c9", "c9", 50)], 10.0)
@example([("c0", "c0", 1), ("c7", "c0", 118), ("c7", "c1", 200)], 1.0)
def test_every_window_of_pairs_allows_every_noise_level(tuples, alpha):
    records = [{"a": a, "b": b} for a, b, count in tuples for _ in range(count)]
    if not different(r["a"] for r in records) or not different(r["b"] for r in records):
        return
    made = calibrated(records, {"a": TAU, "b": TAU}, alpha)
    spread = np.diag(made.statistics.covariance)
    for j, name in enumerate(("a", "b")):
        law = np.unique([r[name] for r in records], return_counts=True)
        shares = law[1] / law[1].sum()
        independent = shares @ made.distances[j].matrix(law[0].tolist()) ** 2 @ shares
        least = min(alpha * spread[j], MOST_NOISE * independent)
        assert made.disclosure().rmse[name] >= np.sqrt(least) * 0.995


@given(st.lists(st.tuples(CODES, CODES, st.integers(1, 200)), min_size=2, max_size=6))
@example([("c3", "c3", 50), ("c4", "c4", 50), ("c9", "c9", 50)])
@example([("c3", "c5", 50), ("c4", "c5", 50), ("c9", "c6", 50)])
@example([("c3", "c3", 999), ("c4", "c4", 1)])
def test_every_window_of_pairs_allows_the_promise(tuples):
    """A value that is more frequent than one half stays so, but for the relative room of its limit."""
    records = [{"a": a, "b": b} for a, b, count in tuples for _ in range(count)]
    if not different(r["a"] for r in records) or not different(r["b"] for r in records):
        return
    made = SemanticTransport({"a": TAU, "b": TAU}, least=1, seed=SEED, window=len(records))
    made.learn_many(records)
    made.calibrate()
    for name, greatest in made.disclosure().certainty.items():
        most = np.unique([r[name] for r in records], return_counts=True)[1].max() / len(records)
        assert greatest <= max(0.5, 1.01 * most) + 1e-6


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 1000), st.integers(2, 5), st.integers(20, 60), st.sampled_from([0.1, 0.3, 1.0]))
def test_windows_of_three_attributes_and_arrays_allow_it_too(seed, kinds, size, alpha):
    rng = np.random.default_rng(seed)
    some = [TAU.ids[k] for k in rng.choice(len(TAU), kinds, replace=False)]

    def draw():
        return some[rng.integers(kinds)]

    records = []
    for _ in range(size):
        scalar = draw()
        array = [scalar if rng.random() < 0.5 else draw() for _ in range(rng.integers(0, 3))]
        records.append({"a": scalar, "b": array, "c": draw(), "d": ("negative", "positive")[rng.integers(2)]})
    records += [{"a": one, "b": [one], "c": one, "d": d} for one in some[:2] for d in ("negative", "positive")]
    made = calibrated(records, {"a": TAU, "b": TAU, "c": TAU, "d": FLAT}, alpha)
    masked = made.mask_many(records, keys=[b"%d" % i for i in range(len(records))])
    assert {row["a"] for row in masked} | {row["c"] for row in masked} <= set(some)
    assert {row["d"] for row in masked} <= {"negative", "positive"}


@pytest.mark.parametrize("alpha", [0.1, 0.3, 1.0])
def test_a_value_that_determines_all_others_allows_it_too(alpha):
    """λ of the children changes nothing, because each value has one partner: they move with the root."""
    some = ("c7", "c8", "c11", "c22")
    records = [{"a": one, "b": [one, one], "c": some[k - 1]} for k, one in enumerate(some)] * 3
    made = calibrated(records, {"a": TAU, "b": TAU, "c": TAU}, alpha)
    masked = made.mask_many(records, keys=[b"%d" % i for i in range(len(records))])
    tuples = {(r["a"], *r["b"], r["c"]) for r in records}
    assert {(r["a"], *r["b"], r["c"]) for r in masked} <= tuples


def test_many_rare_codes_move_as_little_as_the_promise_allows():
    """Beyond some exponent the limits bind so much that codes move farther again: by an RMSE of 0.79 at worst."""
    tau, random = Ontology.load("icd10cm").taxonomy(), np.random.default_rng(0)
    codes = random.choice([code for code in tau.ids if "." in code], 3_000, replace=False)
    frequencies = 1.0 / np.arange(5.0, 3_005.0)
    drawn = random.choice(codes, 1_000, p=frequencies / frequencies.sum())
    made = SemanticTransport({"a": tau}, seed=SEED, window=drawn.size)
    made.learn_many([{"a": str(code)} for code in drawn])
    made.calibrate()
    assert 0.3 <= made.disclosure().rmse["a"] <= 0.45
