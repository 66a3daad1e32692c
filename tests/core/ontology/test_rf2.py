"""SNOMED CT releases: reading, and errors of invalid releases."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from support import snomed

from stream_masker import Ontology
from stream_masker.errors import OntologyError

ROOT, DISEASE, EAR, MENIERE, OLD = 138875005, 64572001, 25906001, 13445001, 99999003
FSN, SYNONYM, DEFINITION = snomed.FULLY_SPECIFIED_NAME, snomed.SYNONYM, 900000000000550004

CONCEPTS = [(ROOT, 1), (DISEASE, 1), (EAR, 1), (MENIERE, 1), (OLD, 0)]
LINKS = [(DISEASE, ROOT), (EAR, DISEASE), (MENIERE, EAR), (MENIERE, DISEASE)]
IGNORED = [(MENIERE, EAR), (OLD, EAR), (42, EAR)]
"""A link that is there already, and links of concepts that are inactive or unknown."""

TERMS = [
    (11, 1, MENIERE, "es", FSN, "Enfermedad de Ménière (trastorno)"),
    (12, 1, MENIERE, "en", SYNONYM, "Ménière's disease"),
    (13, 1, MENIERE, "en", FSN, "Ménière's disease (disorder)"),
    (14, 0, MENIERE, "en", SYNONYM, "Retired name"),
    (15, 1, MENIERE, "es", SYNONYM, "Enfermedad de Ménière"),
    (16, 1, MENIERE, "en", DEFINITION, "A disorder of the inner ear."),
    (10, 1, MENIERE, "en-GB", SYNONYM, "Endolymphatic hydrops"),
    (18, 1, EAR, "da", SYNONYM, "Øresygdom"),
    (19, 1, OLD, "en", FSN, "Old concept (disorder)"),
    (20, 1, ROOT, "en", FSN, "SNOMED CT Concept"),
]


def concept_row(concept, active):
    return f"{concept}\t20240101\t{active}\t{snomed.OTHER}\t{snomed.OTHER}"


def link_row(child, parent):
    return f"1\t20240101\t1\t1\t{child}\t{parent}\t0\t{snomed.IS_A}\t{snomed.OTHER}\t{snomed.OTHER}"


def term_row(own, active, concept, language, kind, term):
    return f"{own}\t20240101\t{active}\t1\t{concept}\t{language}\t{kind}\t{term}\t{snomed.OTHER}"


def release():
    """The lines of each file of a small release, which tests modify."""
    return SimpleNamespace(
        concepts=[header(snomed.CONCEPT), *(concept_row(*row) for row in CONCEPTS)],
        links=[header(snomed.RELATIONSHIP), *(link_row(*row) for row in LINKS + IGNORED)],
        terms=[header(snomed.DESCRIPTION), *(term_row(*row) for row in TERMS)],
    )


def header(columns):
    return columns.replace(" ", "\t")


def write(folder, lines, end="\r\n", encoding="utf-8"):
    files = {"Concept_Snapshot": lines.concepts, "Relationship_Snapshot": lines.links}
    folder.mkdir(parents=True)
    for name, rows in {**files, "Description_Snapshot-en": lines.terms}.items():
        content = "".join(row + end for row in rows).encode(encoding)
        (folder / f"sct2_{name}_INT_20240101.txt").write_bytes(content)
    return folder


def assert_is_the_release(onto):
    tau = onto.taxonomy()
    assert list(tau.ids) == [str(c) for c in (ROOT, DISEASE, EAR, MENIERE)]
    assert tau.depth.tolist() == [1, 2, 3, 4]
    assert tau.parents_of(str(MENIERE)) == (str(DISEASE), str(EAR))
    labels = [onto.label(concept) for concept in tau.ids]
    assert labels == ["SNOMED CT Concept", "", "Øresygdom", "Ménière's disease (disorder)"]
    spanish = ["Enfermedad de Ménière", "Enfermedad de Ménière (trastorno)"]
    assert sorted(onto.names_of(str(MENIERE))[1:]) == ["Endolymphatic hydrops", *spanish, "Ménière's disease"]


@pytest.mark.parametrize(("end", "encoding"), [("\r\n", "utf-8-sig"), ("\n", "utf-8")])
def test_a_release_is_found_in_folders_and_archives(tmp_path, end, encoding):
    folder = tmp_path / "release"
    write(folder / "Int/Snapshot/Terminology", release(), end, encoding)
    assert_is_the_release(Ontology.load(folder))
    assert_is_the_release(Ontology.load(shutil.make_archive(str(tmp_path / "release"), "zip", folder)))


def swap(rows, line, row):
    rows[line - 1] = row


BAD = [
    (lambda r: r.links.clear(), "Relationship.*: the first line lacks the columns active, sourceId"),
    (lambda r: r.links.append(link_row(EAR, OLD)), "these parents are not concepts: 99999003$"),
    (lambda r: r.links.append(link_row(EAR, 42)), "these parents are not concepts: 42$"),
    (lambda r: r.links.append(link_row(DISEASE, MENIERE)), r"form a cycle: \d+, \d+(, \d+)?$"),
    (lambda r: r.concepts.append(concept_row(7, 1)), "only the root 138875005 may lack: 7$"),
    (lambda r: swap(r.links, 1, snomed.CONCEPT), "first line lacks the columns active, sourceId"),
    (lambda r: swap(r.terms, 4, r.terms[3][:60]), "Description.*: line 4 has 8 of 9 columns"),
]


@pytest.mark.parametrize(("modify", "message"), BAD)
def test_errors_name_the_file_and_the_line(tmp_path, modify, message):
    lines = release()
    modify(lines)
    with pytest.raises(OntologyError, match=message) as caught:
        Ontology.load(write(tmp_path / "release", lines))
    assert str(tmp_path / "release") in str(caught.value)


def test_a_missing_file_is_named_and_a_damaged_archive_refused(tmp_path):
    folder = write(tmp_path / "release", release())
    path = Path(shutil.make_archive(str(tmp_path / "release"), "zip", folder))
    whole = path.read_bytes()
    path.write_bytes(whole[:50])
    with pytest.raises(OntologyError, match="the file cannot be read: File is not a zip file"):
        Ontology.load(path)
    path.write_bytes(whole[:50] + bytes(20) + whole[70:])
    with pytest.raises(OntologyError, match="the file cannot be read: "):
        Ontology.load(path)
    (file,) = folder.glob("*Relationship*")
    file.unlink()
    with pytest.raises(OntologyError, match=r"RF2 snapshot are missing: sct2_Relationship_Snapshot\*.txt$"):
        Ontology.load(folder)
