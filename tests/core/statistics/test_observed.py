"""The concepts that have occurred, and those above them of one depth."""

import base64
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.graphs import taxonomies

from stream_masker.core.statistics import unpack_observed
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


@given(tau=taxonomies(), depth=st.integers(1, 5))
def test_ancestors_at_a_depth_are_those_that_have_it(tau, depth):
    found = [set() for _ in tau.ids]
    for owner, concept in zip(*tau.ancestors_at(np.arange(len(tau)), depth), strict=True):
        found[owner].add(tau.ids[concept])
    assert found == [{s for s in tau.ancestors_of(c) if tau.depth_of(s) == depth} or {c} for c in tau.ids]
