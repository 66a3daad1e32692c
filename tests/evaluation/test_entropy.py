"""Entropies of records and confidential values."""

from __future__ import annotations

import numpy as np
import pytest
from support.nominal import BANK, batch_of, flat_taxonomies

from stream_masker.core.batch import Batch, Column, MaskedBatch
from stream_masker.core.mechanisms import ProbabilisticDistortion, Vicus
from stream_masker.core.random import PositionKeys
from stream_masker.errors import ParameterError
from stream_masker.evaluation.co_occurrence import average_security, entropy, posterior, security, value_indices


def random_file(seed, sizes=(4, 3, 5), n=60):
    rng = np.random.default_rng(seed)
    matrices = [rng.dirichlet(np.ones(v), v) for v in sizes]
    original = np.stack([rng.integers(0, v, n) for v in sizes], axis=1)
    masked = np.array(
        [[rng.choice(v, p=m[i]) for i, v, m in zip(row, sizes, matrices, strict=True)] for row in original]
    )
    return original, masked, matrices


def original_probability(matrix, prior, i, masked):
    joint = [prior[k] * matrix[k, masked] for k in range(len(matrix))]
    return joint[i] / sum(joint)


@pytest.mark.parametrize("known", [[0], [1], [0, 1]])
def test_entropies_equal_algorithm_2(known):
    """2012: algorithm 2, with explicit loops."""
    original, masked, matrices = random_file(1)
    prior = [np.ones(len(matrix)) for matrix in matrices]
    records, values = [], []
    for target in original:
        likely = [
            np.prod([original_probability(matrices[k], prior[k], target[k], x[k]) for k in known]) for x in masked
        ]
        p = [each / sum(likely) for each in likely]
        d = np.zeros(5)
        for x, px in zip(masked, p, strict=True):
            for i in range(5):
                d[i] += original_probability(matrices[2], prior[2], i, x[2]) * px
        records.append(sum(each * np.log2(1 / each) for each in p if each > 0))
        values.append(sum(each * np.log2(1 / each) for each in d if each > 0))
    found = security(original, masked, matrices, known=known, confidential=2)
    assert found.record == pytest.approx(np.mean(records))
    assert found.confidential == pytest.approx(np.mean(values))


def test_without_noise_only_records_with_the_known_value_are_possible():
    original = np.array([[0, 0], [0, 1], [0, 1], [1, 0]])
    found = security(original, original, [np.eye(2), np.eye(2)], known=[0], confidential=1)
    third = np.array([1 / 3, 2 / 3])
    assert found.record == pytest.approx(3 / 4 * np.log2(3))
    assert found.confidential == pytest.approx(3 / 4 * entropy(third))


def test_uniform_noise_makes_all_records_and_values_equally_likely():
    original, _, _ = random_file(2)
    matrices = [np.full((v, v), 1 / v) for v in (4, 3, 5)]
    found = security(original, original, matrices, known=[0, 1], confidential=2)
    assert found.record == pytest.approx(np.log2(60))
    assert found.confidential == pytest.approx(np.log2(5))


def test_entropy_is_0_for_certainty_and_maximal_for_equal_probabilities():
    assert entropy(np.array([[1.0, 0, 0, 0], [0.25] * 4])).tolist() == [0.0, 2.0]


def test_the_posterior_follows_from_bayes_theorem():
    matrix = np.array([[0.9, 0.1, 0.0], [0.3, 0.7, 0.0], [0.5, 0.5, 0.0]])
    found = posterior(matrix)
    np.testing.assert_allclose(found[:, 0], np.array([0.9, 0.3, 0.5]) / 1.7)
    np.testing.assert_allclose(found[:, 2], 1 / 3)
    np.testing.assert_allclose(found.sum(axis=0), 1.0)


def masked_bank(kind=Vicus, **parameters):
    taxonomies = flat_taxonomies(BANK)
    mechanism = kind(taxonomies, seed=b"s...............", **parameters)
    mechanism.learn_many(BANK)
    mechanism.calibrate()
    batch = batch_of(BANK, taxonomies)
    return mechanism, batch, mechanism.mask_batch(batch, PositionKeys(b"s", "t", 0, np.arange(batch.size)))


def test_entropy_decreases_with_the_number_of_known_attributes():
    mechanism, batch, masked = masked_bank(k1=20, k2=20)
    found = [average_security(mechanism, batch, masked, confidential="product", known=k).record for k in (1, 2, 3)]
    assert found == sorted(found, reverse=True)
    assert found[0] < np.log2(len(BANK))


def test_entropy_increases_with_noise():
    found = [average_security(*masked_bank(k1=k), confidential="product") for k in (20, 1)]
    assert found[0].record < found[1].record
    assert found[0].confidential < found[1].confidential


def test_masks_that_are_independent_of_values_reveal_nothing():
    found = average_security(*masked_bank(ProbabilisticDistortion), confidential="product", known=3)
    assert found.record == pytest.approx(np.log2(len(BANK)))
    assert found.confidential == pytest.approx(2.0)


@pytest.mark.parametrize("known", [[], [2], [0, 2]])
def test_the_confidential_attribute_must_not_be_known(known):
    with pytest.raises(ParameterError, match="known"):
        security(*random_file(3), known=known, confidential=2)


@pytest.mark.parametrize("known", [0, 4])
def test_the_number_of_known_attributes_is_limited(known):
    with pytest.raises(ParameterError, match="1 to 3"):
        average_security(*masked_bank(), confidential="product", known=known)


def test_arrays_and_absent_values_are_refused():
    mechanism, batch, masked = masked_bank()
    absent = Batch(batch.size, (Column(np.full(batch.size, -1, np.int32)), *batch.columns[1:]))
    array = MaskedBatch(
        (Column(batch.columns[0].codes, np.arange(batch.size + 1)), *masked.columns[1:]), masked.distortions
    )
    with pytest.raises(ParameterError, match=r"^entropies need every value to be present and in the window$"):
        value_indices(mechanism, absent.columns)
    with pytest.raises(ParameterError, match=r"^entropies are defined for scalar attributes only, not for arrays$"):
        average_security(mechanism, batch, array, confidential="product")
