"""An attack on masked real records: the best guess of each of three diagnoses by someone who knows the channel."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from support.data import discharges, icd9cm

from stream_masker import SemanticTransport
from stream_masker.core.batch import Batch, Column
from stream_masker.core.mechanisms import mechanism
from stream_masker.core.mechanisms.transport.field.messages import Layout
from stream_masker.core.mechanisms.transport.field.records import TreeRecords
from stream_masker.core.mechanisms.transport.field.solver import evaluate
from stream_masker.core.ontology import UNKNOWN, ConceptMap
from stream_masker.core.random.keys import PositionKeys
from stream_masker.core.statistics import count_batch

SEED = b"a seed of many bytes"
NAMES = ("diag_1", "diag_2", "diag_3")
ATTACKED = 2_500
STANDARD_ERRORS = 3.0 * 0.5 / np.sqrt(ATTACKED)
NOT_MARKOV = 0.005
"""What real records tell beyond records that have the window's pairs only (``test_tree_targets``)."""


def real_codes():
    """(3, n) int32: the diagnoses of all real discharges that have all of them."""
    find = ConceptMap(icd9cm().taxonomy(), unknown="ancestor", ontology=icd9cm()).resolve
    found = np.array([[find(row[name])[0] for name in NAMES] for row in discharges()])
    return found[(found != UNKNOWN).all(axis=1)].T.astype(np.int32)


def calibrated(made, batch):
    counts = count_batch(batch, [len(d.taxonomy) for d in made.distances])
    return made.with_statistics(made.compute(counts, version=1), counts)


@pytest.fixture(scope="module")
def batch():
    codes = real_codes()
    return Batch(codes.shape[1], tuple(Column(np.ascontiguousarray(column)) for column in codes))


@pytest.fixture(scope="module")
def noise(batch):
    """The risk of semantic noise with the diagnosis of the record as the reference."""
    taxonomies = dict.fromkeys(NAMES, icd9cm().taxonomy())
    return calibrated(
        mechanism("semantic_noise")(taxonomies, reference="root", rounding="calibrated", seed=SEED), batch
    ).risk(draws=10)


def share_of_right_guesses(made, batch, repeats=1):
    """(3,): the shares of values that are the most probable ones given all masks of ``repeats`` records with equal
    values; the prior is the window itself."""
    prepared = made._prepared_statistics()
    (field,), (problem,) = prepared.fields, [f.problem for f in prepared.prepared_fields]
    nodes = field.links.attributes
    indices = np.stack([prepared.values[j].indices(batch.columns[j].codes) for j in nodes], axis=1)
    window = TreeRecords._distinct(np.ascontiguousarray(indices.T), np.ones(batch.size), field.links.sizes[0])
    kernels = problem.kernels(field.sharpness)
    scales = list(field.scales)
    given = (Layout.of(field.links), field.sharpness, kernels, field.root_scale, scales, scales)
    shares = np.log(window.weights) - repeats * np.log(evaluate(replace(problem, records=window), *given).totals)
    keys = [PositionKeys(b"sixteen bytes, more", "t", number, np.arange(batch.size)) for number in range(repeats)]
    masked = [made.mask_batch(batch, each).columns for each in keys]
    with np.errstate(divide="ignore"):
        logs = [np.log(kernel.astype(np.float64)) for kernel in kernels]
    right = np.zeros((ATTACKED, len(nodes)))
    for m, i in enumerate(np.random.default_rng(1).choice(batch.size, ATTACKED, replace=False)):
        posterior = shares.copy()
        for node, j in enumerate(nodes):
            masks = [prepared.values[j].index_of[columns[j].codes[i]] for columns in masked]
            posterior += logs[node][:, masks].sum(axis=1)[window.indices[:, node]]
        posterior = np.exp(posterior - posterior.max())
        for node, j in enumerate(nodes):
            guess = np.bincount(window.indices[:, node], posterior).argmax()
            right[m, j] = guess == indices[i, node]
    return right.mean(axis=0)


def test_a_diagnosis_is_guessed_as_often_as_the_figures_say_and_less_often_than_with_noise(batch, noise):
    target = {"rmse": dict(noise.rmse)}
    made = calibrated(SemanticTransport(dict.fromkeys(NAMES, icd9cm().taxonomy()), target=target, seed=SEED), batch)
    risk = made.risk(draws=10)
    found = share_of_right_guesses(made, batch)
    error = STANDARD_ERRORS + NOT_MARKOV + risk.bound_of_record
    assert found == pytest.approx(list(risk.given_record.values()), abs=error)
    assert list(risk.rmse.values()) == pytest.approx(list(noise.rmse.values()), rel=5e-3)
    for name, share in zip(NAMES, found, strict=True):
        assert share < noise.vulnerability[name] - 0.05


def test_several_masks_of_a_record_tell_what_the_figures_say(batch):
    taxonomies = dict.fromkeys(NAMES, icd9cm().taxonomy())
    made = calibrated(SemanticTransport(taxonomies, target={"alpha": 0.3}, seed=SEED), batch)
    stated = made.repeated_risk(repeats=5, draws=2_500)
    found = share_of_right_guesses(made, batch, repeats=5)
    assert found == pytest.approx(list(stated.given_record.values()), abs=STANDARD_ERRORS + NOT_MARKOV + stated.bound)
    once = made.risk(draws=10)
    assert all(stated.given_record[name] > once.given_record[name] + 0.04 for name in NAMES)
