"""Conceptual mapping: the concepts of values."""

from __future__ import annotations

import pytest

from stream_masker import UNKNOWN, ConceptMap, Ontology, read_mapping
from stream_masker.errors import OntologyError

ICD = Ontology.from_edges(
    [("A00", "ICD"), ("A00.0", "A00"), ("038", "ICD"), ("038.9", "038"), *((c, "ICD") for c in ("389", "V01", "E001"))],
    labels={"A00": "Cholera", "A00.0": "Classical cholera", "038": "Septicemia", "389": "Twin", "V01": "twin"},
    synonyms={"A00": ["Asiatic cholera"], "038": ["Blood poisoning"]},
)
DOTS = Ontology.from_edges(
    [(code, "ICD") for code in ("E11", "E01", "845", "008", "25001")]
    + [("E11.9", "E11"), ("E11.65", "E11"), ("E01.1", "E01"), ("008.45", "008"), ("E119A", "E11")]
    + [("I10", "ICD"), ("S72", "ICD"), ("S72.0", "S72"), ("S72.001", "S72.0")]
)
DOTLESS = Ontology.from_edges([("E11", "ICD"), ("E119", "E11"), ("I1", "ICD")])
ATC = Ontology.from_edges([("A10", "root"), ("A10B", "A10"), ("A10BA", "A10B"), ("C07A", "root")])
ORPHA = Ontology.from_edges([(f"ORPHA:{number}", "root") for number in (984, 98, 9)])


def concept(value, ontology=ICD, **options):
    concepts = ConceptMap(ontology.taxonomy(), **options)
    match = concepts.find(value)
    assert concepts.find(value) == match
    return (None if match.position == UNKNOWN else concepts.taxonomy.ids[match.position]), match.how


@pytest.mark.parametrize(
    ("value", "expected", "how"),
    [
        ("A00.0", "A00.0", "exact"),
        ("a000", "A00.0", "normalised"),
        (" a00.0 ", "A00.0", "normalised"),
        ("38", "038", "normalised"),
        ("38.9", "038.9", "normalised"),
        ("389", "389", "exact"),
        ("v01", "V01", "normalised"),
        ("V1", None, "unknown"),
        ("e1", None, "unknown"),
        ("CHOLERA", "A00", "label"),
        ("asiatic cholera", "A00", "label"),
        ("twin", None, "ambiguous"),
        ("A00.99", None, "unknown"),
        ("", None, "unknown"),
    ],
)
def test_values_find_their_concepts(value, expected, how):
    assert concept(value) == (expected, how)


@pytest.mark.parametrize(
    ("value", "expected", "how"),
    [
        ("e11.9", "E11.9", "normalised"),
        ("E119", "E11.9", "normalised"),
        ("e1165", "E11.65", "normalised"),
        ("8.45", "008.45", "normalised"),
        ("845", "845", "exact"),
        ("250.01", "25001", "normalised"),
        ("e11.9a", "E119A", "normalised"),
        ("E11.99", "E11.9", "ancestor"),
        ("E1199", "E11.9", "ancestor"),
        ("8.46", "008", "ancestor"),
        ("250.019", "25001", "ancestor"),
    ],
)
def test_the_position_of_a_dot_matters_if_there_is_one(value, expected, how):
    assert concept(value, DOTS, unknown="ancestor") == (expected, how)


@pytest.mark.parametrize(
    ("ontology", "value", "expected"),
    [
        *((ICD, value, "A00") for value in ("A00.99", "A009")),
        *((ICD, f"{code}{end}", code) for code, end in (("038.9", "7"), ("V01", ".9"))),
        (DOTS, "S72.001A", "S72.001"),
        (DOTLESS, "E11.90", "E119"),
        (DOTLESS, "I1.99", None),
        (ATC, "A10BA02", "A10BA"),
        (ATC, "C07AB02", "C07A"),
        *((ICD, value, None) for value in ("A0", "ZZZ")),
        *((DOTS, value, None) for value in ("ICD10CM:E11.9", "I10,E11.9||J44.9", "I10 E11", "E11.90A", "ICD9")),
        (ORPHA, "ORPHA:98447", None),
    ],
)
def test_an_unknown_code_that_looks_like_a_finer_one_is_replaced_by_its_longest_known_prefix(ontology, value, expected):
    assert concept(value, ontology, unknown="ancestor") == (expected, "ancestor" if expected else "unknown")


def test_the_root_is_no_ancestor_and_neither_is_a_prefix_where_longer_codes_are_not_finer():
    """Codes such as those of SNOMED CT begin alike by chance."""
    below = Ontology.from_edges([("A00.0", "A00"), ("A00.1", "A00")])
    by_chance = Ontology.from_edges([("1000", "r"), ("20001", "1000"), ("30001", "20001"), ("300", "20001")])
    for value, ontology in (("ICDX", ICD), ("A00.2", below), ("3000199", by_chance)):
        assert concept(value, ontology, unknown="ancestor") == (None, "unknown")


@pytest.mark.parametrize("suffix", [".csv", ".tsv"])
def test_a_mapping_file_takes_precedence(tmp_path, suffix):
    path = tmp_path / f"map{suffix}"
    path.write_text("value,concept\nlocal-7,A00.0\nA00,038\n".replace(",", "\t" if suffix == ".tsv" else ","))
    mapping = read_mapping(path)
    assert concept("local-7", mapping=mapping) == ("A00.0", "mapping")
    assert concept("A00", mapping=mapping) == ("038", "mapping")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a,b\n", "lacks the columns value, concept"),
        (b"value,concept\nx\n", "line 2"),
        (b"", "lacks the columns"),
        (b"value,concept\nsecret\xff,A00\n", "is not UTF-8 text"),
    ],
)
def test_errors_of_a_mapping_file_name_the_line_but_no_value(tmp_path, content, message):
    path = tmp_path / "map.csv"
    path.write_bytes(content)
    with pytest.raises(OntologyError, match=message) as caught:
        read_mapping(path)
    assert "secret" not in str(caught.value)
