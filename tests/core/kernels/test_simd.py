"""Sums of vectors, whose order is the same on all processors."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_masker.core.kernels.jit import kernel
from stream_masker.core.kernels.simd import VECTOR_LANES, sum_of, sum_of_products

PROCESSORS = ("x86-64", "haswell", "znver3", "skylake-avx512")


@kernel
def product(one, other):
    return sum_of_products(one, other)


@kernel
def total(numbers):
    return sum_of(numbers)


def literal(numbers):
    """The sum of each lane, then of the halves of the lanes, then of the numbers after the last whole vector."""
    whole = numbers.size - numbers.size % VECTOR_LANES
    lanes = np.zeros(VECTOR_LANES, numbers.dtype)
    for row in numbers[:whole].reshape(-1, VECTOR_LANES):
        lanes = lanes + row
    while lanes.size > 1:
        lanes = lanes[: lanes.size // 2] + lanes[lanes.size // 2 :]
    result = lanes[0]
    for number in numbers[whole:]:
        result = result + number
    return result


@given(size=st.integers(0, 150), seed=st.integers(0, 2**32 - 1), start=st.integers(0, 3))
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_every_bit_is_that_of_the_literal_order(kind, size, seed, start):
    """Also where the arrays are parts of others, and so begin anywhere."""
    one, other = (np.random.default_rng(seed).normal(size=(2, size + start)) * 1e3).astype(kind)[:, start:]
    assert total(one) == literal(one)
    assert product(one, other) == literal(one * other)


SCRIPT = """\
import hashlib
import numpy as np
from stream_masker.core.mechanisms.transport.kernel import design
rng = np.random.default_rng(1)
law, points = rng.dirichlet(np.ones(40)), rng.random((40, 3))
squares = ((points[:, None] - points) ** 2).sum(axis=-1)
found = design(law, squares, 0.05, None)
print(hashlib.sha256(found.rows.tobytes() + found.levels.tobytes()).hexdigest(), repr(found.sharpness))
"""


@pytest.mark.scheduled
def test_the_kernel_of_a_law_is_the_same_on_all_processors(tmp_path):
    """Each run compiles for another processor, of which it uses no instruction that x86-64 of 2013 lacks."""
    runs = [
        {**os.environ, "NUMBA_CPU_NAME": name, "NUMBA_CPU_FEATURES": features, "NUMBA_CACHE_DIR": str(tmp_path / name)}
        for name, features in zip(PROCESSORS, ("", "+avx2,+fma", "+avx2,+fma", "+avx2,+fma"), strict=True)
    ]
    outputs = {subprocess.check_output([sys.executable, "-P", "-c", SCRIPT], env=run, text=True) for run in runs}
    assert len(outputs) == 1
