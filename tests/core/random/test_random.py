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
    Keys,
    PositionKeys,
    Secret,
    WordLayout,
    draw_words,
    exponential_roots,
    key_words,
    normals,
)
from stream_masker.errors import ParameterError

LAYOUTS = pytest.mark.parametrize("layout", [VALUES, EXPONENTIALS, WordLayout(width=2, first=6)], ids=str)
RECORDS = 20_000
LEAST_CHANCE = 1e-6
"""Of a χ² as great by chance: words are fixed, so that a test passes always or never."""


def by_position(offsets, secret=b"secret", topic="topic", partition=0) -> PositionKeys:
    return PositionKeys(secret, topic, partition, np.asarray(offsets, np.int64))


def by_field(*names) -> FieldKeys:
    return FieldKeys(b"secret", [name.encode() for name in names])


def coded(*codes) -> Column:
    return Column(np.array(codes, np.int32))


def listed(*records) -> Column:
    codes = [code for record in records for code in record]
    return Column(np.array(codes, np.int32), np.cumsum([0, *map(len, records)]))


def same(size) -> Column:
    return Column(np.zeros(size, np.int32))


MANY = Batch(RECORDS, (same(RECORDS), Column(np.zeros(2 * RECORDS, np.int32), 2 * np.arange(RECORDS + 1))))


@pytest.fixture(scope="module", params=["position", "field"])
def sources(request) -> list[np.ndarray]:
    """Words of many records that should all be independent: (n,) of one kind each."""
    names = [b"%d" % i for i in range(RECORDS)]
    keys = by_position(range(RECORDS)) if request.param == "position" else FieldKeys(b"secret", names)
    other = by_position(range(RECORDS), b"other") if request.param == "position" else FieldKeys(b"other", names)
    scalars, elements = draw_words(keys, MANY)
    (another_value,) = draw_words(keys, Batch(RECORDS, (Column(np.ones(RECORDS, np.int32)),)))
    (another_secret,) = draw_words(other, Batch(RECORDS, MANY.columns[:1]))
    by_element = [elements[1::2, 0]] if request.param == "position" else []
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


@LAYOUTS
@pytest.mark.parametrize("size", [1, 2, 63, 64, 65])
def test_a_record_has_the_same_words_and_variates_in_any_batch(layout, size):
    offsets, names = np.arange(size) * 1_000_003, [f"p{i}" for i in range(size)]
    lists = [[7, 8, 7, 9][: i % 5] for i in range(size)]
    batch = Batch(size, (coded(*range(size)), listed(*lists)))
    for keys_of in (lambda rows: by_position(offsets[rows]), lambda rows: by_field(*(names[i] for i in rows))):
        together, drawn = draw_words(keys_of(np.arange(size)), batch, layout), normals_of(keys_of(range(size)), batch)
        shared = key_words(keys_of(np.arange(size)))
        for i in {0, size // 2, size - 1}:
            keys, one = keys_of(np.array([i])), Batch(1, (coded(i), listed(lists[i])))
            first, elements = draw_words(keys, one, layout)
            np.testing.assert_array_equal(first, together[0][i : i + 1])
            np.testing.assert_array_equal(elements, together[1][slice(*batch.columns[1].offsets[i : i + 2])])
            np.testing.assert_array_equal(normals_of(keys, one), drawn[i : i + 1])
            np.testing.assert_array_equal(key_words(keys), shared[i : i + 1])


def normals_of(keys: Keys, batch: Batch) -> np.ndarray:
    return normals(draw_words(keys, batch)[0])


@pytest.mark.parametrize(
    ("secret", "message"),
    [
        (b"", "the secret is empty: use at least 1 byte, preferably 32 random bytes"),
        ("text", "the secret must be bytes, not str"),
        (None, "the secret must be bytes, not NoneType"),
    ],
)
def test_other_secrets_are_rejected(secret, message):
    for create in (lambda: by_position([0], secret=secret), lambda: FieldKeys(secret, [b"k"]), lambda: Secret(secret)):
        with pytest.raises(ParameterError, match=f"^{message}$"):
            create()


def test_variates_have_their_distributions():
    words = np.random.default_rng(1).integers(0, 1 << 64, (60_000, 2), np.uint64)
    assert kstest(normals(words), "norm").pvalue > LEAST_CHANCE
    assert kstest(exponential_roots(words[:, 0]) ** 2, "expon").pvalue > LEAST_CHANCE
    extreme = np.array([[0, 0], [2**64 - 1, 2**64 - 1], [2**64 - 1, 0]], np.uint64)
    assert np.isfinite(normals(extreme)).all()
    assert np.isfinite(exponential_roots(extreme[:, 0])).all()
