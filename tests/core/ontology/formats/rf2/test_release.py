"""SNOMED CT releases: reading, and errors of invalid releases."""

import zipfile

import pytest
from support import snomed

from stream_masker.core.ontology import Ontology
from stream_masker.errors import (
    CycleError,
    DuplicateConceptError,
    EmptyOntologyError,
    InactiveParentError,
    MissingFileError,
    OntologyError,
    SeveralRootsError,
    SourceFormatError,
    UnknownParentError,
)

pytestmark = pytest.mark.usefixtures("own_cache")

ROOT, DISEASE, EAR, MENIERE, OLD = 138875005, 64572001, 25906001, 13445001, 99999003
FSN, SYNONYM, DEFINITION = snomed.FULLY_SPECIFIED_NAME, snomed.SYNONYM, 900000000000550004
KINDS = {"Concept": snomed.CONCEPT, "Description": snomed.DESCRIPTION, "Relationship": snomed.RELATIONSHIP}

CONCEPTS = [(ROOT, 1), (DISEASE, 1), (EAR, 1), (MENIERE, 1), (OLD, 0)]
LINKS = [(DISEASE, ROOT), (EAR, DISEASE), (MENIERE, EAR), (MENIERE, DISEASE)]
TERMS = [
    (11, 1, MENIERE, "es", FSN, "Enfermedad de Ménière (trastorno)"),
    (12, 1, MENIERE, "en", SYNONYM, "Ménière's disease"),
    (13, 1, MENIERE, "en", FSN, "Ménière's disease (disorder)"),
    (14, 0, MENIERE, "en", SYNONYM, "Retired name"),
    (15, 1, MENIERE, "es", SYNONYM, "Enfermedad de Ménière"),
    (16, 1, MENIERE, "en", DEFINITION, "A disorder of the inner ear."),
    (10, 1, MENIERE, "en-GB", SYNONYM, "Endolymphatic hydrops"),
    (17, 1, EAR, "es", SYNONYM, "Trastorno del oído"),
    (18, 1, EAR, "da", SYNONYM, "Øresygdom"),
    (19, 1, OLD, "en", FSN, "Old concept (disorder)"),
    (20, 1, ROOT, "en", FSN, "SNOMED CT Concept"),
]


def concept_row(concept, active):
    return f"{concept}\t20240101\t{active}\t{snomed.MODULE}\t{snomed.PRIMITIVE}"


def link_row(child, parent, active=1, kind=snomed.IS_A, own=1):
    return f"{own}\t20240101\t{active}\t1\t{child}\t{parent}\t0\t{kind}\t{snomed.INFERRED}\t{snomed.SOME}"


def term_row(own, active, concept, language, kind, term):
    return f"{own}\t20240101\t{active}\t1\t{concept}\t{language}\t{kind}\t{term}\t{snomed.CASE}"


def lines(kind, rows):
    return [KINDS[kind].replace(" ", "\t"), *rows]


class Release:
    """The lines of each file of a small release, which tests modify."""

    def __init__(self, folder):
        self.folder = folder
        self.concepts = lines("Concept", [concept_row(*row) for row in CONCEPTS])
        self.links = lines("Relationship", [link_row(*row) for row in LINKS])
        self.terms = lines("Description", [term_row(*row) for row in TERMS])

    def path(self, kind, place=".", release="_INT_20240101"):
        language = "-en" if kind == "Description" else ""
        return self.folder / place / f"sct2_{kind}_Snapshot{language}{release}.txt"

    def write(self, place=".", release="_INT_20240101", end="\r\n", encoding="utf-8"):
        for kind, rows in [("Concept", self.concepts), ("Relationship", self.links), ("Description", self.terms)]:
            path = self.path(kind, place, release)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes("".join(row + end for row in rows).encode(encoding))
        return self.folder


@pytest.fixture
def release(tmp_path):
    return Release(tmp_path / "release")


def assert_is_the_release(onto):
    tau = onto.taxonomy()
    assert list(tau.ids) == [str(c) for c in (ROOT, DISEASE, EAR, MENIERE)]
    assert tau.depth.tolist() == [1, 2, 3, 4]
    assert tau.parents_of(str(MENIERE)) == (str(DISEASE), str(EAR))
    assert (onto.root, onto.label(str(ROOT))) == ("138875005", "SNOMED CT Concept")


class TestReading:
    @pytest.mark.parametrize("end", ["\r\n", "\n"])
    @pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
    def test_active_concepts_links_and_descriptions(self, release, end, encoding):
        onto = Ontology.load(release.write(end=end, encoding=encoding))
        assert_is_the_release(onto)

    def test_labels_are_fully_specified_names_preferably_english(self, release):
        onto = Ontology.load(release.write())
        assert onto.label(str(MENIERE)) == "Ménière's disease (disorder)"
        assert onto.label(str(EAR)) == "Øresygdom"
        assert onto.label(str(DISEASE)) == ""

    def test_synonyms_are_in_all_languages_english_first(self, release):
        onto = Ontology.load(release.write())
        assert dict(onto.synonyms) == {
            str(MENIERE): ("Endolymphatic hydrops", "Ménière's disease", "Enfermedad de Ménière"),
            str(EAR): ("Trastorno del oído",),
        }

    @pytest.mark.parametrize("place", [".", "Terminology", "Snapshot/Terminology", "Int/Snapshot/Terminology"])
    def test_files_are_found_in_subfolders(self, release, place):
        assert_is_the_release(Ontology.load(release.write(place)))

    @pytest.mark.parametrize("kind", KINDS)
    def test_one_file_stands_for_its_release_next_to_another_release(self, release, kind):
        release.write(release="_INT_20240101")
        release.concepts.append(concept_row(OLD, 1))
        release.write(release="_INT_20250101")
        assert_is_the_release(Ontology.load(release.path(kind)))

    @pytest.mark.parametrize("place", [".", "SnomedCT_1/Snapshot/Terminology"])
    def test_files_are_found_in_an_archive(self, release, tmp_path, place):
        release.write(place)
        with zipfile.ZipFile(tmp_path / "release.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            for path in release.folder.rglob("*.txt"):
                archive.write(path, path.relative_to(release.folder))
        assert_is_the_release(Ontology.load(tmp_path / "release.zip"))

    def test_several_files_of_a_kind_are_combined(self, release):
        release.write()
        extension = Release(release.folder)
        extension.concepts[1:] = [concept_row(7, 1)]
        extension.links[1:] = [link_row(7, EAR), link_row(MENIERE, EAR, own=9)]
        extension.terms[1:] = [term_row(21, 1, 7, "nl", SYNONYM, "Oorpijn")]
        onto = Ontology.load(extension.write(release="_NL_20240101"))
        assert onto.taxonomy().parents_of("7") == (str(EAR),)
        assert (len(onto), onto.label("7"), onto.label(str(ROOT))) == (5, "Oorpijn", "SNOMED CT Concept")

    def test_links_that_are_inactive_of_another_kind_or_of_inactive_concepts_are_ignored(self, release):
        release.links += [
            link_row(EAR, MENIERE, active=0),
            link_row(EAR, MENIERE, kind=snomed.FINDING_SITE),
            link_row(OLD, EAR),
            link_row(MENIERE, EAR, own=2),
        ]
        assert_is_the_release(Ontology.load(release.write()))

    def test_the_root_may_be_another_concept(self, release):
        release.concepts[1] = concept_row(404684003, 1)
        release.links[1] = link_row(DISEASE, 404684003)
        assert Ontology.load(release.write()).root == "404684003"

    def test_a_complete_last_line_may_lack_its_newline(self, release):
        release.write(end="\n")
        path = release.path("Relationship")
        path.write_bytes(path.read_bytes()[:-1])
        assert_is_the_release(Ontology.load(release.folder))

    def test_a_release_is_parsed_once_and_again_after_a_change(self, release, own_cache):
        Ontology.load(release.write())
        Ontology.load(release.folder.rename(release.folder.parent / "moved"))
        assert len(list(own_cache.glob("*.ontology"))) == 1
        release.terms.pop()
        assert Ontology.load(release.write()).label(str(ROOT)) == ""
        assert len(list(own_cache.glob("*.ontology"))) == 2


def swap(rows, line, row):
    rows[line - 1] = row


def cut(text, columns):
    return "\t".join(text.split("\t")[:columns])


BAD = {
    "no concept row": (
        lambda r: r.concepts.__delitem__(slice(1, None)),
        EmptyOntologyError,
        "Concept.*no active concept",
    ),
    "an inactive parent": (
        lambda r: r.links.append(link_row(EAR, OLD)),
        InactiveParentError,
        "Relationship.*: line 6: an active is-a row leads to an inactive concept: 99999003$",
    ),
    "an unknown parent": (
        lambda r: r.links.append(link_row(EAR, 42)),
        UnknownParentError,
        "Relationship.*: line 6: .*no concept file holds: 42$",
    ),
    "an unknown child": (
        lambda r: r.links.append(link_row(42, EAR)),
        UnknownParentError,
        "Relationship.*: line 6: .*no concept file holds: 42$",
    ),
    "many unknown parents": (
        lambda r: r.links.extend(link_row(EAR, k) for k in range(1, 9)),
        UnknownParentError,
        "line 6: .*: 1, 2, 3, 4, 5 and 3 more$",
    ),
    "a cycle": (
        lambda r: r.links.append(link_row(DISEASE, MENIERE)),
        CycleError,
        r"Relationship.*form a cycle: \d+, \d+(, \d+)?$",
    ),
    "a concept that is its own parent": (
        lambda r: r.links.append(link_row(EAR, EAR)),
        CycleError,
        "Relationship.*form a cycle: 25906001$",
    ),
    "a second root": (
        lambda r: r.concepts.append(concept_row(7, 1)),
        SeveralRootsError,
        "Relationship.*no active is-a row, which only the root 138875005 may lack: 7$",
    ),
    "several rows of a concept": (
        lambda r: r.concepts.append(concept_row(EAR, 0)),
        DuplicateConceptError,
        "Concept.*several rows.*: 25906001$",
    ),
    "another header": (
        lambda r: swap(r.links, 1, snomed.CONCEPT.replace(" ", "\t")),
        SourceFormatError,
        "Relationship.*first line must be the 10 columns id, effectiveTime, active, moduleId, sourceId",
    ),
    "spaces for tabs": (
        lambda r: swap(r.concepts, 1, snomed.CONCEPT),
        SourceFormatError,
        "Concept.*first line must be",
    ),
    "a short line": (
        lambda r: swap(r.terms, 4, cut(r.terms[3], 5)),
        SourceFormatError,
        "Description.*: line 4 has only 5 of 9 columns: the file is truncated or damaged",
    ),
    "an empty line": (lambda r: r.links.insert(2, ""), SourceFormatError, "Relationship.*: line 3 has only 1 of 10"),
    "a long line": (
        lambda r: swap(r.terms, 4, r.terms[3].replace("disease", "dis\tease")),
        SourceFormatError,
        "Description.*: line 4 has more than 9 of 9 columns",
    ),
    "a flag": (
        lambda r: swap(r.concepts, 3, concept_row(DISEASE, 2)),
        SourceFormatError,
        "Concept.*: line 3: active is not 0 or 1$",
    ),
    "an id": (
        lambda r: swap(r.links, 3, link_row("25906001x", DISEASE)),
        SourceFormatError,
        "Relationship.*: line 3: sourceId is not a number of at most 18 digits$",
    ),
    "a long id": (
        lambda r: swap(r.concepts, 2, concept_row(10**18, 1)),
        SourceFormatError,
        "Concept.*: line 2: id is not a number",
    ),
    "a language": (
        lambda r: swap(r.terms, 2, term_row(11, 1, MENIERE, "", FSN, "x")),
        SourceFormatError,
        "Description.*: line 2: languageCode is not a language code",
    ),
}


class TestInvalidReleases:
    @pytest.mark.parametrize("name", BAD)
    def test_errors_name_the_file_and_the_line(self, release, name):
        modify, error, message = BAD[name]
        modify(release)
        with pytest.raises(error, match=message) as caught:
            Ontology.load(release.write())
        assert type(caught.value) is error
        assert str(release.folder) in str(caught.value)

    @pytest.mark.parametrize("kind", KINDS)
    def test_a_missing_file_is_named(self, release, kind):
        release.write()
        release.path(kind).unlink()
        other = release.path(next(other for other in KINDS if other != kind))
        for source in (release.folder, other):
            with pytest.raises(
                MissingFileError, match=rf"lacks files of a SNOMED CT RF2 .*: sct2_{kind}_Snapshot\*.txt$"
            ):
                Ontology.load(source)

    def test_a_folder_without_snapshots_is_refused(self, tmp_path):
        (tmp_path / "sct2_Concept_Full_INT_20240101.txt").write_text(snomed.CONCEPT)
        with pytest.raises(
            MissingFileError, match=r"Concept_Snapshot\*.*Description_Snapshot\*.*Relationship_Snapshot"
        ):
            Ontology.load(tmp_path)

    def test_a_file_that_does_not_exist_is_refused(self, release):
        release.write()
        with pytest.raises(MissingFileError):
            Ontology.load(release.folder / "sct2_Concept_Snapshot_INT_19990101.txt")

    def test_two_releases_in_a_folder_are_refused(self, release):
        release.write("A/Snapshot/Terminology")
        release.write("B/Snapshot/Terminology")
        with pytest.raises(OntologyError, match=r"holds several releases: .*A.*, .*B"):
            Ontology.load(release.folder)
        release.write(release="_INT_20240101")
        release.write(release="_INT_20250101")
        with pytest.raises(DuplicateConceptError, match="or belong to several releases: 13445001"):
            Ontology.load(release.folder)

    @pytest.mark.parametrize("kind", KINDS)
    def test_an_empty_file_is_refused(self, release, kind):
        release.write()
        release.path(kind).write_bytes(b"")
        with pytest.raises(EmptyOntologyError, match=f"{kind}.* is empty$"):
            Ontology.load(release.folder)

    @pytest.mark.parametrize("end", [b"", b"\r\n"])
    def test_files_with_only_a_header_are_refused(self, release, end):
        release.write()
        release.path("Description").write_bytes(snomed.DESCRIPTION.replace(" ", "\t").encode() + end)
        assert not any(Ontology.load(release.folder).taxonomy().labels)
        release.path("Relationship").write_bytes(snomed.RELATIONSHIP.replace(" ", "\t").encode() + end)
        with pytest.raises(SeveralRootsError, match=r"only the root .* may lack: 13445001, 25906001, 64572001$"):
            Ontology.load(release.folder)

    @pytest.mark.parametrize("line", [2, 5, 12])
    def test_an_error_of_the_encoding_names_the_line(self, release, line):
        release.write()
        path = release.path("Description")
        rows = path.read_bytes().split(b"\r\n")
        rows[line - 1] = rows[line - 1].replace(b"\t900", "é\t900".encode("latin-1"), 1)
        path.write_bytes(b"\r\n".join(rows))
        with pytest.raises(SourceFormatError, match=f"Description.*: line {line} is not UTF-8 text$"):
            Ontology.load(release.folder)

    def test_utf_16_is_refused(self, release):
        with pytest.raises(SourceFormatError, match="line 1 is not UTF-8 text"):
            Ontology.load(release.write(encoding="utf-16"))

    @pytest.mark.parametrize("kind", KINDS)
    def test_a_file_that_is_truncated_within_a_line_is_refused(self, release, kind):
        release.write()
        data = release.path(kind).read_bytes()
        last = len(data) - data.rstrip(b"\r\n").rindex(b"\n") - 1
        for missing in range(3, last):
            release.path(kind).write_bytes(data[:-missing])
            with pytest.raises(SourceFormatError, match=f"{kind}.*truncated"):
                Ontology.load(release.folder)

    def test_an_archive_that_is_invalid_or_damaged_is_refused(self, release, tmp_path):
        (tmp_path / "x.zip").write_bytes(b"no archive")
        with pytest.raises(SourceFormatError, match=r"x.zip cannot be read as a zip archive"):
            Ontology.load(tmp_path / "x.zip")
        release.write()
        with zipfile.ZipFile(tmp_path / "y.zip", "w") as archive:
            for path in release.folder.iterdir():
                archive.write(path, path.name)
        data = (tmp_path / "y.zip").read_bytes()
        (tmp_path / "y.zip").write_bytes(data.replace(b"SNOMED CT Concept", b"SNOMED CT Damaged"))
        with pytest.raises(SourceFormatError, match=r"y.zip/sct2_Description.* cannot be unpacked"):
            Ontology.load(tmp_path / "y.zip")
        with zipfile.ZipFile(tmp_path / "z.zip", "w") as archive:
            archive.writestr("readme.txt", "")
        with pytest.raises(MissingFileError, match=r"z.zip lacks files"):
            Ontology.load(tmp_path / "z.zip")
