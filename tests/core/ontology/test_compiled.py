"""The compiled form: equal to the original, mapped instead of copied, and never opened if it is incomplete."""

import mmap
import random
import shutil
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from support.graphs import edges

from stream_masker.core.ontology import Ontology, compiled, sources
from stream_masker.errors import CompiledOntologyError, OntologyError

DAG = [("b", "a"), ("c", "a"), ("d", "b"), ("d", "c"), ("é", "d")]
TREE = [("b", "a"), ("c", "a"), ("d", "b")]
LABELS = {"a": "All", "é": "Ménière's disease 😀"}
SYNONYMS = {"d": ["Dé", "De"], "é": ["Morbus Ménière"]}


@pytest.fixture(params=[DAG, TREE], ids=["dag", "tree"])
def stored(request, tmp_path):
    """An ontology and its compiled form."""
    ontology = Ontology.from_edges(request.param, LABELS, SYNONYMS)
    path = tmp_path / "small.ontology"
    compiled.write_compiled(ontology.data, path, source="small")
    return ontology, path


def read(path):
    """The ontology in a compiled file."""
    return Ontology(compiled.read_compiled(path))


def tables(tau):
    """All arrays of a taxonomy, including those that are computed on demand."""
    own = [tau.parent_offsets, tau.parents, tau.child_offsets, tau.children, tau.depth, tau._lookup.slots, tau.leaf]
    computed = [tau.closure, *([tau.tree] if tau.is_tree else [])]
    return [*own, *(getattr(table, field.name) for table in computed for field in fields(table))]


def assert_equal(opened, made):
    one, other = opened.taxonomy(), made.taxonomy()
    assert (one.ids, one.labels, one.fingerprint) == (other.ids, other.labels, other.fingerprint)
    for mine, theirs in zip(tables(one), tables(other), strict=True):
        assert mine.dtype == theirs.dtype
        np.testing.assert_array_equal(mine, theirs)
    assert opened.synonyms == made.synonyms
    for name in ("codes", "names"):
        mine, theirs = getattr(opened.indexes, name), getattr(made.indexes, name)
        np.testing.assert_array_equal(mine.hashes, theirs.hashes)
        np.testing.assert_array_equal(mine.owners, theirs.owners)


def test_an_opened_ontology_equals_the_original(stored):
    ontology, path = stored
    assert_equal(read(path), ontology)


@given(edges(most_parents=3, least=2, most=20))
def test_any_ontology_is_preserved(tmp_path_factory, links):
    path = tmp_path_factory.mktemp("compiled") / "x.ontology"
    made = Ontology.from_edges(links, dict(links), {links[0][0]: ["ß", "İ"]})
    compiled.write_compiled(made.data, path, source="x")
    assert_equal(read(path), made)
    shutil.rmtree(path.parent)


def test_a_single_concept_is_preserved(tmp_path):
    made = Ontology.from_parents({"only": []})
    compiled.write_compiled(made.data, tmp_path / "x.ontology", source="x")
    assert_equal(read(tmp_path / "x.ontology"), made)


def test_a_taxonomy_of_an_opened_ontology_equals_that_of_the_original(stored):
    ontology, path = stored
    part, expected = read(path).taxonomy(root="b"), ontology.taxonomy(root="b")
    assert (part.ids, part.labels, part) == (expected.ids, expected.labels, expected)


def test_arrays_and_texts_are_mapped(stored):
    tau = read(stored[1]).taxonomy()
    derived = [tau.tree.level_lo] if tau.is_tree else [tau.closure.ancestors, tau.closure.paths]
    arrays = [tau.parents, tau.children, tau.depth, tau._lookup.slots, tau.ids.blob, tau.labels.ends, *derived]
    assert all(isinstance(origin(array), mmap.mmap) for array in arrays)


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs Linux's list of mappings")
def test_processes_share_the_pages(stored):
    path = stored[1].resolve()
    ontology = read(path)
    rights = [line.split()[1] for line in Path("/proc/self/maps").read_text().splitlines() if line.endswith(str(path))]
    assert rights
    assert set(rights) == {"r--s"}, "read-only, and shared by all processes that map the file"
    assert len(ontology)


def origin(array):
    """The object that owns the memory of an array."""
    while isinstance(array, np.ndarray):
        array = array.base
    return array.obj if isinstance(array, memoryview) else array


def test_opening_computes_nothing(stored, monkeypatch):
    for kernel in ("longest_depths", "closure", "level_ranges", "compress", "breadth_first"):
        monkeypatch.setattr(f"stream_masker.core.ontology.graph.{kernel}", lambda *_: pytest.fail("computed"))
    for kernel in ("fill_slots", "text_hashes"):
        monkeypatch.setattr(f"stream_masker.core.ontology.lookup.{kernel}", lambda *_: pytest.fail("computed"))
    ontology = read(stored[1])
    tau = ontology.taxonomy()
    assert tau.tree if tau.is_tree else tau.closure
    assert tau.fingerprint
    assert ontology.indexes


def test_a_change_of_any_byte_is_detected(stored):
    _, path = stored
    data = path.read_bytes()
    draw = random.Random(1)
    for place in range(len(data)):
        damaged = bytearray(data)
        damaged[place] ^= draw.randrange(1, 256)
        path.write_bytes(damaged)
        with pytest.raises(CompiledOntologyError, match=path.name):
            read(path)


def test_every_truncation_is_detected(stored):
    _, path = stored
    data = path.read_bytes()
    for size in range(len(data)):
        path.write_bytes(data[:size])
        with pytest.raises(CompiledOntologyError, match=path.name):
            read(path)


def test_additional_bytes_are_detected(stored):
    _, path = stored
    path.write_bytes(path.read_bytes() + b"\0")
    with pytest.raises(CompiledOntologyError, match=r"small.ontology is truncated or damaged"):
        read(path)


@pytest.mark.parametrize(("line", "other"), [(b"stream-masker ontology 3\n", 3), (b"stream-masker ontology\n", 1)])
def test_the_error_of_another_format_gives_advice(stored, line, other):
    _, path = stored
    path.write_bytes(path.read_bytes().replace(compiled.MAGIC, line))
    with pytest.raises(CompiledOntologyError, match=f"has format {other}, .* reads format 2: compile the source again"):
        read(path)


def test_a_file_that_is_not_a_compiled_ontology_is_refused(tmp_path):
    (tmp_path / "text.ontology").write_text("concept,parent\n" * 9)
    with pytest.raises(CompiledOntologyError, match="is not a compiled ontology"):
        Ontology.load(tmp_path / "text.ontology")
    with pytest.raises(CompiledOntologyError, match="cannot be opened: No such file"):
        Ontology.load(tmp_path / "none.ontology")
    (tmp_path / "folder.ontology").mkdir()
    with pytest.raises(CompiledOntologyError, match="cannot be opened: Is a directory"):
        Ontology.load(tmp_path / "folder.ontology")


def test_a_compiled_file_is_a_source(stored):
    ontology, path = stored
    assert_equal(Ontology.load(path), ontology)
    assert_equal(Ontology.load(str(path)), ontology)


class TestCompiling:
    @pytest.fixture
    def source(self, tmp_path, own_cache):
        path = tmp_path / "small.csv"
        path.write_text("concept,parent\nr,\na,r\n")
        return path

    def test_a_source_is_compiled_into_the_cache(self, source, own_cache):
        path, data = sources.compile_ontology(source)
        assert path.parent == own_cache
        assert list(own_cache.iterdir()) == [path]
        assert_equal(Ontology.load(source), Ontology(data))
        assert list(own_cache.iterdir()) == [path]

    def test_a_source_is_compiled_to_a_file(self, source, tmp_path, own_cache):
        path, data = sources.compile_ontology(source, tmp_path / "x.ontology")
        assert path == tmp_path / "x.ontology"
        assert_equal(Ontology.load(path), Ontology(data))
        assert not own_cache.exists()

    def test_the_key_depends_on_the_content(self, source, tmp_path):
        first, _ = sources.compile_ontology(source)
        assert sources.compile_ontology(shutil.copy(source, tmp_path / "other.csv"))[0] == first
        source.write_text("concept,parent\nr,\nb,r\n")
        assert sources.compile_ontology(source)[0] != first

    def test_a_failed_write_leaves_no_file(self, source, tmp_path):
        with pytest.raises(OntologyError, match=r"none/x.ontology cannot be written: No such file"):
            sources.compile_ontology(source, tmp_path / "none" / "x.ontology")
        (tmp_path / "taken.ontology").mkdir()
        before = sorted(tmp_path.iterdir())
        with pytest.raises(OntologyError, match="cannot be written"):
            sources.compile_ontology(source, tmp_path / "taken.ontology")
        assert sorted(tmp_path.iterdir()) == before

    def test_a_compiled_source_is_refused(self, source, tmp_path):
        path, _ = sources.compile_ontology(source)
        with pytest.raises(OntologyError, match="is compiled already"):
            sources.compile_ontology(path)

    def test_a_parsed_ontology_is_opened_from_its_compiled_form(self, source):
        ontology = Ontology.load(source)
        assert isinstance(origin(ontology.taxonomy().parents), mmap.mmap)
        assert sources.cache_path(sources.resolve_source(source).key).exists()
