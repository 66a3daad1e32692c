"""Microaggregation with units: k counts different units, such as persons, and not their records."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from stream_masker import Ontology
from stream_masker.core.anonymity import least_class
from stream_masker.core.batch import Batch, Column
from stream_masker.core.mechanisms import Microaggregation
from stream_masker.core.numeric import Numeric
from stream_masker.core.random import PositionKeys
from stream_masker.errors import ParameterError

TAU = Ontology.from_edges([(f"c{k}", f"c{k // 3}") for k in range(1, 40)]).taxonomy()
K = 4


def batches(seed, size, people, least=0):
    """Records with scalars from position ``least`` on (-1: absent), elements, and numbers, of at most ``people``."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(least, len(TAU), size).astype(np.int32)
    offsets = np.concatenate(([0], np.cumsum(rng.integers(0, 3, size))))
    elements = rng.integers(0, len(TAU), offsets[-1]).astype(np.int32)
    units = rng.integers(0, people, size)
    return Batch(size, (Column(codes), Column(elements, offsets)), numeric=rng.normal(size=(size, 1)), units=units)


@pytest.fixture(scope="module")
def mechanism():
    made = Microaggregation({"a": TAU, "b": TAU}, numeric={"x": Numeric()}, k=K, seed=b"seed............")
    made._window.add(batches(0, 300, 300))
    made.calibrate()
    return made


def masked(mechanism, batch):
    return mechanism.mask_batch(batch, PositionKeys(b"seed", "t", 0, np.arange(batch.size)))


def least_units(done, batch):
    """The least number of units in a class of equal records, and in a class of equal elements."""
    column = done.columns[1]
    repeats = np.repeat(batch.units, np.diff(column.offsets))
    elements = [len(set(repeats[column.codes == code].tolist())) for code in set(column.codes.tolist())]
    return least_class(Batch(batch.size, done.columns, numeric=done.numeric, units=batch.units)), min(elements)


@given(seed=st.integers(0, 1000), size=st.integers(60, 150), people=st.integers(2 * K, 60))
def test_every_class_has_k_units(mechanism, seed, size, people):
    batch = batches(seed, size, people)
    assume(batch.unit_count >= K)
    done = masked(mechanism, batch)
    assert min(least_units(done, batch)) >= K
    again = masked(mechanism, batch)
    assert np.array_equal(again.columns[0].codes, done.columns[0].codes)


def test_records_with_the_same_attributes_of_few_units_become_the_means_of_the_window(mechanism):
    batch = batches(5, 60, 60)
    batch.columns[0].codes[:10] = -1
    few = replace(batch, units=np.where(np.arange(60) < 10, np.arange(60) % (K - 1), np.arange(60)))
    done = masked(mechanism, few)
    assert (done.columns[0].codes[:10] == -1).all()
    assert len(set(done.numeric[:10, 0])) == 1
    enough = masked(mechanism, replace(batch, units=np.where(np.arange(60) < 10, np.arange(60) % K, np.arange(60))))
    assert done.numeric[0, 0] != enough.numeric[0, 0]


def test_a_single_unit_is_too_few(mechanism):
    batch = batches(1, 50, 1)
    with pytest.raises(ParameterError, match="groups of at least 4 different units, not 1"):
        masked(mechanism, batch)
