"""Windows whose masks would change or hide too little are refused, with many values as with few."""

from __future__ import annotations

import numpy as np
import pytest

from stream_masker import Exponential, Ontology, Pram
from stream_masker.core.mechanisms.markov import TransitionMatrix
from stream_masker.errors import StatisticsError

CODES = [f"c{k}" for k in range(300)]
TAU = Ontology.from_edges([(code, "root") for code in CODES]).taxonomy()
SEED = b"sixteen bytes..."


def rotated(size):
    """Each value becomes the next one."""
    return np.roll(np.eye(size), 1, axis=1)


def mixed(size, changed):
    """Each value becomes any of the others with a probability, and otherwise stays."""
    return np.full((size, size), changed / (size - 1)) + (1.0 - changed - changed / (size - 1)) * np.eye(size)


def partly_rotated(size, few):
    """The first values become each other, and all others any of the others."""
    matrix = np.zeros((size, size))
    matrix[:few, :few], matrix[few:, few:] = rotated(few), 1.0 / (size - few)
    return matrix


def hidden_mode(size):
    """The first value becomes any; the others hardly change."""
    matrix = mixed(size, 0.001)
    matrix[0] = 1.0 / size
    return matrix


def calibrated(rows, mode=0, repeats=2):
    """Calibrate a matrix on each value some times, and ``mode`` further records of the first; the values have numbers
    in the order of the matrix."""

    class Given(Pram):
        def _matrix(self, values, counts, model):
            place = [CODES.index(code) for code in TAU.decode(values)]
            matrix = rows[np.ix_(place, place)]
            stay = matrix.diagonal().copy()
            np.fill_diagonal(matrix, 0.0)
            return TransitionMatrix(values, stay, np.vstack((matrix, counts)))

    made = Given({"one": TAU}, seed=SEED)
    made.learn_many([{"one": code} for code in CODES[: len(rows)] * repeats + CODES[:1] * mode])
    made.calibrate()
    return made


@pytest.mark.parametrize("size", [20, 200])
@pytest.mark.parametrize(
    ("rows", "mode", "message"),
    [
        (lambda size: mixed(size, 0.5), 1, None),
        (lambda size: partly_rotated(size, size // 3), 1, None),
        (lambda size: mixed(size, 0.001), 1, r"one: masking would change 0\.\d\d% .* must change at least"),
        (hidden_mode, 1_000, "one, apart from its most frequent value: masking would change 0"),
        (rotated, 1, r"100% of the values that masking changes .* single possible original"),
    ],
)
def test_masks_come_into_force_only_if_they_change_and_hide_enough(size, rows, mode, message):
    if message is None:
        assert calibrated(rows(size), mode).statistics.version == 1
        return
    with pytest.raises(StatisticsError, match=message):
        calibrated(rows(size), mode)


def test_a_single_value_is_known_without_masks_and_not_checked():
    made = Exponential({"one": TAU}, epsilon=500.0, seed=SEED)
    made.learn_many([{"one": "c0"}] * 12)
    assert made.calibrate().records == 12


def test_the_risk_counts_a_permutation_of_few_records_as_certain():
    made = calibrated(partly_rotated(20, 5), repeats=4)
    assert made.risk(draws=50).value["one"].certain == pytest.approx(5 / 20)
