"""Concepts that enough records share, by the counts of a window."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from support.graphs import taxonomies

from stream_masker.core.ontology import Ontology
from stream_masker.core.ontology.taxonomy import NO_POSITION, nearest
from stream_masker.core.statistics.counts import SparseCounts, count_keys
from stream_masker.pipeline.rollups import shared_concepts


def counted(tau, values):
    return count_keys(tau.encode(values).astype(np.int64))


@st.composite
def windows(draw):
    """Records with a concept and a noise key each, and the least number that share a result."""
    tau = draw(taxonomies())
    records = st.tuples(st.sampled_from(tau.ids), st.integers(0, 20))
    return tau, draw(st.lists(records, max_size=60)), draw(st.integers(2, 12))


@given(window=windows(), keyed=st.booleans())
def test_no_result_has_fewer_records_or_noise_keys(window, keyed):
    tau, records, least = window
    positions = tau.encode([concept for concept, _ in records]).astype(np.int64)
    slots = np.array([key for _, key in records], np.int64) if keyed else None
    results = nearest(tau, shared_concepts(count_keys(positions, slots), tau, least))[positions]
    for result in set(results.tolist()) - {NO_POSITION}:
        keys = [key for (_, key), position in zip(records, results, strict=True) if position == result]
        assert len(keys) >= least
        assert not keyed or len(set(keys)) >= least
    lost = [key for (_, key), position in zip(records, results, strict=True) if position == NO_POSITION]
    assert len(set(lost) if keyed else lost) < least


@given(window=windows())
def test_a_concept_with_enough_records_stays(window):
    tau, records, least = window
    counts = counted(tau, [concept for concept, _ in records])
    is_shared = shared_concepts(counts, tau, least)
    assert is_shared[counts.keys[counts.counts >= least]].all()


def test_rare_concepts_are_put_together_at_the_nearest_ancestor():
    tau = Ontology.from_edges([("a", "r"), ("b", "r"), *((f"a{k}", "a") for k in range(4)), ("b1", "b")]).taxonomy()
    counts = counted(tau, ["a0"] * 5 + ["a1"] * 2 + ["a2"] * 3 + ["a3"] + ["b1"] * 4)
    assert tau.decode(np.flatnonzero(shared_concepts(counts, tau, 5))) == ["a", "a0"]
    assert tau.decode(np.flatnonzero(shared_concepts(counts, tau, 4))) == ["a", "a0", "b1"]
    assert not shared_concepts(counts, tau, 16).any()


def test_a_root_that_is_no_value_is_no_result():
    tau = Ontology.from_values(["x", "y", "z"], root="any").taxonomy()
    assert not shared_concepts(SparseCounts(np.arange(1, 4), np.array([2, 2, 2])), tau, 3).any()
