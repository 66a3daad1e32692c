"""The store of parsed ontologies: sources are parsed once, and again if the result is damaged."""

from __future__ import annotations

import shutil

import pytest
from support.data import SMALL, load

from stream_masker import ConceptMap, Ontology
from stream_masker.core.ontology import taxonomy

SOURCES = {"small.obo": SMALL["hp.obo"], "tree.csv": "concept,parent,label\nr,,Root\na,r,Alpha\nb,a,\n"}


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    """An empty cache folder."""
    monkeypatch.setenv("STREAM_MASKER_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def reads(monkeypatch):
    """The files that were opened to be parsed, by the number of their links that were checked."""
    parsed = []
    original = taxonomy.arrays_of
    monkeypatch.setattr(taxonomy, "arrays_of", lambda draft: (parsed.append(draft), original(draft))[1])
    return parsed


def assert_equal(one, other):
    assert one == other
    assert list(one.labels) == list(other.labels)
    for concept in one.ids:
        assert one.names_of(concept) == other.names_of(concept)
        assert one.ancestors_of(concept) == other.ancestors_of(concept)
        label = one.label(concept).upper()
        assert ConceptMap(other).find(label) == ConceptMap(one).find(label)


@pytest.mark.parametrize("name", SOURCES)
def test_a_source_is_parsed_once_wherever_it_is(tmp_path, own_cache, reads, name):
    first = load(tmp_path / name, SOURCES[name])
    (tmp_path / "moved").mkdir()
    assert_equal(first, Ontology.load(shutil.copy(tmp_path / name, tmp_path / "moved")))
    assert len(reads) == 1
    assert_equal(first, load(tmp_path / name, SOURCES[name] + "\n"))
    assert len(reads) == 2
    assert len(list(own_cache.iterdir())) == 2


def replaced(file, content):
    """Write another file instead of one that is mapped."""
    file.unlink()
    file.write_bytes(content)


DAMAGES = {
    "truncated": lambda folder: replaced(folder / "ids.npy", (folder / "ids.npy").read_bytes()[:-1]),
    "empty": lambda folder: [file.unlink() for file in folder.iterdir()],
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_folder_is_replaced(tmp_path, own_cache, reads, damage):
    whole = load(tmp_path / "small.obo", SMALL["hp.obo"])
    (folder,) = own_cache.iterdir()
    DAMAGES[damage](folder)
    for _ in range(2):
        assert_equal(Ontology.load(tmp_path / "small.obo"), whole)
    assert len(reads) == 2
    assert list(own_cache.iterdir()) == [folder]


def test_an_ontology_is_loaded_without_a_writable_cache(tmp_path, monkeypatch, reads):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("STREAM_MASKER_CACHE", str(tmp_path / "file" / "below"))
    whole = load(tmp_path / "small.obo", SMALL["hp.obo"])
    assert_equal(Ontology.load(tmp_path / "small.obo"), whole)
    assert len(reads) == 2
