"""Generated SNOMED CT releases: they are read like a literal reader does, and have the shape of SNOMED CT."""

import csv
from collections import defaultdict

import numpy as np
import pytest
from support import snomed

from stream_masker.core.ontology import Ontology

pytestmark = pytest.mark.usefixtures("own_cache")


def rows_of(folder, kind):
    for path in sorted(folder.rglob(f"sct2_{kind}_*.txt")):
        with path.open(encoding="utf-8", newline="") as file:
            yield from csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)


def literal_release(folder):
    """The parents, labels and synonyms of a release, read row by row."""
    active = {row["id"] for row in rows_of(folder, "Concept") if row["active"] == "1"}
    parents = {concept: set() for concept in active}
    for row in rows_of(folder, "Relationship"):
        if row["active"] == "1" and row["typeId"] == str(snomed.IS_A) and row["sourceId"] in active:
            parents[row["sourceId"]].add(row["destinationId"])
    names = defaultdict(list)
    for row in rows_of(folder, "Description"):
        if row["active"] == "1" and row["conceptId"] in active:
            language = "" if row["languageCode"] == "en" else row["languageCode"]
            full = row["typeId"] == str(snomed.FULLY_SPECIFIED_NAME)
            names[row["conceptId"]].append((not full, language, int(row["id"]), row["term"]))
    labels = {concept: min(own)[-1] for concept, own in names.items()}
    synonyms = {c: [name[-1] for name in sorted(own) if name[0] and name != min(own)] for c, own in names.items()}
    return {c: sorted(above) for c, above in parents.items()}, labels, synonyms


class TestGeneratedReleases:
    @pytest.mark.parametrize(("concepts", "seed"), [(1, 0), (2, 0), (40, 1), (600, 2)])
    def test_they_are_read_like_row_by_row(self, tmp_path, concepts, seed):
        folder = snomed.write_release(tmp_path / "release", concepts=concepts, seed=seed)
        read, expected = Ontology.load(folder), Ontology.from_parents(*literal_release(folder))
        assert len(read) == concepts
        assert read.taxonomy() == expected.taxonomy()
        assert read.taxonomy().labels == expected.taxonomy().labels
        assert dict(read.synonyms) == dict(expected.synonyms)
        assert all(read.taxonomy().labels)

    def test_they_have_the_shape_of_snomed_ct(self):
        links = snomed.hierarchy(50_000, np.random.default_rng(1))
        fan_out = np.sort(np.bincount(links.parents, minlength=50_000))
        tau = Ontology.from_edges(zip(map(str, links.children), map(str, links.parents), strict=True)).taxonomy()
        assert (len(tau), tau.root, tau.depth.max()) == (50_000, "0", 15)
        assert (tau.depth == links.depth[[int(c) for c in tau.ids]]).all()
        assert 1.5 < links.children.size / 50_000 < 1.7
        assert fan_out[-1] > 500
        assert fan_out[-500:].sum() > 0.25 * fan_out.sum()
        assert 0.5 < (fan_out == 0).mean() < 0.75
        assert 8 < tau.closure.ancestors.size / 50_000 < 25

    def test_identifiers_have_check_digits(self):
        items = np.array([138875, 116680, 404684, 64572])
        assert snomed.identifiers(items, 0).tolist() == [138875005, 116680003, 404684003, 64572001]
        ids = snomed.concept_ids(5000, np.random.default_rng(0))
        assert np.unique(ids).size == 5000
