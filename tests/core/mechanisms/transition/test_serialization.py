"""Arrays in a mechanism's model: round trips and damaged texts."""

from __future__ import annotations

import numpy as np
import pytest

from stream_masker.core.mechanisms.transition.serialization import pack_array, unpack_array
from stream_masker.errors import StatisticsError


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.float64])
def test_arrays_round_trip(dtype):
    array = np.array([1, 5, 2, 0], dtype)
    found = unpack_array(pack_array(array), dtype)
    np.testing.assert_array_equal(found, array)
    assert found.dtype == dtype


def test_packed_arrays_of_another_size_are_rejected():
    text = pack_array(np.zeros(1000, np.int64))
    for size in (999, 1001):
        with pytest.raises(StatisticsError, match="size"):
            unpack_array(text, np.int64, size)
    with pytest.raises(StatisticsError, match="size"):
        unpack_array(text, np.int64, max_size=10)
    for bad in ("", "%%%", None, text[:-8]):
        with pytest.raises(StatisticsError):
            unpack_array(bad, np.int64, 1000)
