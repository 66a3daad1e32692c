"""Random words: uniform, independent, the same in any batch; secrets, keys and variates."""

from __future__ import annotations

import copy
import itertools
import pickle

import numpy as np
import pytest
from scipy.stats import chi2

from stream_masker.core.batch import Batch, Column
from stream_masker.core.kernels.draws import index_below, uniform
from stream_masker.core.random import (
    EXPONENTIALS,
    VALUES,
    FieldKeys,
    Keys,
    PositionKeys,
    Secret,
    WordLayout,
    draw_number_words,
    draw_words,
    exponential_roots,
    key_words,
    normals,
    number_record_words,
    record_words,
    uniforms,
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
    numbers = draw_number_words(keys, np.ones((RECORDS, 1)))[0]
    first = [*scalars.T, elements[::2, 0], *by_element, another_value[:, 0], another_secret[:, 0], numbers[:, 0]]
    return [*first, record_words(keys, MANY), key_words(keys), keys.digests[:, 0]]


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


def test_every_bit_of_the_key_changes_half_of_the_bits():
    """An offset, or a byte of a key, that differs in one bit."""
    offsets = by_position([0, *(1 << k for k in range(62))])
    fields = FieldKeys(b"secret", [bytes(8), *((1 << k).to_bytes(8, "little") for k in range(63))])
    for keys in (offsets, fields):
        (words,) = draw_words(keys, Batch(len(keys), (same(len(keys)),)))
        changed = np.bitwise_count(words[1:] ^ words[0]).sum(axis=1)
        assert abs(changed.mean() - 128) < 5
        assert 80 < changed.min() <= changed.max() < 176


@LAYOUTS
@pytest.mark.parametrize("size", [1, 2, 63, 64, 65])
def test_a_record_has_the_same_words_and_variates_in_any_batch(layout, size):
    offsets, names = np.arange(size) * 1_000_003, [f"p{i}" for i in range(size)]
    lists = [[7, 8, 7, 9][: i % 5] for i in range(size)]
    batch = Batch(size, (coded(*range(size)), listed(*lists)))
    for keys_of in (lambda rows: by_position(offsets[rows]), lambda rows: by_field(*(names[i] for i in rows))):
        together, drawn = draw_words(keys_of(np.arange(size)), batch, layout), normals_of(keys_of(range(size)), batch)
        shared = record_words(keys_of(np.arange(size)), batch)
        for i in {0, size // 2, size - 1}:
            keys, one = keys_of(np.array([i])), Batch(1, (coded(i), listed(lists[i])))
            first, elements = draw_words(keys, one, layout)
            np.testing.assert_array_equal(first, together[0][i : i + 1])
            np.testing.assert_array_equal(elements, together[1][slice(*batch.columns[1].offsets[i : i + 2])])
            np.testing.assert_array_equal(normals_of(keys, one), drawn[i : i + 1])
            np.testing.assert_array_equal(record_words(keys, one), shared[i : i + 1])


def normals_of(keys: Keys, batch: Batch) -> np.ndarray:
    return normals(draw_words(keys, batch)[0])


@LAYOUTS
def test_a_value_of_a_field_key_has_the_same_words_in_any_record_and_at_any_index(layout):
    first, second = draw_words(by_field("p", "p", "q"), Batch(3, (coded(5, 7, 5), listed([8, 9, 8], [9], [9]))), layout)
    assert not set(first[0]) & set(first[1])
    assert not set(first[0]) & set(first[2])
    np.testing.assert_array_equal(second[[0, 1]], second[[2, 3]])
    assert not set(second[3]) & set(second[4])


@LAYOUTS
def test_by_position_no_two_values_share_words(layout):
    words = draw_words(by_position([1, 2]), Batch(2, (coded(5, 5), coded(5, 5), listed([5, 5], [5, 5]))), layout)
    assert len(np.unique(np.concatenate(words))) == sum(each.size for each in words)


def test_distinct_words_for_equal_values_of_a_field_key():
    for words in draw_words(by_field("p", "p"), Batch(2, (coded(5, 5), listed([8, 8], [8]))), distinct=True):
        assert len(np.unique(words)) == words.size


def test_the_word_of_a_record_depends_on_all_scalars_and_no_list():
    def shared(one, other, elements=()):
        return int(record_words(by_field("p"), Batch(1, (coded(one), listed(elements), coded(other))))[0])

    words = [shared(1, 2), shared(2, 1), shared(1, 1), shared(2, 2), shared(-1, 2)]
    assert len(set(words)) == len(words)
    assert shared(1, 2, [3]) == shared(1, 2)
    assert words[0] ^ words[1] ^ words[2] ^ words[3] != 0


def test_words_of_numbers_are_those_of_equal_numbers():
    numbers = np.array([[1.5, 0.0], [1.5, -0.0], [2.5, 0.0]])
    first, second = draw_number_words(by_field("p", "p", "p"), numbers)
    np.testing.assert_array_equal(first[0], first[1])
    np.testing.assert_array_equal(second[0], second[1])
    assert not set(first[2]) & set(first[0])
    assert len(np.unique(number_record_words(by_field("p", "p", "p"), numbers))) == 2
    assert draw_number_words(by_field("p"), np.empty((1, 0))) == []


def test_an_absent_number_shares_no_words_with_other_records_of_its_key():
    """Its variate is part of the correlated noise of the record's other numbers."""
    words = draw_number_words(by_field("p", "p"), np.array([[np.nan, 1.0], [np.nan, 2.0]]))[0]
    assert not set(words[0]) & set(words[1])


def test_topic_partition_offset_and_secret_all_change_the_digests():
    variants = [
        by_position([1]),
        by_position([2]),
        by_position([1 + (1 << 32)]),
        by_position([1], partition=1),
        by_position([1], topic="topics"),
        by_position([1], topic="1 topic"),
        by_position([1], secret=b"other"),
    ]
    assert len({keys.digests.tobytes() for keys in variants}) == len(variants)


def test_an_empty_batch_has_no_words():
    for keys in (by_position([]), by_field()):
        assert [words.shape for words in draw_words(keys, Batch(0, (same(0), listed())))] == [(0, 4), (0, 4)]
        assert record_words(keys, Batch(0, (same(0),))).shape == key_words(keys).shape == (0,)
        assert draw_words(keys, Batch(0, ())) == []


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda secret: pickle.loads(pickle.dumps(secret))])
def test_a_copied_secret_has_the_same_digests(copied):
    secret = Secret(b"x" * 200)
    np.testing.assert_array_equal(copied(secret).digests([b"a", b"b"]), secret.digests([b"a", b"b"]))


def test_a_secret_forgets_digests_and_computes_them_again(monkeypatch):
    monkeypatch.setattr("stream_masker.core.random.MAX_KNOWN", 3)
    secret, names = Secret(b"secret"), [b"%d" % i for i in range(10)]
    first = [secret.digests(names[i : i + 2]) for i in range(9)]
    np.testing.assert_array_equal(np.concatenate(first[::2]), Secret(b"secret").digests(names))


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


def test_negative_offsets_are_rejected():
    with pytest.raises(ParameterError, match=r"^an offset is negative: use offsets from 0$"):
        by_position([3, -1])


def test_variates_have_their_distributions():
    words = np.random.default_rng(1).integers(0, 1 << 64, (60_000, 2), np.uint64)
    drawn, squares = normals(words), exponential_roots(words[:, 0]) ** 2
    assert abs(drawn.mean()) < 0.02
    assert abs(drawn.std() - 1) < 0.01
    assert abs(np.mean(drawn < 1.0) - 0.8413) < 0.006
    assert abs(np.mean(drawn**4) / np.mean(drawn**2) ** 2 - 3) < 0.1
    assert abs(squares.mean() - 1) < 0.02
    assert abs(np.mean(squares > 1) - np.exp(-1)) < 0.006
    extreme = np.array([[0, 0], [2**64 - 1, 2**64 - 1], [2**64 - 1, 0]], np.uint64)
    assert np.isfinite(normals(extreme)).all()
    assert np.isfinite(exponential_roots(extreme[:, 0])).all()


def test_single_draws_of_kernels():
    words = np.random.default_rng(1).integers(0, 1 << 64, 100, np.uint64)
    assert uniforms(words).tolist() == [uniform(word) for word in words]
    assert [index_below(word, 7) for word in words] == [int(word) * 7 >> 64 for word in words]
