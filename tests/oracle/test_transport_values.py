"""The values of a transport: the nearest one of any concept, and their distances, against plain matrices."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.graphs import taxonomies

from stream_masker.core.distance import LogTaxonomic, WuPalmer
from stream_masker.core.mechanisms.transport.values import Values, nearest_values


def some(draw, size):
    """(k,) int32 ascending: some positions of a taxonomy."""
    return np.array(sorted(draw(st.sets(st.integers(0, size - 1), min_size=1))), np.int32)


@pytest.mark.parametrize("measure", [WuPalmer, LogTaxonomic])
@given(tau=taxonomies(), data=st.data())
def test_the_nearest_value_is_the_first_of_least_distance(measure, tau, data):
    distance, positions = measure(tau), some(data.draw, len(tau))
    codes = np.arange(len(tau), dtype=np.int32)
    found = nearest_values(distance, positions, codes)
    distances = distance.between(codes, positions)
    np.testing.assert_array_equal(found, distances.argmin(axis=1))


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
