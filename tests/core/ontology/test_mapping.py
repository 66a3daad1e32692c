"""Conceptual mapping: values to concepts."""

import pytest
from support.data import discharges, icd9cm

from stream_masker.core.ontology import UNKNOWN, ConceptMap, Ontology
from stream_masker.core.ontology.mapping import read_mapping
from stream_masker.errors import OntologyError, ParameterError

ICD = Ontology.from_edges(
    [
        ("A00", "ICD"),
        ("A00.0", "A00"),
        ("038", "ICD"),
        ("038.9", "038"),
        ("389", "ICD"),
        ("V01", "ICD"),
        ("E001", "ICD"),
    ],
    labels={"A00": "Cholera", "A00.0": "Classical cholera", "038": "Septicemia", "389": "Twin", "V01": "twin"},
    synonyms={"A00": ["Asiatic cholera"], "038": ["Blood poisoning"]},
)


def concept(value, **options):
    mapping = ConceptMap(ICD.taxonomy(), ontology=ICD, **options)
    match = mapping.find(value)
    assert mapping.resolve(value) == (match.position, match.how not in ("ancestor", "unknown"))
    return (None if match.position == UNKNOWN else mapping.taxonomy.ids[match.position]), match.how


@pytest.mark.parametrize(
    ("value", "expected", "how"),
    [
        ("A00.0", "A00.0", "exact"),
        ("a000", "A00.0", "normalised"),
        (" a00.0 ", "A00.0", "normalised"),
        ("38", "038", "normalised"),
        ("38.9", "038.9", "normalised"),
        ("389", "389", "exact"),
        ("V1", "V01", "normalised"),
        ("e1", "E001", "normalised"),
        ("CHOLERA", "A00", "label"),
        ("asiatic cholera", "A00", "label"),
        ("twin", None, "unknown"),
        ("A00.99", None, "unknown"),
        ("", None, "unknown"),
    ],
)
def test_values_find_their_concepts(value, expected, how):
    assert concept(value) == (expected, how)


DIABETES = ["E11", "E11.9", "E11.65", "E01", "E01.1", "845", "008", "008.45", "25001", "E119A"]


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
def test_a_dot_counts_where_it_is_and_only_there(value, expected, how):
    taxonomy = Ontology.from_edges([(code, "ICD") for code in DIABETES]).taxonomy()
    match = ConceptMap(taxonomy, unknown="ancestor").find(value)
    assert (taxonomy.ids[match.position], match.how) == (expected, how)


def test_a_mapping_file_comes_first(tmp_path):
    path = tmp_path / "map.csv"
    path.write_text("value,concept\nlocal-7,A00.0\nA00,038\n")
    mapping = read_mapping(path)
    assert concept("local-7", mapping=mapping) == ("A00.0", "mapping")
    assert concept("A00", mapping=mapping) == ("038", "mapping")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n", "value,concept"),
        ("value,concept\nx\n", "line 2"),
        ("", "value,concept"),
        ("value,concept\nx,\n", "line 2"),
    ],
)
def test_a_bad_mapping_file_is_named_by_line_and_never_by_value(tmp_path, text, message):
    path = tmp_path / "map.csv"
    path.write_text(text)
    with pytest.raises(OntologyError, match=message):
        read_mapping(path)


def test_a_mapping_must_lead_into_the_taxonomy():
    with pytest.raises(OntologyError, match="Z99"):
        ConceptMap(ICD.taxonomy(), mapping={"x": "Z99"})


@pytest.mark.parametrize(
    ("value", "expected"),
    [("A00.99", "A00"), ("A009", "A00"), ("38.97", "038.9"), ("A0", None), ("ZZZ", None), ("V01.9", "V01")],
)
def test_the_longest_known_prefix_stands_for_an_unknown_code(value, expected):
    found, how = concept(value, unknown="ancestor")
    assert (found, how) == (expected, "ancestor" if expected else "unknown")


def test_another_policy_is_an_error():
    with pytest.raises(ParameterError, match="reject, ancestor, suppress"):
        ConceptMap(ICD.taxonomy(), unknown="guess")


def test_every_code_of_the_real_discharges_is_found_or_stands_below_a_known_prefix():
    mapping = ConceptMap(icd9cm().taxonomy(), unknown="ancestor")
    values = {row[column] for row in discharges() for column in ("diag_1", "diag_2", "diag_3")}
    unknown = {value for value in values if mapping.resolve(value)[0] == UNKNOWN}
    assert "?" in unknown
    pairs = [row for row in discharges() if row["diag_1"] not in unknown and row["diag_2"] not in unknown]
    assert len(pairs) == 101_388
