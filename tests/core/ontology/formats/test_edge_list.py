"""Edge lists and lists of codes."""

from __future__ import annotations

import pytest

from stream_masker.core.ontology import Ontology
from stream_masker.errors import SourceFormatError, UnknownParentError


@pytest.fixture
def load(tmp_path):
    def load(rows):
        (tmp_path / "edges.csv").write_text("concept,parent\n" + rows)
        return Ontology.load(tmp_path / "edges.csv")

    return load


def test_one_parent_without_a_row_is_the_root(load):
    assert load("a,top\nb,top\na1,a\n").taxonomy().root == "top"


def test_several_parents_without_rows_get_a_common_root(load):
    tau = load("a1,a\na2,a\nb1,b\nc1,b1\n").taxonomy()
    assert {concept for concept in tau.ids if concept != tau.root} == {"a", "a1", "a2", "b", "b1", "c1"}
    assert tau.depth[tau.position("a")] == tau.depth[tau.position("b")] == 2
    assert tau.depth[tau.position("c1")] == 4


def test_a_parent_without_a_row_is_an_error_beside_a_root_that_has_one(load):
    with pytest.raises(UnknownParentError, match="these parents are not concepts: typo"):
        load("top,\na,top\nb,typo\n")


@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("delimiter", [",", ";"])
def test_semicolons_and_a_byte_order_mark_are_read_as_in_events(tmp_path, mark, delimiter):
    rows = ["concept,parent,label", "R,,All", "A,R,Chapter A"]
    text = mark + "\n".join(rows).replace(",", delimiter)
    (tmp_path / "a.csv").write_text(text + f'\nA1{delimiter}A{delimiter}"one{delimiter} two"\n', encoding="utf-8")
    onto = Ontology.load(tmp_path / "a.csv")
    assert (onto.root, onto.label("A1")) == ("R", f"one{delimiter} two")


ATC = """ATC-Code;ATC-Bedeutung;DDD
A;Alimentäres System und Stoffwechsel;
A10;Antidiabetika;
A10B;Antidiabetika, exkl. Insuline;
A10BA;Biguanide;
A10BA02;Metformin;2 g O
A10BA02;Metformin;1 g P
C;Kardiovaskuläres System;
C03;Diuretika;
"""

OPS = """code,title
5,Operationen
5-47,Operationen an der Appendix
5-470,Appendektomie
5-470.1,Laparoskopisch
5-470.11,Absetzung durch Klammern
5-471,Simultane Appendektomie
"""

OPS_BLOCKS = """Kode;Titel
1;Diagnostische Maßnahmen
1-10...1-10;Klinische Untersuchung
1-10;Klinische Untersuchung
1-100;Klinische Untersuchung in Allgemeinanästhesie
1-20...1-33;Untersuchung einzelner Körpersysteme
1-20...1-22;Neurologische Untersuchungen
1-20;Neurologische Untersuchungen
1-207;EEG
1-207.0;Routine-EEG
1-31;Funktionsuntersuchung des Verdauungstraktes
"""

ICD_BLOCKS = (
    "code,label\nI05-I70,Circulatory\nI10-I15,Hypertensive\nI10,Hypertension\nI15.0,Renovascular\nI63.9,Stroke\n"
)


@pytest.mark.parametrize(
    ("text", "concept", "ancestors", "label"),
    [
        (ATC, "A10BA02", ["A10BA", "A10B", "A10", "A", "ROOT"], "Metformin"),
        (OPS, "5-470.11", ["5-470.1", "5-470", "5-47", "5"], "Absetzung durch Klammern"),
        ("icd_code,name\nE11,Diabetes\nE11.9,Without\nE11.90,Controlled\n", "E11.90", ["E11.9", "E11"], "Controlled"),
        ("Schlüsselnummer;Titel\nE11.-;Diabetes\nE11;D\nE11.9;W\n", "E11.9", ["E11"], "W"),
        (OPS_BLOCKS, "1-100", ["1-10", "1-10...1-10", "1"], "Klinische Untersuchung in Allgemeinanästhesie"),
        (OPS_BLOCKS, "1-207.0", ["1-207", "1-20", "1-20...1-22", "1-20...1-33", "1"], "Routine-EEG"),
        (OPS_BLOCKS, "1-31", ["1-20...1-33", "1"], "Funktionsuntersuchung des Verdauungstraktes"),
        (ICD_BLOCKS, "I10", ["I10-I15", "I05-I70"], "Hypertension"),
        (ICD_BLOCKS, "I15.0", ["I10-I15", "I05-I70"], "Renovascular"),
        (ICD_BLOCKS, "I63.9", ["I05-I70"], "Stroke"),
    ],
)
def test_the_parents_of_a_list_of_codes_follow_from_the_codes(tmp_path, text, concept, ancestors, label):
    (tmp_path / "codes.csv").write_text(text, encoding="utf-8")
    onto = Ontology.load(tmp_path / "codes.csv")
    tau, found = onto.taxonomy(), []
    above = tau.parents_of(concept)
    while above:
        found += above
        above = tau.parents_of(above[0])
    assert found == ancestors
    assert onto.label(concept) == label


def test_a_table_without_codes_and_a_row_without_a_code_are_refused(tmp_path):
    (tmp_path / "a.csv").write_text("one;two\n1;2\n")
    with pytest.raises(SourceFormatError, match="or have a column of codes, such as code,label"):
        Ontology.load(tmp_path / "a.csv")
    (tmp_path / "b.csv").write_text("code;label\n;x\n")
    with pytest.raises(SourceFormatError, match="line 2 has no code"):
        Ontology.load(tmp_path / "b.csv")
