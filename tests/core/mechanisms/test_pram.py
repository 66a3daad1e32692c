"""PRAM: given, invariant and estimated Markov matrices."""

from __future__ import annotations

import numpy as np
import pytest
from support.nominal import flat

from stream_masker.core.mechanisms import Pram
from stream_masker.errors import ParameterError, StatisticsError

TAXONOMIES = {"a": flat(["u", "v", "w", "x", "new"]), "b": flat(["p", "q"])}
WINDOW = [{"a": value, "b": "pq"[k % 2]} for k, value in enumerate("uuuuuuvvvx")]
MATRIX = {"u": {"u": 0.5, "v": 0.5}, "v": {"v": 0.7, "x": 0.3}, "x": {"u": 0.2, "v": 0.2, "x": 0.6}}


def made(window=WINDOW, **parameters):
    mechanism = Pram(TAXONOMIES, seed=b"a seed..........", **parameters)
    mechanism.learn_many(window)
    mechanism.calibrate()
    return mechanism


def test_invariance_holds_with_values_outside_the_window():
    """x is not in the window: nothing becomes x, and x becomes values of the window."""
    window = [{"a": value, "b": "p"} for value in "uuuv"]
    ids, matrix = made(window, matrices={"a": MATRIX}, invariant=True).transition_matrix("a")
    np.testing.assert_allclose(np.array([0.75, 0.25, 0.0]) @ matrix, [0.75, 0.25, 0.0])
    np.testing.assert_allclose(matrix[:, ids.index("x")], 0.0)
    np.testing.assert_allclose(matrix.sum(axis=1), 1.0)


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
        ({"u": {"u": 0.5, "v": 0.4}, "v": {"u": 1.0}}, "row 'u' is not stochastic: it sums to 0.9"),
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
        ({"matrices": [MATRIX]}, "matrices is of type list: use a mapping"),
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
    with pytest.raises(StatisticsError, match=r"masking would change 0\.00%|single possible original"):
        made(matrices={"a": swap}, invariant=True)


def test_a_snapshot_of_another_matrix_is_rejected():
    snapshot = made().snapshot()
    other = {"u": {"v": 1.0}, "v": {"u": 1.0}}
    with pytest.raises(StatisticsError, match="other values"):
        Pram(TAXONOMIES, matrices={"a": other}, seed=b"s...............").restore(snapshot)
