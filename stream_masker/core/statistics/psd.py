"""The nearest positive semidefinite matrix."""

from __future__ import annotations

import numpy as np

from stream_masker.core.dtypes import Float64Array

EIGENVALUE_ROUNDING = 1e-12
"""Negative eigenvalues down to this, relative to the largest one, are rounding errors and need no projection."""

MIN_EIGENVALUE_SHARE = -1e-9
"""The most negative eigenvalue, relative to the largest one, that rounding can leave in a positive semidefinite
matrix.
"""


def nearest_psd(matrix: Float64Array) -> tuple[Float64Array, float]:
    """Return the nearest positive semidefinite matrix to a symmetric (p, p) one, and the Frobenius norm of the change.

    Setting negative eigenvalues to 0 minimizes the Frobenius norm of the change (Higham 1988: theorem 2.1). Σ (2017:
    equation 22) can need it for three attributes or more, because the elementwise root of a positive semidefinite
    matrix need not be positive semidefinite; and for two, if their variances and covariance cover different rows. A
    matrix that needs no change is returned as it is, with norm 0.
    """
    if not matrix.size:
        return matrix, 0.0
    values, vectors = np.linalg.eigh(matrix)
    if values[0] >= -EIGENVALUE_ROUNDING * max(values[-1], 0.0):
        return matrix, 0.0
    product = (vectors * np.maximum(values, 0.0)) @ vectors.T
    nearest = (product + product.T) / 2.0
    return nearest, float(np.linalg.norm(nearest - matrix))


def is_positive_semidefinite(matrix: Float64Array) -> bool:
    """Return whether a matrix is symmetric and positive semidefinite, up to rounding."""
    if not matrix.size:
        return True
    if not np.array_equal(matrix, matrix.T):
        return False
    values = np.linalg.eigvalsh(matrix)
    return bool(values[0] >= MIN_EIGENVALUE_SHARE * max(float(values[-1]), 0.0))
