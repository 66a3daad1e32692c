"""The packing of observed concepts, and the share of novel values."""

import base64
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_masker.core.statistics.counts import count_keys
from stream_masker.core.statistics.rollup import novel_share, observed_concepts, pack_observed, unpack_observed
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


def test_the_share_of_novel_values():
    counts = count_keys(np.array([1, 1, 3, 5]))
    observed = np.zeros(6, dtype=bool)
    observed[[3, 4]] = True
    assert novel_share(counts, observed) == 0.75
    np.testing.assert_array_equal(np.flatnonzero(observed_concepts(counts, 6)), [1, 3, 5])
    assert novel_share(count_keys(np.zeros(0, dtype=np.int64)), observed) == 0.0
