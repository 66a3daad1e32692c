"""Read-only arrays and compressed rows."""

import numpy as np
import pytest

from stream_masker.core.arrays import frozen_array, offsets_from_lengths, ranges


def test_a_frozen_array_is_a_contiguous_read_only_view():
    array = np.arange(6)
    frozen = frozen_array(array[::2])
    assert frozen.flags.c_contiguous
    assert frozen.tolist() == [0, 2, 4]
    with pytest.raises(ValueError, match="read-only"):
        frozen[0] = 1
    array[0] = 9
    assert array.flags.writeable


@pytest.mark.parametrize(("lengths", "offsets"), [([], [0]), ([2, 0, 3], [0, 2, 2, 5])])
def test_offsets_are_cumulative_lengths(lengths, offsets):
    result = offsets_from_lengths(np.array(lengths, np.int32))
    assert result.dtype == np.int64
    assert result.tolist() == offsets


def test_ranges_are_concatenated():
    assert ranges(np.array([5, 0, 7, 2]), np.array([2, 3, 0, 1])).tolist() == [5, 6, 0, 1, 2, 2]
    assert ranges(np.zeros(0, np.int64), np.zeros(0, np.int64)).size == 0
