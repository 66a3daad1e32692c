"""Tables of texts, their hash tables, and indexes of folded texts."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_masker.core.ontology import lookup, text_table
from stream_masker.core.ontology.lookup import FoldedIndex, TextLookup
from stream_masker.core.ontology.names import fold_code
from stream_masker.core.ontology.text_table import TextTable

ANY_TEXT = st.text(st.characters(), max_size=12) | st.text("ab\0é😀ßİ.", max_size=6)
LISTS = st.lists(ANY_TEXT, max_size=30)


@given(LISTS, st.data())
def test_a_table_behaves_like_a_tuple(given_texts, data):
    table, expected = TextTable.of(given_texts), tuple(given_texts)
    assert (len(table), tuple(table), table, hash(table)) == (len(expected), expected, expected, hash(expected))
    assert list(reversed(table)) == given_texts[::-1]
    cut = data.draw(st.slices(max(1, len(expected))))
    assert table[cut] == expected[cut]
    indices = data.draw(st.lists(st.integers(-len(expected), len(expected) - 1))) if expected else []
    assert [table[np.int32(k)] for k in indices] == [expected[k] for k in indices] == table.decode(indices)
    assert all(text in table for text in expected)
    taken = table.take(np.array(indices, np.int64))
    assert taken == taken.compact() == pickle.loads(pickle.dumps(taken)) == table.decode(indices)


@given(LISTS, LISTS)
def test_tables_are_equal_when_their_texts_are(first, second):
    assert (TextTable.of(first) == TextTable.of(second)) == (first == second)
    assert TextTable.of(first) != "".join(first) or not first


def test_an_invalid_index_is_an_error_like_that_of_a_tuple():
    table = TextTable.of(["a", "b"])
    for wrong, error in [(2, IndexError), (-3, IndexError), ("a", TypeError), (None, TypeError), ([0], TypeError)]:
        with pytest.raises(error):
            table[wrong]


def test_the_cache_of_decoded_texts_is_bounded(monkeypatch):
    monkeypatch.setattr(text_table, "CACHED_TEXTS_MAX", 3)
    table = TextTable.of(map(str, range(10)))
    assert [table[k] for k in [*range(10), *range(10)]] == [*map(str, range(10))] * 2
    assert len(table._cache) <= 3


@given(st.sets(ANY_TEXT), st.lists(ANY_TEXT | st.none() | st.integers()))
def test_lookup_finds_exactly_the_texts_of_the_table(known, values):
    known = sorted(known)
    table = TextLookup(TextTable.of(known))
    wanted = [*values, *known, *values]
    expected = [known.index(value) if value in known else -1 for value in wanted]
    assert table.find_all(wanted).tolist() == expected
    assert [table.find(value) for value in wanted * 2] == expected * 2
    assert TextLookup(table.texts, table.slots).find_all(known).tolist() == list(range(len(known)))
    named = [(value, place) for value, place in zip(wanted, expected, strict=True) if isinstance(value, str)]
    assert table.find_texts([value for value, _ in named]).tolist() == [place for _, place in named]


@pytest.mark.parametrize("wanted", [["a", None], [1], [b"a", "a"]])
def test_find_texts_refuses_other_values(wanted):
    with pytest.raises(TypeError):
        TextLookup(TextTable.of(["a"])).find_texts(wanted)


@given(LISTS.filter(len), st.data())
def test_decode_array_equals_decode(given_texts, data):
    table = TextTable.of(given_texts)
    indices = np.array(data.draw(st.lists(st.integers(0, len(table) - 1))), np.int32)
    for some in (indices, np.resize(indices, text_table.MANY_TEXTS) if indices.size else indices, indices):
        assert table.decode_array(some) == table.decode(some.tolist())
    with pytest.raises(IndexError):
        table.decode_array(np.full(text_table.MANY_TEXTS, len(table)))


def test_the_cache_of_found_indices_is_bounded(monkeypatch):
    monkeypatch.setattr(lookup, "CACHED_TEXTS_MAX", 3)
    table = TextLookup(TextTable.of(map(str, range(10))))
    assert [table.find(str(k)) for k in [*range(12), *range(12)]] == [*range(10), -1, -1] * 2
    assert len(table._cache) <= 3


@pytest.mark.parametrize("fold", [str.casefold, fold_code])
@given(names=st.lists(st.tuples(ANY_TEXT | st.text("aA.ß", max_size=4), st.integers(0, 9)), max_size=30))
def test_an_index_finds_every_owner_of_a_folded_name(fold, names):
    table, owners = TextTable.of(name for name, _ in names), np.array([owner for _, owner in names], np.int64)
    index = FoldedIndex.of([(table, owners)], fold)
    candidates = index.candidates([name for name, _ in names], fold)
    for (name, _), found in zip(names, candidates, strict=True):
        expected = {owner for other, owner in names if other and fold(other) == fold(name)} if name else set()
        assert set(found) >= expected
        assert index.candidates([name], fold) == [found]
    assert index.hashes.size == index.owners.size == sum(bool(name) for name, _ in names)


def test_an_index_rarely_finds_other_owners():
    table = TextTable.of(map(str, range(2000)))
    index = FoldedIndex.of([(table, np.arange(2000))], str.casefold)
    assert index.candidates([str(k) for k in range(2000)], str.casefold) == [[k] for k in range(2000)]
    assert not any(index.candidates([str(k) for k in range(2000, 4000)], str.casefold))
