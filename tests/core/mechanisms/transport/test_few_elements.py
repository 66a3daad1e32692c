"""Why only events of at most two elements are masked together with their scalar: the real diagnoses."""

from __future__ import annotations

import numpy as np
import pytest
from support.data import discharges, icd9cm

from stream_masker import SemanticTransport
from stream_masker.core.batch import Batch, Column
from stream_masker.core.mechanisms.transport.short.events import MAX_ELEMENTS
from stream_masker.core.mechanisms.transport.short.fitting import ShortProblem
from stream_masker.core.ontology import UNKNOWN, ConceptMap
from stream_masker.core.statistics import count_batch

pytestmark = pytest.mark.scheduled
NAMES = ("principal", "secondary")
RMSE = {"principal": 0.2003, "secondary": 0.2185}
"""That of semantic noise with α = 0.3."""


@pytest.fixture(scope="module")
def prepared():
    tau = icd9cm().taxonomy()
    find = ConceptMap(tau, unknown="ancestor", ontology=icd9cm()).resolve
    columns = ("diag_1", "diag_2", "diag_3")
    found = np.array([[find(row[name])[0] for name in columns] for row in discharges()], np.int32)
    first, *others = found[(found != UNKNOWN).all(axis=1)].T
    elements, offsets = np.stack(others, axis=1).ravel(), np.arange(0, 2 * first.size + 1, 2)
    batch = Batch(first.size, (Column(np.ascontiguousarray(first)), Column(elements, offsets)))
    made = SemanticTransport(dict.fromkeys(NAMES, tau), target={"rmse": RMSE}, seed=b"a seed of many bytes")
    counts = count_batch(batch, [len(tau)] * 2)
    made.restore(made.snapshot_of(made.compute(counts, version=1)))
    return made._prepared_statistics(), made._target


def chance_of_scalar(prepared, target, elements):
    """V(A | all masks) of events with a number of elements that are masked together with A."""
    squares = (prepared.squares32[0], prepared.squares32[1])
    wanted = np.array([RMSE[name] ** 2 for name in NAMES])
    problem = ShortProblem(prepared.edges[0], NAMES, prepared.values, squares, target, wanted, prepared.least)
    field = problem._fitted(elements, None)
    return float(prepared._prepared_field(field, [None] * (elements + 1)).risk().of_nodes[0])


def test_the_masks_of_more_elements_tell_more_than_those_of_elements_that_follow(prepared):
    made, target = prepared
    chances = [chance_of_scalar(made, target, elements) for elements in (1, 2, 3)]
    follows = float(made._joint_of_others(0).max(axis=0).sum())
    assert chances == pytest.approx([0.59, 0.66, 0.80], abs=0.01)
    assert follows == pytest.approx(0.71, abs=0.01)
    assert chances[MAX_ELEMENTS - 1] < follows < chances[MAX_ELEMENTS]
