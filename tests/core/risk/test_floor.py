"""Windows whose masks would change or hide too little are refused, with many values as with few."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from stream_masker import Exponential, Ontology, Pram
from stream_masker.core.mechanisms.markov import TransitionMatrix
from stream_masker.errors import StatisticsError

CODES = [f"c{k}" for k in range(300)]
TAU = Ontology.from_edges([(code, "root") for code in CODES]).taxonomy()


class Given(Pram):
    """Masks by the rows of a matrix."""

    rows: Mapping[str, Mapping[str, float]]

    def _matrix(self, values, counts, model):
        ids = TAU.decode(values)
        matrix = np.array([[self.rows[a].get(b, 0.0) for b in ids] for a in ids])
        stay = matrix.diagonal().copy()
        np.fill_diagonal(matrix, 0.0)
        return TransitionMatrix(values, stay, np.vstack((matrix, counts)))


def calibrated(rows, values, mode=0):
    """Calibrate a matrix on each value twice, the first third thrice, and ``mode`` further records of the first."""
    made = Given({"one": TAU}, seed=b"sixteen bytes...")
    made.rows = rows
    made.learn_many([{"one": code} for code in values * 2 + values[: len(values) // 3] + values[:1] * mode])
    made.calibrate()
    return made


def rotated(values, changed=1.0):
    """Each value becomes the next one with a probability, and otherwise stays."""
    return {value: {value: 1.0 - changed, values[k - 1]: changed} for k, value in enumerate(values)}


def mixed(values, changed):
    """Each value becomes any of the others with a probability, and otherwise stays."""
    rows = {value: dict.fromkeys(values, changed / (len(values) - 1)) for value in values}
    return {value: {**row, value: 1.0 - changed} for value, row in rows.items()}


SIZES = pytest.mark.parametrize("size", [20, 200])


@SIZES
def test_masks_that_change_and_hide_enough_come_into_force(size):
    assert calibrated(mixed(CODES[:size], 0.5), CODES[:size]).statistics.version == 1


@SIZES
def test_values_that_hardly_change_are_refused(size):
    with pytest.raises(StatisticsError, match=r"one: masking would change 0\.\d\d% .* must change at least"):
        calibrated(mixed(CODES[:size], 0.001), CODES[:size])


@SIZES
def test_values_other_than_the_most_frequent_that_hardly_change_are_refused(size):
    values = CODES[:size]
    rows = mixed(values, 0.001) | {values[0]: dict.fromkeys(values, 1.0 / size)}
    with pytest.raises(StatisticsError, match="one, apart from its most frequent value: masking would change 0"):
        calibrated(rows, values, mode=1_000)


@SIZES
def test_a_permutation_is_refused(size):
    with pytest.raises(StatisticsError, match=r"100% of the values that masking changes .* single possible original"):
        calibrated(rotated(CODES[:size]), CODES[:size])


def test_a_permutation_of_the_most_frequent_values_alone_is_not_refused():
    values, others = CODES[:66], CODES[66:200]
    rows = rotated(values) | {value: dict.fromkeys(others, 1.0 / len(others)) for value in others}
    assert calibrated(rows, values + others).statistics.version == 1


def test_a_single_value_is_known_without_masks_and_not_checked():
    made = Exponential({"one": TAU}, epsilon=500.0, seed=b"sixteen bytes...")
    made.learn_many([{"one": "c0"}] * 12)
    assert made.calibrate().records == 12


def test_the_risk_counts_a_permutation_of_few_records_as_certain():
    few, others = CODES[:5], CODES[5:20]
    rows = rotated(few) | {value: dict.fromkeys(others, 1.0 / len(others)) for value in others}
    made = calibrated(rows, others * 3 + few)
    share = (
        made.counts.values[0].counts[np.isin(TAU.decode(made.counts.values[0].keys), few)].sum() / made.counts.records
    )
    assert made.risk(draws=50).value["one"].certain == pytest.approx(share)
