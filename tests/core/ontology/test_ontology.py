"""Ontologies from links and files, and errors of invalid ones."""

import gzip

import numpy as np
import pytest
from support.data import icd9cm

from stream_masker.core.ontology import Ontology, compiled, sources
from stream_masker.errors import (
    CycleError,
    DuplicateConceptError,
    EmptyOntologyError,
    OntologyError,
    ParameterError,
    UnknownConceptError,
    UnknownParentError,
)

CSV = 'concept,parent,label\nroot,,Root\na,root,Alpha\nb,root,"Beta, the second"\nc,a,Gamma\nc,b,Gamma\n'
OBO = """format-version: 1.2

[Term]
id: HP:1
name: All

[Term]
id: HP:2 ! a comment
name: Seizure
alt_id: HP:9
synonym: "Fit, \\"epileptic\\"" EXACT []
is_a: HP:1 {source="x"} ! All

[Term]
id: HP:3
name: Gone
is_obsolete: true

[Typedef]
id: part_of
name: part of
"""


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("STREAM_MASKER_CACHE", str(tmp_path / "cache"))


def test_a_concept_with_several_parents_has_several_rows(tmp_path):
    path = tmp_path / "small.csv"
    path.write_text(CSV)
    onto = Ontology.load(path)
    assert (len(onto), onto.root, onto.label("b")) == (4, "root", "Beta, the second")
    assert onto.taxonomy().parents_of("c") == ("a", "b")
    assert not onto.taxonomy().is_tree


@pytest.mark.parametrize(
    ("name", "text"), [("x.tsv", CSV.replace(",", "\t").replace('"Beta\t', '"Beta,')), ("X.CSV", CSV)]
)
def test_tab_separated_and_gzipped_files_are_equivalent(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    (tmp_path / f"{name}.gz").write_bytes(gzip.compress(text.encode()))
    plain, packed = Ontology.load(tmp_path / name), Ontology.load(tmp_path / f"{name}.gz")
    assert plain.taxonomy() == packed.taxonomy()
    assert plain.label("b") == packed.label("b") == "Beta, the second"


def test_the_root_of_an_edge_list_needs_no_row(tmp_path):
    path = tmp_path / "rootless.csv"
    path.write_text("concept,parent\na,top\nb,a\n")
    assert Ontology.load(path).root == "top"


def test_obo_terms_have_labels_and_synonyms_and_obsolete_terms_are_ignored(tmp_path):
    path = tmp_path / "small.obo"
    path.write_text(OBO)
    onto = Ontology.load(path)
    assert set(onto.concepts) == {"HP:1", "HP:2"}
    assert onto.label("HP:2") == "Seizure"
    assert onto.synonyms["HP:2"] == ('Fit, "epileptic"', "HP:9")


def test_icd10cm_is_loaded_by_name():
    onto = Ontology.load("icd10cm")
    tau = onto.taxonomy()
    assert len(onto) == 98_493 + 1
    assert tau.is_tree
    assert onto.label("A00.0") == "Cholera due to Vibrio cholerae 01, biovar cholerae"
    assert tau.parents_of("B20") == ("B20-B20",)


def test_every_leaf_of_icd10cm_is_a_code():
    """The package has 280 chapters and blocks, 12 of which are headings of blocks that nothing is below."""
    import simple_icd_10_cm

    tau = Ontology.load("icd10cm").taxonomy()
    leaves = {tau.ids[c] for c in np.flatnonzero(tau.leaf)}
    codes = {code for code in simple_icd_10_cm.get_all_codes(with_dots=True) if simple_icd_10_cm.is_leaf(code)}
    headings = {code for code in codes if not simple_icd_10_cm.is_category_or_subcategory(code)}
    assert len(headings) == 12
    assert leaves == codes - headings
    assert not headings & set(tau.ids)


def test_icd9cm_of_the_real_data():
    tau = icd9cm().taxonomy()
    assert (len(tau), tau.root, tau.is_tree) == (17_727, "ICD9CM", True)


@pytest.mark.parametrize(
    ("links", "error", "culprits"),
    [
        ([], EmptyOntologyError, ()),
        ([("a", "r"), ("b", "a"), ("a", "b")], CycleError, {"a", "b"}),
        ([("a", "a")], CycleError, {"a"}),
        ([("a", "r"), ("a", "r")], DuplicateConceptError, {"a"}),
    ],
)
def test_each_kind_of_invalid_links_has_its_error(links, error, culprits):
    with pytest.raises(error) as caught:
        Ontology.from_edges(links)
    assert set(caught.value.culprits) == set(culprits)


def test_at_most_five_culprits_are_named():
    with pytest.raises(DuplicateConceptError, match=r"c0, c1, c2, c3, c4 and 3 more$"):
        Ontology.from_edges([(f"c{k}", "r") for k in range(8)] * 2)


def test_several_roots_are_alike_in_links_and_in_files(tmp_path):
    links = [("a1", "a"), ("a2", "a"), ("b1", "b")]
    (tmp_path / "edges.csv").write_text("\n".join(["concept,parent", *map(",".join, links)]))
    built, loaded = Ontology.from_edges(links), Ontology.load(tmp_path / "edges.csv")
    parents = Ontology.from_parents({"a": [], "b": [], "a1": ["a"], "a2": ["a"], "b1": ["b"]})
    assert built.root == loaded.root == parents.root == "ROOT"
    assert sorted(built.concepts) == sorted(loaded.concepts) == sorted(parents.concepts)


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("", EmptyOntologyError, "empty"),
        ("concept,parent,label\n", EmptyOntologyError, "no concept"),
        ("one,two\n", OntologyError, "first line must be"),
        ("concept,parent\nr,\na,r\na,r\n", DuplicateConceptError, "line 4"),
        ("concept,parent,label\nr,,R\na,r,A\na,r2,B\n", DuplicateConceptError, "another label"),
        ("concept,parent\nr,\nr,\n", DuplicateConceptError, "line 3"),
        ("concept,parent\nr,\na,gone\n", UnknownParentError, "gone"),
        ("concept,parent\na,b\nb,a\nr,\n", CycleError, "cycle"),
        ("concept,parent\nr\n", OntologyError, "line 2"),
    ],
)
def test_each_kind_of_invalid_file_has_its_error_which_names_the_file(tmp_path, text, error, message):
    path = tmp_path / "bad.csv"
    path.write_text(text)
    with pytest.raises(error, match=message) as caught:
        Ontology.load(path)
    assert "bad.csv" in str(caught.value)


def test_a_file_that_is_not_text_truncated_or_missing(tmp_path):
    (tmp_path / "bytes.csv").write_bytes(b"concept,parent\nr,\nM\x81,r\n")  # a byte that Windows-1252 lacks
    (tmp_path / "torn.csv.gz").write_bytes(gzip.compress(CSV.encode())[:-12])
    for name, message in [("bytes.csv", "UTF-8"), ("torn.csv.gz", "cannot be read"), ("none.csv", "cannot be opened")]:
        with pytest.raises(OntologyError, match=message):
            Ontology.load(tmp_path / name)
    with pytest.raises(OntologyError, match=r"icd10cm.*\.csv, \.json, \.obo, \.owl, \.tsv"):
        Ontology.load("snomed")


def test_duplicate_obo_terms_and_terms_without_id(tmp_path):
    path = tmp_path / "bad.obo"
    path.write_text(OBO + "\n[Term]\nid: HP:2\n")
    with pytest.raises(DuplicateConceptError, match="HP:2"):
        Ontology.load(path)
    path.write_text("[Term]\nname: nobody\n")
    with pytest.raises(OntologyError, match="no id"):
        Ontology.load(path)


def test_a_taxonomy_has_a_root_or_a_domain():
    onto = Ontology.from_edges([("a", "r"), ("b", "a"), ("c", "a"), ("d", "r")])
    assert onto.taxonomy(root="a").ids == onto.taxonomy(domain=["b", "c"]).ids == ("a", "b", "c")
    assert onto.taxonomy(root="a") is onto.taxonomy(root="a")
    with pytest.raises(ParameterError, match="not both"):
        onto.taxonomy(domain=["b"], root="a")
    with pytest.raises(ParameterError, match="at least one"):
        onto.taxonomy(domain=[])
    with pytest.raises(UnknownConceptError, match=r"^root='z' is not a concept of the ontology: use one of 5 ids"):
        onto.taxonomy(root="z")
    with pytest.raises(UnknownConceptError, match=r"^domain\[1\] is not a concept of the ontology$"):
        onto.taxonomy(domain=["b", "z"])


def test_the_second_load_maps_the_compiled_form(tmp_path, monkeypatch):
    path = tmp_path / "small.obo"
    path.write_text(OBO)
    first = Ontology.load(path)
    monkeypatch.setitem(sources.READERS, ".obo", lambda _: pytest.fail("parsed again"))
    second = Ontology.load(path)
    assert second.taxonomy() == first.taxonomy()
    assert second.taxonomy().labels == first.taxonomy().labels
    assert second.synonyms == first.synonyms


@pytest.mark.parametrize("damage", ["truncate", "flip", "version", "magic", "empty"])
def test_load_parses_the_source_again_if_the_compiled_file_is_damaged(tmp_path, damage):
    source = tmp_path / "small.csv"
    source.write_text(CSV)
    whole = Ontology.load(source)
    (path,) = sources.cache_folder().glob("*.ontology")
    data = path.read_bytes()
    path.write_bytes(
        {
            "truncate": data[:-70],
            "flip": data[:-70] + bytes([data[-70] ^ 1]) + data[-69:],
            "version": data.replace(b"ontology 2", b"ontology 9"),
            "magic": b"x" + data[1:],
            "empty": b"",
        }[damage]
    )
    with pytest.raises(OntologyError, match=path.name):
        compiled.read_compiled(path)
    assert Ontology.load(source).taxonomy() == whole.taxonomy()
    assert path.read_bytes() == data


def test_load_works_without_a_writable_cache(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("STREAM_MASKER_CACHE", str(tmp_path / "file" / "below"))
    (tmp_path / "small.csv").write_text(CSV)
    assert len(Ontology.load(tmp_path / "small.csv")) == 4


def test_the_hierarchy_as_a_networkx_graph():
    onto = Ontology.from_edges([("a", "r"), ("b", "a")], labels={"a": "Alpha"})
    links = onto.to_networkx()
    assert set(links.edges) == {("a", "r"), ("b", "a")}
    assert links.nodes["a"]["label"] == "Alpha"
