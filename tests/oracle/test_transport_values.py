"""The values of a transport: the nearest one of any concept, and their distances, against plain matrices."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.graphs import taxonomies

from stream_masker.core.distance import LogTaxonomic, WuPalmer
from stream_masker.core.mechanisms.transport import values as nearest
from stream_masker.core.mechanisms.transport.values import Values, nearest_values, values_below
from stream_masker.core.ontology import Ontology


def some(draw, size):
    """(k,) int32 ascending: some positions of a taxonomy."""
    return np.array(sorted(draw(st.sets(st.integers(0, size - 1), min_size=1))), np.int32)


@pytest.mark.parametrize("measure", [WuPalmer, LogTaxonomic])
@given(tau=taxonomies(), data=st.data())
def test_the_nearest_value_is_the_first_of_least_distance(measure, tau, data):
    distance, positions = measure(tau), some(data.draw, len(tau))
    codes = np.arange(len(tau), dtype=np.int32)
    found = nearest_values(distance, positions, values_below(distance, positions), codes)
    distances = distance.between(codes, positions)
    np.testing.assert_array_equal(found, distances.argmin(axis=1))


@pytest.fixture
def two_ways():
    """A graph in which the value that is fewest links below an ancestor shares a deeper, but farther, ancestor."""
    edges = [(f"s{k}", f"s{k - 1}") for k in range(1, 5)] + [("s0", "root"), ("u", "root")]
    far = [("w0", "s4"), *((f"w{k}", f"w{k - 1}") for k in range(1, 30))]
    return Ontology.from_edges([*edges, *far, ("code", "w29"), ("code", "u"), ("near", "u"), ("near", "s4")]).taxonomy()


def test_a_bound_that_no_value_has_is_not_trusted(two_ways, monkeypatch):
    """All values are compared then, and only then."""
    compared = []
    original = nearest._compared
    monkeypatch.setattr(nearest, "_compared", lambda *given: compared.append(given[2].size) or original(*given))
    distance = WuPalmer(two_ways)
    positions = np.sort(two_ways.encode(["near", "w3", "s2"]))
    codes = np.arange(len(two_ways), dtype=np.int32)
    found = nearest_values(distance, positions, values_below(distance, positions), codes)
    np.testing.assert_array_equal(found, distance.between(codes, positions).argmin(axis=1))
    assert 0 < sum(compared) <= 2


def test_in_a_tree_no_concept_is_compared_with_all_values(monkeypatch):
    monkeypatch.setattr(nearest, "_compared", None)
    rng = np.random.default_rng(1)
    tau = Ontology.from_edges([(f"c{k}", f"c{rng.integers(0, k)}") for k in range(1, 500)]).taxonomy()
    positions = np.sort(rng.choice(500, 40, replace=False)).astype(np.int32)
    values = Values.of(WuPalmer(tau), positions, np.ones(40, np.int64))
    codes = np.arange(500, dtype=np.int32)
    np.testing.assert_array_equal(values.indices(codes), values.distance.between(codes, positions).argmin(axis=1))


@given(tau=taxonomies(), data=st.data())
def test_all_concepts_of_a_tree_are_located_at_once(tau, data):
    positions = some(data.draw, len(tau))
    values = Values.of(WuPalmer(tau), positions, np.ones(positions.size, np.int64))
    values.locate_all()
    codes = np.arange(len(tau), dtype=np.int32)
    if tau.is_tree:
        np.testing.assert_array_equal(values.index_of, values.distance.between(codes, positions).argmin(axis=1))
    else:
        np.testing.assert_array_equal(np.flatnonzero(values.index_of >= 0), positions)


@given(tau=taxonomies(), data=st.data())
def test_values_remember_the_nearest_one_of_new_codes(tau, data):
    """Found for several at once or one by one, and known after that."""
    positions = some(data.draw, len(tau))
    values = Values.of(WuPalmer(tau), positions, np.ones(positions.size, np.int64))
    codes = np.arange(len(tau), dtype=np.int32)
    wanted = values.distance.between(codes, positions).argmin(axis=1)
    half = codes[::2]
    np.testing.assert_array_equal(values.indices(half), wanted[::2])
    assert [values.index(int(code)) for code in codes] == wanted.tolist()
    np.testing.assert_array_equal(values.index_of, wanted)
    np.testing.assert_array_equal(values.indices(np.array([-1, 0], np.int32)), [-1, wanted[0]])
