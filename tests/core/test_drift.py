"""Drift between the statistics of two windows."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_masker.core.batch import Batch, Column
from stream_masker.core.distance import WuPalmer
from stream_masker.core.drift import drift_between, jensen_shannon
from stream_masker.core.ontology import Ontology
from stream_masker.core.statistics import compute_statistics, count_batch
from stream_masker.errors import ParameterError, StatisticsError

LINKS = [("a", "r"), ("b", "r"), ("a1", "a"), ("a2", "a"), ("b1", "b"), ("b2", "b")]
D = WuPalmer(Ontology.from_edges(LINKS).taxonomy())


def statistics(a, b, d=D, **parameters):
    columns = tuple(Column(d.taxonomy.encode(values)) for values in (a, b))
    counts = count_batch(
        Batch(len(a), columns), [len(d.taxonomy)] * 2, parameters.get("unknown"), parameters.pop("unknown", None)
    )
    return compute_statistics(counts, ["p", "q"], [d, d], **{"version": 1} | parameters)


OLD = statistics(["a1", "a1", "a2", "b1"], ["b1", "b1", "b2", "a1"])
NEW = statistics(["b1", "b1", "b2", "b2"], ["a1", "b1", "b2", "a1"], version=2, previous=OLD, unknown=[1, 0])


def test_equal_statistics_have_no_drift():
    drift = drift_between(OLD, OLD, [D, D])
    for measures in drift.to_dict()["attributes"].values():
        assert set(measures.values()) == {0.0}
    assert drift.to_dict()["pairs"] == [{"attributes": ["p", "q"], "covariance": 0.0, "correlation": 0.0}]


def test_every_measure():
    drift = drift_between(NEW, OLD, [D, D])
    p = drift.attributes["p"]
    assert (drift.version, drift.since) == (2, 1)
    assert (OLD.mean["p"], NEW.mean["p"]) == ("a1", "b1")
    assert p.mean == D("a1", "b1")
    assert p.variance == abs(NEW.variance["p"] - OLD.variance["p"]) > 0
    assert p.distance_variance == abs(NEW.covariance[0, 0] - OLD.covariance[0, 0]) > 0
    assert p.divergence == pytest.approx(
        0.5 * math.log2(1 / 0.625) + 0.5 * (0.75 * math.log2(0.75 / 0.375) + 0.25 * math.log2(0.25 / 0.625))
    )
    assert p.unknown == 0.2
    assert p.novel == 0.5
    pair = drift.pairs["p", "q"]
    assert pair.covariance == abs(NEW.covariance[0, 1] - OLD.covariance[0, 1]) > 0
    assert pair.correlation == abs(NEW.correlation[0, 1] - OLD.correlation[0, 1]) > 0


SHARES = st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 50), min_size=1).map(
    lambda weights: {key: n / sum(weights.values()) for key, n in weights.items()}
)


@given(p=SHARES, q=SHARES)
def test_divergence_is_a_bounded_symmetric_difference_of_entropies(p, q):
    def entropy(shares):
        return -sum(x * math.log2(x) for x in shares if x > 0)

    keys = sorted({*p, *q})
    middle = [(p.get(key, 0) + q.get(key, 0)) / 2 for key in keys]
    literal = entropy(middle) - (entropy(p.values()) + entropy(q.values())) / 2
    assert jensen_shannon(p, q) == pytest.approx(literal, abs=1e-12)
    assert jensen_shannon(p, q) == jensen_shannon(q, p)
    assert 0.0 <= jensen_shannon(p, q) <= 1.0


@pytest.mark.parametrize("root", ["a", "b"])
def test_concepts_missing_from_the_taxonomy_are_an_error(root):
    lost = WuPalmer(Ontology.from_edges(LINKS).taxonomy(root=root))
    with pytest.raises(StatisticsError, match=r"statistics of p name \d concepts that its taxonomy does not hold"):
        drift_between(NEW, OLD, [lost, D])


def test_statistics_of_other_attributes_cannot_be_compared():
    single = count_batch(Batch(1, (Column(np.array([1], dtype=np.int32)),)), [len(D.taxonomy)])
    other = compute_statistics(single, ["p"], [D], version=1)
    with pytest.raises(StatisticsError, match="same attributes"):
        drift_between(NEW, other, [D, D])
    with pytest.raises(ParameterError, match="2 attributes and 1 distances"):
        drift_between(NEW, OLD, [D])
