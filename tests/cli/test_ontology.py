"""``stream-masker ontology``."""

from __future__ import annotations

import pytest
from support.file_commands import run

EDGES = """concept,parent,label
disease,,Disease
digestive,disease,Disease of the digestive system
oral,digestive,Disease of the mouth
gingivitis,oral,Gingivitis
gastritis1,digestive,Gastritis
gastritis2,digestive,Gastritis
tumour,disease,Tumour of the mouth
tumour,oral,
"""
SECRET = "no such code"


@pytest.fixture
def source(tmp_path):
    (tmp_path / "diseases.csv").write_text(EDGES)
    return tmp_path / "diseases.csv"


def inspected(*arguments):
    lines = run("ontology", "inspect", *arguments).stdout.splitlines()
    return [tuple(part.strip() for part in line.split(":", 1)) for line in lines]


def test_the_counts_of_an_ontology_are_printed(source):
    counts = [("concepts", "7"), ("leaves", "4"), ("depth", "4"), ("with a label", "7")]
    assert inspected(source) == [("root", "disease (Disease)"), *counts]
    assert ("concepts", "98494") in inspected("icd10cm")


@pytest.mark.parametrize("value", ["tumour", "TUMOUR", "tumour of the mouth"])
def test_a_concept_is_found_by_id_and_by_label(source, value):
    assert sorted(inspected(source, value)) == [
        ("concept", "tumour"),
        ("depth", "4"),
        ("label", "Tumour of the mouth"),
        ("parent", "disease (Disease)"),
        ("parent", "oral (Disease of the mouth)"),
    ]


@pytest.mark.parametrize(("value", "how"), [("nothing", "unknown"), ("Gastritis", "ambiguous")])
def test_what_is_no_concept_is_an_error(source, value, how):
    message = f"Error: {value!r} is not the code or label of one concept of the ontology ({how})\n"
    assert run("ontology", "inspect", source, value, code=2).stderr == message


def test_each_value_has_its_concept_and_how_it_was_found(source):
    values = f"oral\nORAL\nGingivitis\n{SECRET}\n\noral.5\nGastritis\n"
    result = run("ontology", "map", source, input=values)
    assert result.stdout.splitlines() == [
        "1\toral\texact",
        "2\toral\tnormalised",
        "3\tgingivitis\tnormalised",
        *(f"{number}\t-\tunknown" for number in (4, 5, 6)),
        "7\t-\tambiguous",
    ]
    assert result.stderr.startswith("7 values: ")
    assert SECRET not in result.output
