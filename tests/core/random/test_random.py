"""Random words: uniform, independent, the same in any batch; secrets, keys and variates."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.stats import chi2, kstest

from stream_masker.core.batch import Batch, Column
from stream_masker.core.random import (
    EXPONENTIALS,
    VALUES,
    FieldKeys,
    PositionKeys,
    Secret,
    WordLayout,
    draw_words,
    exponential_roots,
    key_words,
    normals,
)
from stream_masker.errors import ParameterError

RECORDS = 20_000
LEAST_CHANCE = 1e-6
"""Of a χ² as great by chance: words are fixed, so that a test passes always or never."""


def by_position(offsets, secret=b"secret") -> PositionKeys:
    return PositionKeys(secret, "topic", 0, np.asarray(offsets, np.int64))


def by_field(numbers, secret=b"secret") -> FieldKeys:
    return FieldKeys(secret, [b"%d" % number for number in numbers])


def coded(*codes) -> Column:
    return Column(np.array(codes, np.int32))


def listed(*records) -> Column:
    codes = [code for record in records for code in record]
    return Column(np.array(codes, np.int32), np.cumsum([0, *map(len, records)]))


MANY = Batch(RECORDS, (coded(*[0] * RECORDS), Column(np.zeros(2 * RECORDS, np.int32), 2 * np.arange(RECORDS + 1))))


@pytest.fixture(scope="module", params=[by_position, by_field])
def sources(request) -> list[np.ndarray]:
    """Words of many records that should all be independent: (n,) of one kind each."""
    keys, other = request.param(range(RECORDS)), request.param(range(RECORDS), b"other")
    scalars, elements = draw_words(keys, MANY)
    (another_value,) = draw_words(keys, Batch(RECORDS, (Column(np.ones(RECORDS, np.int32)),)))
    (another_secret,) = draw_words(other, Batch(RECORDS, MANY.columns[:1]))
    by_element = [elements[1::2, 0]] if keys.numbers_elements else []
    first = [*scalars.T, elements[::2, 0], *by_element, another_value[:, 0], another_secret[:, 0]]
    return [*first, key_words(keys), keys.digests[:, 0]]


def chance(cells: np.ndarray, size: int) -> float:
    """The chance of a χ² at least as great, if all cells are equally frequent."""
    expected = cells.size / size
    observed = np.bincount(cells, minlength=size)
    return float(chi2.sf(((observed - expected) ** 2 / expected).sum(), size - 1))


@pytest.mark.parametrize("shift", range(0, 64, 8))
def test_every_byte_is_uniform(sources, shift):
    for words in sources:
        assert chance((words >> np.uint64(shift) & np.uint64(255)).astype(np.int64), 256) > LEAST_CHANCE


def test_words_of_attributes_values_elements_secrets_and_records_are_independent(sources):
    high = [(words >> np.uint64(60)).astype(np.int64) for words in sources]
    pairs = [*itertools.combinations(high, 2), *((words[1:], words[:-1]) for words in high)]
    for one, other in pairs:
        assert chance(16 * one + other, 256) > LEAST_CHANCE / len(pairs)


@pytest.mark.parametrize("layout", [VALUES, EXPONENTIALS, WordLayout(width=2, first=6)], ids=str)
@pytest.mark.parametrize("keys_of", [by_position, by_field])
@pytest.mark.parametrize("size", [1, 2, 63, 64, 65])
def test_a_record_has_the_same_words_in_any_batch(layout, keys_of, size):
    numbers, lists = np.arange(size) * 1_000_003, [[7, 8, 7, 9][: i % 5] for i in range(size)]
    batch = Batch(size, (coded(*range(size)), listed(*lists)))
    scalars, elements = draw_words(keys_of(numbers), batch, layout)
    for i in {0, size // 2, size - 1}:
        first, second = draw_words(keys_of(numbers[i : i + 1]), Batch(1, (coded(i), listed(lists[i]))), layout)
        np.testing.assert_array_equal(first, scalars[i : i + 1])
        np.testing.assert_array_equal(second, elements[slice(*batch.columns[1].offsets[i : i + 2])])


@pytest.mark.parametrize(("secret", "found"), [(b"", "is empty"), ("text", "bytes, not str"), (None, "not NoneType")])
def test_other_secrets_are_rejected(secret, found):
    for create in (lambda: by_position([0], secret), lambda: by_field([0], secret), lambda: Secret(secret)):
        with pytest.raises(ParameterError, match=f"^the secret .*{found}"):
            create()


def test_variates_have_their_distributions():
    words = np.random.default_rng(1).integers(0, 1 << 64, (60_000, 2), np.uint64)
    assert kstest(normals(words), "norm").pvalue > LEAST_CHANCE
    assert kstest(exponential_roots(words[:, 0]) ** 2, "expon").pvalue > LEAST_CHANCE
    extreme = np.array([[0, 0], [2**64 - 1, 2**64 - 1], [2**64 - 1, 0]], np.uint64)
    assert np.isfinite(normals(extreme)).all()
    assert np.isfinite(exponential_roots(extreme[:, 0])).all()
