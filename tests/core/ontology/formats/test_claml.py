"""Classifications in ClaML."""

from __future__ import annotations

import gzip
import re

import pytest

from stream_masker.core.ontology import ConceptMap, Ontology
from stream_masker.errors import OntologyError

DOCUMENT = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE ClaML SYSTEM "ClaML.dtd">
<ClaML version="2.0.0">
  <Title name="ICD-10" version="2019">International Classification</Title>
  <Modifier code="S4"><SubClass code=".0"/><SubClass code=".1"/></Modifier>
  <ModifierClass code=".0" modifier="S4"><SuperClass code="S4"/>
    <Rubric kind="preferred"><Label xml:lang="en">with coma</Label></Rubric></ModifierClass>
  <ModifierClass code=".1" modifier="S4"><SuperClass code="S4"/>
    <Rubric kind="preferred"><Label xml:lang="en">with ketoacidosis</Label></Rubric></ModifierClass>
  <ModifierClass code="0" modifier="S5"><Rubric kind="preferred"><Label>not derailed</Label></Rubric></ModifierClass>
  <ModifierClass code="1" modifier="S5"><Rubric kind="preferred"><Label>derailed</Label></Rubric></ModifierClass>
  <Class code="I" kind="chapter"><SubClass code="A00"/>
    <Rubric kind="preferred"><Label>Certain infectious <Fragment>diseases</Fragment></Label></Rubric></Class>
  <Class code="IV" kind="chapter"><SubClass code="E10"/>
    <Rubric kind="preferred"><Label>Endocrine diseases</Label></Rubric></Class>
  <Class code="A00" kind="category"><SuperClass code="I"/>
    <Rubric kind="preferred"><Label>Cholera <Reference>A01</Reference></Label></Rubric>
    <Rubric kind="inclusion"><Label>Asiatic
      cholera</Label></Rubric></Class>
  <Class code="E10" kind="category"><SuperClass code="IV"/><ModifiedBy code="S4"/>
    <ModifiedBy code="S5" all="false"><ValidModifierClass code="1"/></ModifiedBy>
    <Rubric kind="preferred"><Label>Type 1 diabetes</Label></Rubric></Class>
  <Class code="E10.1" kind="category"><SuperClass code="E10"/>
    <Rubric kind="preferred"><Label>Its own label</Label></Rubric></Class>
</ClaML>
"""


@pytest.fixture
def classification(tmp_path):
    path = tmp_path / "icd10.xml.gz"
    path.write_bytes(gzip.compress(DOCUMENT.encode()))
    return Ontology.load(path)


def test_chapters_have_a_common_root_with_the_name_of_the_title(classification):
    tau = classification.taxonomy()
    assert classification.root == "ICD-10"
    assert classification.label("ICD-10") == "International Classification"
    assert list(tau.children_of("ICD-10")) == ["I", "IV"]


def test_labels_are_texts_without_references_and_line_breaks(classification):
    assert classification.label("I") == "Certain infectious diseases"
    assert classification.label("A00") == "Cholera"
    assert classification.synonyms["A00"] == ("Asiatic cholera",)
    concepts = ConceptMap(classification.taxonomy(), ontology=classification)
    assert concepts.taxonomy.ids[concepts.find("asiatic CHOLERA").position] == "A00"


def test_modifiers_make_codes_one_level_after_another(classification):
    tau = classification.taxonomy()
    assert list(tau.children_of("E10")) == ["E10.0", "E10.1"]
    assert classification.label("E10.0") == "Type 1 diabetes: with coma"
    assert classification.label("E10.1") == "Its own label"
    assert list(tau.children_of("E10.0")) == ["E10.01"]
    assert classification.label("E10.11") == "Its own label: derailed"
    assert len(classification) == 9


def test_modifiers_of_a_category_apply_to_its_subclasses(tmp_path):
    modified = {"I70": "I70_4", "M45": "M40_5", "W00": "W00_4"}
    document = '<ClaML><Class code="IX" kind="chapter"><ModifiedBy code="W00_4"/></Class>'
    for category, modifier in modified.items():
        document += f'<ModifierClass code="0" modifier="{modifier}"/><ModifierClass code="1" modifier="{modifier}"/>'
        inner = f'<SuperClass code="IX"/><ModifiedBy code="{modifier}"/>'
        document += f'<Class code="{category}" kind="category">{inner}</Class>'
    document += '<Class code="I70.0" kind="category"><SuperClass code="I70"/></Class>'
    document += '<Class code="I70.9" kind="category"><SuperClass code="I70"/><ExcludeModifier code="I70_4"/></Class>'
    (tmp_path / "icd10.xml").write_text(document + "</ClaML>")
    tau = Ontology.load(tmp_path / "icd10.xml").taxonomy()
    below = {code: list(tau.children_of(code)) for code in ("IX", *modified, "I70.0", "I70.9")}
    assert below == {
        "IX": ["I70", "M45", "W00"],
        "I70": ["I70.0", "I70.9"],
        "M45": ["M45.X0", "M45.X1"],
        "W00": ["W00.0", "W00.1"],
        "I70.0": ["I70.00", "I70.01"],
        "I70.9": [],
    }


def test_classes_may_name_their_subclasses_alone(tmp_path):
    document = re.sub(r'(<Class .*)<SuperClass code=".*?"/>', r"\1", DOCUMENT)
    document = document.replace('<ModifiedBy code="S4"/>', '<SubClass code="E10.1"/><ModifiedBy code="S4"/>')
    (tmp_path / "icd10.xml").write_text(document)
    tau = Ontology.load(tmp_path / "icd10.xml").taxonomy()
    assert "SuperClass" not in document.partition("<Class ")[2]
    assert [list(tau.children_of(code)) for code in ("I", "IV", "E10")] == [["A00"], ["E10"], ["E10.0", "E10.1"]]


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ("<ClaML>", "line 1 is not well-formed XML"),
        ("<other/>", "the document element must be ClaML"),
        ("<ClaML><Class/></ClaML>", "Class needs code"),
        ('<ClaML><Class code="A"/><Class code="A"/></ClaML>', "a class is given twice: A"),
        ('<ClaML><Class code="A"><SuperClass code="B"/></Class></ClaML>', "these parents are not concepts: B"),
        ("<ClaML/>", "holds no concept"),
    ],
)
def test_documents_that_are_refused(tmp_path, document, message):
    (tmp_path / "c.claml").write_text(document)
    with pytest.raises(OntologyError, match=message):
        Ontology.load(tmp_path / "c.claml")
