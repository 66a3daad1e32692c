"""Transport of the three diagnoses of the real discharges, whose law is not Markov along the tree of the attributes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from support.data import discharges, icd9cm

from stream_masker.core.arrays import offsets_from_lengths
from stream_masker.core.batch import Batch, Column
from stream_masker.core.mechanisms import SemanticNoise, SemanticTransport
from stream_masker.core.mechanisms.transport.field.disclosure import FieldRisk
from stream_masker.core.mechanisms.transport.field.records import TreeRecords
from stream_masker.core.mechanisms.transport.field.solver import LAW_ERROR, solution_of
from stream_masker.core.mechanisms.transport.tree.cores import joints_of
from stream_masker.core.ontology import UNKNOWN, ConceptMap
from stream_masker.core.random.keys import PositionKeys
from stream_masker.core.statistics import compute_statistics, count_batch

SEED = b"a seed of many bytes"
NAMES = ("diag_1", "diag_2", "diag_3")
LINKS = {(0, 1), (1, 2)}
REPEATS = 4


@pytest.fixture(scope="module")
def tau():
    return icd9cm().taxonomy()


@pytest.fixture(scope="module")
def codes(tau):
    """(3, n) int32: the diagnoses of all discharges that have three."""
    find = ConceptMap(tau, unknown="ancestor", ontology=icd9cm()).resolve
    found = np.array([[find(row[name])[0] for name in NAMES] for row in discharges()], np.int32)
    return np.ascontiguousarray(found[(found != UNKNOWN).all(axis=1)].T)


@pytest.fixture(scope="module")
def noise_risk(tau, codes):
    """The risk of semantic noise, whose RMSE is the target of transport."""
    return calibrated(
        SemanticNoise(dict.fromkeys(NAMES, tau), reference="root", rounding="calibrated", seed=SEED), codes
    ).risk()


@pytest.fixture(scope="module")
def made(tau, codes, noise_risk):
    target = {"rmse": dict(noise_risk.rmse)}
    return calibrated(SemanticTransport(dict.fromkeys(NAMES, tau), target=target, seed=SEED), codes)


@pytest.fixture(scope="module")
def field(made):
    (found,) = made._prepared_statistics().fields
    return found


@pytest.fixture(scope="module")
def exact(made, field, codes):
    """The problem of the field with the real records instead of those of a Markov law, and its masked law."""
    prepared = made._prepared_statistics()
    rows = [prepared.values[j].indices(codes[j]) for j in field.links.attributes]
    distinct, counts = np.unique(np.stack(rows, axis=1), axis=0, return_counts=True)
    starts = offsets_from_lengths(np.bincount(distinct[:, 0], minlength=field.links.sizes[0]))
    records = TreeRecords(np.ascontiguousarray(distinct, np.int32), counts / counts.sum(), starts)
    problem = replace(prepared.prepared_fields[0].problem, records=records)
    return problem, solution_of(problem, field)


@pytest.fixture(scope="module")
def masked(made, codes):
    """The masked records of several maskings."""
    size = codes.shape[1]
    keys = [PositionKeys(b"sixteen bytes, more", "t", 0, np.arange(size) + k * size) for k in range(REPEATS)]
    return [made.mask_batch(batch_of(codes), each) for each in keys]


def batch_of(codes):
    return Batch(codes.shape[1], tuple(Column(np.ascontiguousarray(column)) for column in codes))


def calibrated(made, codes):
    counts = count_batch(batch_of(codes), [len(d.taxonomy) for d in made.distances])
    return made.with_statistics(made.compute(counts, version=1), counts)


def after(made, masked):
    """The statistics of the masked records of all maskings."""
    codes = np.concatenate([[column.codes for column in found.columns] for found in masked], axis=1)
    counts = count_batch(batch_of(codes), [len(d.taxonomy) for d in made.distances])
    return compute_statistics(counts, NAMES, made.distances, version=1)


def test_the_second_diagnosis_is_linked_with_both_others(field):
    nodes, parents = field.links.attributes, field.links.parents
    assert {tuple(sorted((nodes[parents[n]], nodes[n]))) for n in (1, 2)} == LINKS


def test_every_real_record_is_explained(exact):
    assert (exact[1].totals > 0.0).all()


def test_linked_pairs_keep_their_law(field, exact):
    """The total variation between the law of masked pairs and that of the window: exact, and below 0.04."""
    for node in (1, 2):
        assert 0.01 < np.abs(exact[1].pairs[node - 1] - field.links.law(node)).sum() / 2.0 < 0.04


def test_linked_pairs_of_a_markov_law_keep_their_law(made, field):
    solution = made._prepared_statistics().prepared_fields[0].solution
    for node in (1, 2):
        assert np.abs(solution.pairs[node - 1] - field.links.law(node)).sum() <= LAW_ERROR


def test_values_keep_their_law(exact):
    for joint in joints_of(*exact).values():
        assert np.abs(joint.sum(axis=0) - joint.sum(axis=1)).sum() / 2.0 < 0.01


def test_statistics_are_preserved(made, masked):
    before, found = made.statistics, after(made, masked)
    for name in NAMES:
        assert found.mean[name] == before.mean[name]
        assert found.variance[name] == pytest.approx(before.variance[name], rel=0.01)
    for link in LINKS:
        assert found.correlation[link] == pytest.approx(before.correlation[link], abs=0.005)


def test_the_correlation_of_a_pair_that_is_not_linked_is_kept_as_far_as_the_links_explain_it(made, masked):
    """The sdCor of the first and the third diagnosis, 0.141, falls by about 0.01."""
    assert -0.015 < after(made, masked).correlation[0, 2] - made.statistics.correlation[0, 2] < -0.002


def test_the_distance_is_met(masked, noise_risk):
    for j, name in enumerate(NAMES):
        squares = sum(found.distortions[j].squared_distance for found in masked)
        values = sum(found.distortions[j].values for found in masked)
        assert (squares / values) ** 0.5 == pytest.approx(noise_risk.rmse[name], abs=0.005)


def test_every_diagnosis_is_guessed_right_less_often_than_with_noise_of_the_same_distance(made, exact, noise_risk):
    """From its own mask; for the real records, and as the figures of disclosure say."""
    real = {NAMES[j]: joint.max(axis=0).sum() for j, joint in joints_of(*exact).items()}
    figures = made.disclosure().vulnerability
    for name in NAMES:
        assert real[name] == pytest.approx(figures[name], abs=0.01)
        assert max(real[name], figures[name]) < noise_risk.vulnerability[name] - 0.1


def test_all_masks_of_real_records_tell_hardly_more_than_the_figures_say(made, field, exact):
    """The figures are those of a Markov law. The real records have other combinations of values with the same pairs."""
    problem, solution = exact
    channel = made._prepared_statistics().prepared_fields[0].channel
    real = FieldRisk.of(channel, field.links, problem.records, solution.totals)
    figures = made.disclosure().given_record
    stated = np.array([figures[NAMES[j]] for j in field.links.attributes])
    assert (np.abs(real.of_nodes - stated) < 0.02 + real.bound).all()
    assert real.of_nodes.max() < stated.max() + 0.01 + real.bound
