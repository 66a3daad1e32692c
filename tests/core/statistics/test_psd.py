"""The nearest positive semidefinite matrix."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_masker.core.statistics import nearest_psd

ROOT_OF_PSD = np.sqrt([[1.0, 0.6, 0.0], [0.6, 1.0, 0.6], [0.0, 0.6, 1.0]])
"""The elementwise root of a positive semidefinite matrix, which is not positive semidefinite."""


def test_an_indefinite_matrix_is_projected():
    nearest, norm = nearest_psd(ROOT_OF_PSD)
    least = np.linalg.eigvalsh(ROOT_OF_PSD)[0]
    assert least < -0.09
    assert np.linalg.eigvalsh(nearest)[0] == pytest.approx(0.0, abs=1e-12)
    assert norm == pytest.approx(-least)
    assert norm == pytest.approx(np.linalg.norm(nearest - ROOT_OF_PSD))
    np.testing.assert_array_equal(nearest, nearest.T)


def test_a_positive_semidefinite_matrix_is_returned_unchanged():
    matrix = np.array([[0.2, 0.1], [0.1, 0.05]])
    nearest, norm = nearest_psd(matrix)
    assert nearest is matrix
    assert norm == 0.0


@given(numbers=st.lists(st.floats(-1, 1), min_size=9, max_size=9), others=st.lists(st.floats(-1, 1), min_size=9))
def test_no_other_positive_semidefinite_matrix_is_nearer(numbers, others):
    matrix = np.array(numbers).reshape(3, 3)
    matrix = matrix + matrix.T
    root = np.array(others[:9]).reshape(3, 3)
    nearest, norm = nearest_psd(matrix)
    assert norm <= np.linalg.norm(root @ root.T - matrix) + 1e-9
    assert np.linalg.eigvalsh(nearest)[0] >= -1e-9
