"""Sketches count distinct keys exactly when they are few, and estimate many."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_masker.core.random.keys import HASH_BITS, SKETCH_SIZE, KeyHasher, distinct, merged, sketch
from stream_masker.errors import ParameterError

HASHER = KeyHasher(b"secret")
KEYS = st.lists(st.binary(max_size=3), max_size=200)


@given(KEYS, KEYS)
def test_the_sketch_of_a_union_is_merged_from_those_of_its_parts(first: list[bytes], second: list[bytes]) -> None:
    whole = sketch(HASHER.hashes([*first, *second]))
    assert merged([sketch(HASHER.hashes(first)), sketch(HASHER.hashes(second))]) == whole
    assert list(whole) == sorted(set(whole))


@given(st.sets(st.binary(min_size=1, max_size=8), max_size=SKETCH_SIZE - 1), st.integers(1, 5))
def test_few_keys_are_counted_exactly_however_often_they_occur(keys: set[bytes], times: int) -> None:
    assert distinct(sketch(HASHER.hashes([*keys] * times))) == len(keys)


@pytest.mark.parametrize(("number", "times"), [(500, 1), (500, 20), (100, 30), (10, 100), (65, 5)])
def test_the_sketch_holds_the_least_hashes_however_often_they_occur(number: int, times: int) -> None:
    hashes = HASHER.hashes([b"%d" % i for i in range(number)])
    assert sketch(np.random.default_rng(0).permutation(np.repeat(hashes, times))) == tuple(sorted(hashes)[:SKETCH_SIZE])


@pytest.mark.parametrize("number", [64, 1_000, 50_000])
def test_the_estimate_of_many_keys_is_within_four_standard_errors(number: int) -> None:
    counts = [distinct(sketch(KeyHasher(bytes([k + 1])).hashes([b"%d" % i for i in range(number)]))) for k in range(30)]
    error = number / np.sqrt((SKETCH_SIZE - 2) * len(counts))
    assert abs(np.mean(counts) - number) < 4 * error


def test_the_hashes_depend_on_the_secret() -> None:
    keys = [b"%d" % i for i in range(100)]
    first, second = HASHER.hashes(keys), KeyHasher(b"another").hashes(keys)
    assert not np.intersect1d(first, second).size
    assert first.min() >= 0
    assert int(first.max()) < 1 << HASH_BITS


def test_an_empty_secret_is_refused() -> None:
    with pytest.raises(ParameterError, match="secret is empty"):
        KeyHasher(b"")
