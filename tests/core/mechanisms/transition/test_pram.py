"""PRAM: given, invariant and estimated Markov matrices."""

from __future__ import annotations

import numpy as np
import pytest
from support.nominal import flat

from stream_masker.core.mechanisms import Pram
from stream_masker.core.mechanisms.transition.pram import invariant
from stream_masker.core.mechanisms.transition.serialization import pack_array
from stream_masker.errors import ParameterError, StatisticsError

TAXONOMIES = {"a": flat(["u", "v", "w", "x", "new"]), "b": flat(["p", "q"])}
WINDOW = [{"a": value, "b": "pq"[k % 2]} for k, value in enumerate("uuuuuuvvvx")]
SHARES = np.array([0.6, 0.3, 0.1])
MATRIX = {"u": {"u": 0.5, "v": 0.5}, "v": {"v": 0.7, "x": 0.3}, "x": {"u": 0.2, "v": 0.2, "x": 0.6}}
ROWS = np.array([[0.5, 0.5, 0.0], [0.0, 0.7, 0.3], [0.2, 0.2, 0.6]])
N = 20_000
KEYS = [b"%d" % k for k in range(N)]


def made(window=WINDOW, **parameters):
    mechanism = Pram(TAXONOMIES, seed=b"a seed..........", **parameters)
    mechanism.learn_many(window)
    mechanism.calibrate()
    return mechanism


def shares(mechanism, value):
    masked = [record["a"] for record in mechanism.mask_many([{"a": value}] * N, keys=KEYS)]
    return [masked.count(v) / N for v in "uvx"]


def test_a_given_matrix_is_applied():
    mechanism = made(matrices={"a": MATRIX})
    ids, matrix = mechanism.transition_matrix("a")
    assert ids == ["u", "v", "x"]
    np.testing.assert_allclose(matrix, ROWS)
    for value, row in zip(ids, ROWS, strict=True):
        np.testing.assert_allclose(shares(mechanism, value), row, atol=0.02)


def test_probabilities_of_0_are_never_drawn():
    mechanism = made(matrices={"a": MATRIX})
    assert shares(mechanism, "u")[2] == 0
    assert shares(mechanism, "v")[0] == 0


@pytest.mark.parametrize("value", ["new", "w"])
@pytest.mark.parametrize(
    "parameters", [{}, {"matrices": {"a": MATRIX}}, {"matrices": {"a": MATRIX}, "invariant": True}]
)
def test_a_value_without_a_row_is_never_emitted(value, parameters):
    np.testing.assert_allclose(shares(made(**parameters), value), SHARES, atol=0.02)


def test_an_invariant_matrix_keeps_the_windows_marginals():
    _, matrix = made(matrices={"a": MATRIX}, invariant=True).transition_matrix("a")
    assert not np.allclose(SHARES @ ROWS, SHARES)
    np.testing.assert_allclose(SHARES @ matrix, SHARES)
    np.testing.assert_allclose(matrix.sum(axis=1), 1.0)
    assert (np.diag(matrix) < 1).all()


def test_an_invariant_matrix_is_the_two_stage_matrix():
    """Qkl = plk·tl / Σj pjk·tj and R = PQ, as matrix products."""
    back = (ROWS * SHARES[:, None] / (SHARES @ ROWS)).T
    np.testing.assert_allclose(invariant(ROWS, SHARES), ROWS @ back)


def test_invariance_holds_with_values_outside_the_window():
    """x is not in the window: nothing becomes x, and x becomes values of the window."""
    window = [{"a": value, "b": "p"} for value in "uuuv"]
    ids, matrix = made(window, matrices={"a": MATRIX}, invariant=True).transition_matrix("a")
    np.testing.assert_allclose(np.array([0.75, 0.25, 0.0]) @ matrix, [0.75, 0.25, 0.0])
    np.testing.assert_allclose(matrix[:, ids.index("x")], 0.0)
    np.testing.assert_allclose(matrix.sum(axis=1), 1.0)


@pytest.mark.parametrize("retention", [0.0, 0.3, 0.9])
def test_an_estimated_matrix_retains_or_draws_by_frequency(retention):
    mechanism = made(retention=retention)
    _, matrix = mechanism.transition_matrix("a")
    np.testing.assert_allclose(matrix, retention * np.eye(3) + (1 - retention) * SHARES)
    np.testing.assert_allclose(SHARES @ matrix, SHARES)
    np.testing.assert_allclose(shares(mechanism, "v"), matrix[1], atol=0.02)


def test_masking_preserves_the_marginals():
    for parameters in ({}, {"matrices": {"a": MATRIX}, "invariant": True}):
        masked = made(**parameters).mask_many(WINDOW * 2000, keys=KEYS)
        values = [record["a"] for record in masked]
        np.testing.assert_allclose([values.count(v) / N for v in "uvx"], SHARES, atol=0.02)


def test_a_large_matrix_is_restored_to_the_last_bit():
    values = [f"v{k:03}" for k in range(300)]
    rng = np.random.default_rng(4)
    rows = rng.dirichlet(np.ones(300), 300)
    named = {v: dict(zip(values, row.tolist(), strict=True)) for v, row in zip(values, rows, strict=True)}
    taxonomies = {"a": flat(values)}
    mechanism = Pram(taxonomies, matrices={"a": named}, invariant=True, seed=b"s...............")
    mechanism.learn_many([{"a": str(v)} for v in rng.choice(values, 2000)])
    mechanism.calibrate()
    other = Pram(taxonomies, matrices={"a": named}, invariant=True, seed=b"s...............")
    other.restore(mechanism.snapshot())
    np.testing.assert_array_equal(other.transition_matrix("a")[1], mechanism.transition_matrix("a")[1])


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        ({"u": {"u": 0.5, "v": 0.4}, "v": {"u": 1.0}}, "not stochastic: row 'u' sums to 0.9"),
        ({"u": {"u": 0.5, "v": 0.6}, "v": {"u": 1.0}}, "sums to 1.1"),
        ({"u": {"u": 1.5, "v": -0.5}, "v": {"u": 1.0}}, "from 0 to 1"),
        ({"u": {"u": "1"}, "v": {"u": 1.0}}, "from 0 to 1"),
        ({"u": {"u": float("nan"), "v": 1.0}, "v": {"u": 1.0}}, "from 0 to 1"),
        ({"u": {"u": 0.5, "x": 0.5}, "v": {"u": 1.0}}, "square"),
        ({"u": {}, "v": {"u": 1.0}}, "sums to 0"),
        ({"u": {"u": 1.0}, "v": {"v": 1.0}}, "changes no value"),
        ({"u": {"u": 1.0}}, "2 to 2000 values"),
        ({"u": 1.0, "v": {"u": 1.0}}, "mapping of values"),
        ({"u": {"z": 1.0}, "z": {"u": 1.0}}, "'z', which is not in its taxonomy"),
        ([[0.5, 0.5], [0.5, 0.5]], "mapping"),
    ],
)
def test_a_matrix_that_is_not_stochastic_is_rejected_at_construction(matrix, message):
    with pytest.raises(ParameterError, match=message):
        Pram(TAXONOMIES, matrices={"a": matrix}, seed=b"s...............")


@pytest.mark.parametrize(
    ("given", "allowed"),
    [
        ({"retention": 1.0}, "from 0 to 0.999"),
        ({"retention": -0.1}, "from 0 to 0.999"),
        ({"invariant": "yes"}, "bool"),
        ({"matrices": {"c": MATRIX}}, "only allowed for the attributes"),
        ({"matrices": [MATRIX]}, "only allowed for the attributes"),
    ],
)
def test_errors_name_the_allowed_parameters(given, allowed):
    with pytest.raises(ParameterError, match=allowed):
        Pram(TAXONOMIES, seed=b"s...............", **given)


def test_a_matrix_without_any_value_of_the_window_is_rejected():
    with pytest.raises(StatisticsError, match="the matrix of a names no value of the window"):
        made([{"a": "w", "b": "p"}], matrices={"a": MATRIX})


def test_an_invariant_matrix_that_restores_every_value_is_rejected():
    """A permutation followed by its reversal changes nothing."""
    swap = {"u": {"v": 1.0}, "v": {"x": 1.0}, "x": {"u": 1.0}}
    with pytest.raises(StatisticsError, match="single possible original"):
        made(matrices={"a": swap})
    with pytest.raises(StatisticsError, match="changes no value of the window"):
        made(matrices={"a": swap}, invariant=True)


@pytest.mark.parametrize(
    "matrix", [np.full((3, 3), 0.5), np.eye(3), np.ones((2, 2)) / 2, np.array([[2, -1, 0], [1, 0, 0], [0, 0, 1]])]
)
def test_a_damaged_matrix_is_rejected(matrix):
    mechanism = made(matrices={"a": MATRIX}, invariant=True)
    snapshot = mechanism.snapshot()
    snapshot["statistics"]["model"]["a"]["matrix"] = pack_array(matrix.astype(np.float64))
    with pytest.raises(StatisticsError):
        Pram(TAXONOMIES, matrices={"a": MATRIX}, invariant=True, seed=b"s...............").restore(snapshot)


def test_a_snapshot_of_another_matrix_is_rejected():
    snapshot = made().snapshot()
    other = {"u": {"v": 1.0}, "v": {"u": 1.0}}
    with pytest.raises(StatisticsError, match="other values"):
        Pram(TAXONOMIES, matrices={"a": other}, seed=b"s...............").restore(snapshot)
