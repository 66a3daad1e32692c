"""The metadata files of ICD-10, ICD-10-GM and OPS."""

from __future__ import annotations

import pytest

from stream_masker import Ontology
from stream_masker.errors import SourceFormatError

ICD = """\
3;N;X;01;A00;A00.-;A00;A00;Cholera;Cholera;;;V;V;1-002;2-001;3-003;4-002;001;9;9;9999;9999;9;J;J;J;J
4;T;X;01;A00;A00.0;A00.0;A000;Cholera, klassische;Cholera;Cholera, klassische;;P;P;1-002;2-001;3-003;4-002;001
3;N;X;04;E10;E11.-;E11;E11;Typ-2-Diabetes;Typ-2-Diabetes;;;V;V;1-052;2-052;3-057;4-050;082
4;N;S;04;E10;E11.9-;E11.9;E119;Typ-2-Diabetes ohne Komplikationen;;;;V;V;1-052;2-052;3-057;4-050;082
5;T;S;04;E10;E11.90;E11.90;E1190;Nicht als entgleist bezeichnet;;;;P;P;1-052;2-052;3-057;4-050;082
"""
OPS = """\
5;T;X;1;1-40;1-44;1-440.a;;Biopsie am Magen;;;;J;N;N
6;T;X;5;5-50;5-51;5-511.11;B;Cholezystektomie, laparoskopisch;;;;J;N;N
5;N;X;5;5-50;5-51;5-511.1;;Einfach, laparoskopisch;;;;J;N;N
"""


def written(folder, name, text, encoding="utf-8"):
    (folder / name).write_text(text, encoding=encoding)
    return folder / name


def parents(ontology, concept):
    """The concepts above a concept, up to the root."""
    taxonomy = ontology.taxonomy()
    while above := taxonomy.parents_of(concept):
        (concept,) = above
        yield concept


def test_codes_are_below_their_groups_and_chapters(tmp_path):
    source = written(tmp_path, "icd10gm2025syst_kodes.txt", ICD)
    written(tmp_path, "icd10gm2025syst_kapitel.txt", "01;Infektionen\n04;Stoffwechsel\n")
    written(tmp_path, "icd10gm2025syst_gruppen.txt", "A00;A09;01;Darm\nE10;E14;04;Diabetes mellitus\n")
    ontology = Ontology.load(source)
    assert list(parents(ontology, "E11.90")) == ["E11.9", "E11", "E10-E14", "04", "ROOT"]
    labels = [ontology.taxonomy().label(concept) for concept in ("E11", "E10-E14", "04")]
    assert labels == ["Typ-2-Diabetes", "Diabetes mellitus", "Stoffwechsel"]


def test_the_year_may_stand_behind_the_kind_of_file(tmp_path):
    source = written(tmp_path, "icd10gmsyst_kodes2009.txt", ICD, "cp1252")
    written(tmp_path, "icd10gmsyst_kapitel2009.txt", "01;Infektiöse Krankheiten\n04;Stoffwechsel\n", "cp1252")
    ontology = Ontology.load(source)
    assert [ontology.label(concept) for concept in ("01", "04")] == ["Infektiöse Krankheiten", "Stoffwechsel"]


def test_a_text_in_another_encoding_is_named(tmp_path):
    source = written(tmp_path, "codes.txt", ICD.replace("klassische", "übliche"), "cp850")
    with pytest.raises(SourceFormatError, match=r"codes.txt: the text is neither UTF-8 nor Windows-1252: save it as"):
        Ontology.load(source)


@pytest.mark.parametrize("name", ["icd102019syst_codes.txt", "icd10gm.csv", "codes.txt"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_without_the_other_files_codes_are_below_their_chapters(tmp_path, name, encoding):
    ontology = Ontology.load(written(tmp_path, name, ICD, encoding))
    assert list(parents(ontology, "A00.0")) == ["A00", "01", "ROOT"]


def test_procedures_have_categories_in_a_file_of_their_own(tmp_path):
    source = written(tmp_path, "ops2024syst_kodes.txt", OPS)
    written(tmp_path, "ops2024syst_gruppen.txt", "1;1-40;1-49;Biopsie\n5;5-50;5-54;Verdauungstrakt\n")
    written(tmp_path, "ops2024syst_dreisteller.txt", "1;1-40;1-44;Biopsien\n5;5-50;5-51;Gallenblase\n")
    ontology = Ontology.load(source)
    assert list(parents(ontology, "5-511.11")) == ["5-511.1", "5-51", "5-50...5-54", "5", "ROOT"]
    assert list(parents(ontology, "1-440.a")) == ["1-44", "1-40...1-49", "1", "ROOT"]
    assert ontology.taxonomy().label("5-51") == "Gallenblase"


def test_a_change_of_another_file_is_seen(tmp_path):
    source = written(tmp_path, "icd10gm2025syst_kodes.txt", ICD)
    for title in ("Infektionen", "Infektiöse Krankheiten"):
        written(tmp_path, "icd10gm2025syst_kapitel.txt", f"01;{title}\n")
        assert Ontology.load(source).taxonomy().label("01") == title


def test_rows_that_are_no_codes_are_refused(tmp_path):
    source = written(tmp_path, "icd10gm2025syst_kodes.txt", f"{ICD}A00;no code\n")
    with pytest.raises(SourceFormatError, match=r"kodes\.txt: line 6 is not that of a code"):
        Ontology.load(source)
    written(tmp_path, "icd10gm2025syst_kodes.txt", ICD)
    written(tmp_path, "icd10gm2025syst_gruppen.txt", "A00;A09\n")
    with pytest.raises(SourceFormatError, match=r"gruppen\.txt: line 1 has less than 4 columns"):
        Ontology.load(source)


def test_a_table_that_is_not_utf8_is_windows_1252(tmp_path):
    source = written(tmp_path, "ops.csv", "Kode;Bezeichnung\n5-50;Öffnung\n5-501;Exzision\n1-44;Biopsie\n", "cp1252")
    assert Ontology.load(source).taxonomy().label("5-50") == "Öffnung"
