"""Roll-ups against a literal walk; packed concepts there and back."""

import base64
import math
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.graphs import taxonomies

from stream_masker.core.ontology import Ontology
from stream_masker.core.statistics.counts import count_keys
from stream_masker.core.statistics.observed import novel_share, occurring, pack_mask, unpack_mask
from stream_masker.core.statistics.rollup import roll_up
from stream_masker.errors import StatisticsError


def counted(tau, values):
    return count_keys(tau.encode(values).astype(np.int64))


def literal_roll_up(tau, values, depth):
    shares = dict.fromkeys(tau.ids, 0.0)
    for value in values:
        above = [s for s in tau.ancestors_of(value) if tau.depth_of(s) == depth] or [value]
        for s in above:
            shares[s] += 1 / len(above) / len(values)
    return {s: share for s, share in shares.items() if share}


@st.composite
def samples(draw):
    tau = draw(taxonomies())
    return tau, draw(st.lists(st.sampled_from(tau.ids), min_size=1, max_size=30)), draw(st.integers(1, 5))


@given(sample=samples())
def test_shares_below_the_concepts_of_a_depth(sample):
    tau, values, depth = sample
    shares = roll_up(counted(tau, values), tau, depth)
    assert shares == pytest.approx(literal_roll_up(tau, values, depth))
    assert math.fsum(shares.values()) == pytest.approx(1.0)


def test_a_value_below_two_concepts_counts_half_for_each():
    tau = Ontology.from_edges([("a", "r"), ("b", "r"), ("c", "a"), ("c", "b")]).taxonomy()
    assert roll_up(counted(tau, ["c", "c", "r", "a"]), tau, 2) == {"r": 0.25, "a": 0.5, "b": 0.25}
    assert roll_up(counted(tau, ["c", "a"]), tau, 1) == {"r": 1.0}
    assert roll_up(counted(tau, []), tau, 2) == {}


@given(bits=st.lists(st.booleans(), min_size=1, max_size=100))
def test_what_is_packed_unpacks(bits):
    mask = np.array(bits)
    np.testing.assert_array_equal(unpack_mask(pack_mask(mask), len(bits)), mask)


@pytest.mark.parametrize(
    "text",
    [
        "not base64!",
        "AAAA",
        "",
        pack_mask(np.ones(16, dtype=bool)),
        base64.b64encode(zlib.compress(bytes(10**6))).decode(),
    ],
)
def test_anything_else_is_refused(text):
    with pytest.raises(StatisticsError):
        unpack_mask(text, 40)


def test_the_share_of_values_not_seen_before():
    counts = count_keys(np.array([1, 1, 3, 5]))
    seen = np.zeros(6, dtype=bool)
    seen[[3, 4]] = True
    assert novel_share(counts, seen) == 0.75
    np.testing.assert_array_equal(np.flatnonzero(occurring(counts, 6)), [1, 3, 5])
    assert novel_share(count_keys(np.zeros(0, dtype=np.int64)), seen) == 0.0
