"""Secrets that are refused, and the distributions of variates; ``tests/oracle/test_random.py`` has the words."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import kstest

from stream_masker.core.random import FieldKeys, PositionKeys, Secret, exponential_roots, normals
from stream_masker.errors import ParameterError

LEAST_CHANCE = 1e-6
"""Of a statistic as great by chance: words are fixed, so that a test passes always or never."""


@pytest.mark.parametrize(("secret", "found"), [(b"short", "5 bytes"), ("text", "of type str")])
def test_other_secrets_are_rejected(secret, found):
    for create in (
        lambda: PositionKeys(secret, "topic", 0, np.zeros(1, np.int64)),
        lambda: FieldKeys(secret, [b"0"]),
        lambda: Secret(secret),
    ):
        with pytest.raises(ParameterError, match=f"^seed is {found}: use at least 16 secret bytes"):
            create()


def test_variates_have_their_distributions():
    words = np.random.default_rng(1).integers(0, 1 << 64, (60_000, 2), np.uint64)
    assert kstest(normals(words), "norm").pvalue > LEAST_CHANCE
    assert kstest(exponential_roots(words[:, 0]) ** 2, "expon").pvalue > LEAST_CHANCE
    extreme = np.array([[0, 0], [2**64 - 1, 2**64 - 1], [2**64 - 1, 0]], np.uint64)
    assert np.isfinite(normals(extreme)).all()
    assert np.isfinite(exponential_roots(extreme[:, 0])).all()
