"""The concepts that have occurred, and the shares of those of one depth."""

import base64
import math
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.graphs import taxonomies

from stream_masker.core.ontology import Ontology
from stream_masker.core.statistics import roll_up, unpack_observed
from stream_masker.core.statistics.counts import count_keys
from stream_masker.core.statistics.packing import pack_observed
from stream_masker.errors import StatisticsError


@given(bits=st.lists(st.booleans(), min_size=1, max_size=100))
def test_packed_masks_unpack(bits):
    mask = np.array(bits)
    np.testing.assert_array_equal(unpack_observed(pack_observed(mask), len(bits)), mask)


@pytest.mark.parametrize(
    "text",
    [
        "not base64!",
        "AAAA",
        "",
        pack_observed(np.ones(16, dtype=bool)),
        base64.b64encode(zlib.compress(bytes(10**6))).decode(),
    ],
)
def test_other_texts_are_rejected(text):
    with pytest.raises(StatisticsError):
        unpack_observed(text, 40)


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
def test_shares_equal_the_literal_roll_up(sample):
    tau, values, depth = sample
    shares = roll_up(counted(tau, values), tau, depth)
    assert shares == pytest.approx(literal_roll_up(tau, values, depth))
    assert math.fsum(shares.values()) == pytest.approx(1.0)


def test_a_value_below_two_concepts_is_divided_between_them():
    tau = Ontology.from_edges([("a", "r"), ("b", "r"), ("c", "a"), ("c", "b")]).taxonomy()
    assert roll_up(counted(tau, ["c", "c", "r", "a"]), tau, 2) == {"r": 0.25, "a": 0.5, "b": 0.25}
    assert roll_up(counted(tau, ["c", "a"]), tau, 1) == {"r": 1.0}
    assert roll_up(counted(tau, []), tau, 2) == {}
