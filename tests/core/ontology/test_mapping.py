"""Conceptual mapping: the concepts of values."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.data import discharges, icd9cm

from stream_masker.core.ontology import UNKNOWN, ConceptMap, Match, Ontology, mapping
from stream_masker.core.ontology.lookup import FoldedIndex
from stream_masker.core.ontology.mapping import NO_DOT, SHORTEST_PREFIX, code_keys, read_mapping, value_keys
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
        ("v01", "V01", "normalised"),
        ("V1", None, "unknown"),
        ("e1", None, "unknown"),
        ("CHOLERA", "A00", "label"),
        ("asiatic cholera", "A00", "label"),
        ("twin", None, "unknown"),
        ("A00.99", None, "unknown"),
        ("", None, "unknown"),
    ],
)
def test_values_find_their_concepts(value, expected, how):
    assert concept(value) == (expected, how)


@pytest.mark.parametrize("unknown", ["reject", "ancestor"])
def test_prefetched_values_have_the_same_concepts(unknown):
    values = ["A00.0", "a000", "38", "Cholera", "twin", "A00.99", "", "038", "E001", "E001", "root\0", "\ud800"]
    options = {"ontology": ICD, "unknown": unknown, "mapping": {"038": "389", "my own": "A00"}}
    prefetched, other = ConceptMap(ICD.taxonomy(), **options), ConceptMap(ICD.taxonomy(), **options)
    prefetched.prefetch([*values, "my own"])
    assert [prefetched.find(value) for value in values] == [other.find(value) for value in values]
    assert prefetched.find("038") == Match(ICD.taxonomy().position("389"), "mapping")


def test_prefetching_keeps_the_cache_bounded(monkeypatch):
    monkeypatch.setattr(mapping, "CACHED_VALUES", 2)
    concepts = ConceptMap(ICD.taxonomy(), ontology=ICD)
    concepts.prefetch(["A00", "A00.0", "038", "038.9", "389"])
    assert len(concepts._cache) <= 2
    assert concepts.find("A00") == Match(ICD.taxonomy().position("A00"), "exact")


DIABETES = {
    **dict.fromkeys(["E11", "E01", "845", "008", "25001"], "ICD"),
    **{"E11.9": "E11", "E11.65": "E11", "E01.1": "E01", "008.45": "008", "E119A": "E11"},
}


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
    taxonomy = Ontology.from_edges(list(DIABETES.items())).taxonomy()
    match = ConceptMap(taxonomy, unknown="ancestor").find(value)
    assert (taxonomy.ids[match.position], match.how) == (expected, how)


def test_a_mapping_file_takes_precedence(tmp_path):
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
def test_errors_of_a_mapping_file_name_the_line_but_no_value(tmp_path, text, message):
    path = tmp_path / "map.csv"
    path.write_text(text)
    with pytest.raises(OntologyError, match=message):
        read_mapping(path)


def test_concepts_of_a_mapping_must_be_in_the_taxonomy():
    with pytest.raises(OntologyError, match="Z99"):
        ConceptMap(ICD.taxonomy(), mapping={"x": "Z99"})


@pytest.mark.parametrize(
    ("value", "expected"),
    [("A00.99", "A00"), ("A009", "A00"), ("38.97", "038.9"), ("A0", None), ("ZZZ", None), ("V01.9", "V01")],
)
def test_an_unknown_code_is_replaced_by_its_longest_known_prefix(value, expected):
    found, how = concept(value, unknown="ancestor")
    assert (found, how) == (expected, "ancestor" if expected else "unknown")


def test_an_invalid_policy_is_an_error():
    with pytest.raises(ParameterError, match="reject, ancestor, suppress"):
        ConceptMap(ICD.taxonomy(), unknown="guess")


def test_every_code_of_the_real_discharges_or_a_prefix_is_found():
    mapping = ConceptMap(icd9cm().taxonomy(), unknown="ancestor")
    values = {row[column] for row in discharges() for column in ("diag_1", "diag_2", "diag_3")}
    unknown = {value for value in values if mapping.resolve(value)[0] == UNKNOWN}
    assert "?" in unknown
    pairs = [row for row in discharges() if row["diag_1"] not in unknown and row["diag_2"] not in unknown]
    assert len(pairs) == 101_388


def test_concepts_outside_the_taxonomy_make_no_ambiguity():
    onto = Ontology.from_edges(
        [("a", "r"), ("b", "r"), ("E11.9", "a"), ("E119", "b")],
        labels={"E11.9": "Diabetes", "E119": "diabetes"},
        synonyms={"b": ["diabetes"], "E119": ["sugar"]},
    )
    whole, part = onto.taxonomy(), onto.taxonomy(root="a")
    for value, how in [("diabetes", "label"), ("e11.9", "normalised")]:
        assert ConceptMap(part, ontology=onto).find(value) == Match(part.position("E11.9"), how)
    assert ConceptMap(whole, ontology=onto).find("diabetes").how == "unknown"
    assert ConceptMap(part, ontology=onto).find("sugar").how == "unknown"
    assert ConceptMap(part).find("DIABETES") == Match(part.position("E11.9"), "label")


def test_the_ontology_must_hold_the_taxonomy():
    with pytest.raises(ParameterError, match="the ontology that the taxonomy is of"):
        ConceptMap(ICD.taxonomy(), ontology=Ontology.from_edges([("a", "b")]))


class LiteralMap:
    """The rules of ``ConceptMap``, with dictionaries over all concepts."""

    def __init__(self, taxonomy, ontology):
        pairs = list(enumerate(taxonomy.ids))
        self.exact = {concept: i for i, concept in pairs}
        self.codes = self.unambiguous((key, i) for i, concept in pairs for key in code_keys(concept))
        names = [(name, i) for i, c in pairs for name in (taxonomy.labels[i], *ontology.synonyms.get(c, ()))]
        self.names = self.unambiguous((name.casefold(), i) for name, i in names if name)
        self.longer_are_finer = self.are_finer(ontology.taxonomy())

    def are_finer(self, whole):
        codes = {concept.upper().replace(".", ""): concept for concept in whole.ids if concept != whole.root}
        starts = {code: [codes[code[:k]] for k in range(1, len(code)) if code[:k] in codes] for code in codes}
        found = [longer[-1] in whole.parents_of(codes[code]) for code, longer in starts.items() if longer]
        return sum(found) > len(found) / 2

    def unambiguous(self, pairs):
        found = {}
        for key, position in pairs:
            found[key] = position if found.get(key, position) == position else UNKNOWN
        return found

    def find(self, value):
        if value in self.exact:
            return Match(self.exact[value], "exact")
        code = next((self.codes[key] for key in value_keys(value) if key in self.codes), UNKNOWN)
        if code != UNKNOWN:
            return Match(code, "normalised")
        name = self.names.get(value.strip().casefold(), UNKNOWN)
        return self.ancestor(value) if name == UNKNOWN else Match(name, "label")

    def ancestor(self, value):
        for key in value_keys(value) if self.longer_are_finer else ():
            for end in range(len(key) - 1, SHORTEST_PREFIX - 1 + key.startswith(NO_DOT), -1):
                if self.codes.get(key[:end], UNKNOWN) > 0:
                    return Match(self.codes[key[:end]], "ancestor")
        return Match(UNKNOWN, "unknown")


CODES = st.from_regex(r"[EeVv]?[01]{1,3}(\.[01a]{1,2})?", fullmatch=True) | st.text("aAß.0", min_size=1, max_size=3)
TEXTS = st.lists(CODES | st.text("ßsSİiα ", max_size=3), max_size=3)


@given(st.lists(CODES, min_size=2, max_size=12, unique=True), st.data())
def test_values_have_the_concepts_of_the_literal_rules(codes, data):
    links = [(code, data.draw(st.sampled_from(codes[:k]))) for k, code in enumerate(codes) if k]
    names = {code: data.draw(TEXTS) for code in codes}
    labels = {code: own[0] for code, own in names.items() if own}
    onto = Ontology.from_edges(links, labels, {code: own[1:] for code, own in names.items()})
    taxonomy = onto.taxonomy(root=data.draw(st.sampled_from(codes)))
    fast, literal = ConceptMap(taxonomy, ontology=onto, unknown="ancestor"), LiteralMap(taxonomy, onto)
    values = [*codes, *(name for own in names.values() for name in own), *data.draw(st.lists(CODES, max_size=10))]
    values += [*map(str.swapcase, values), *(value.replace(".", "") for value in values)]
    together = ConceptMap(taxonomy, ontology=onto, unknown="ancestor")
    together.prefetch(values)
    for value in values:
        assert fast.find(value) == literal.find(value)
        assert together._cache[value] == literal.find(value)


def test_the_cache_is_bounded(monkeypatch):
    monkeypatch.setattr(mapping, "CACHED_VALUES", 3)
    concepts = ConceptMap(ICD.taxonomy(), ontology=ICD)
    values = ["A00", "a000", "38", "nothing", "cholera", "A00"]
    assert [concepts.find(value) for value in values] * 2 == [concepts.find(value) for value in values * 2]
    assert len(concepts._cache) <= 3


def test_values_that_were_looked_up_together_are_not_searched_again(monkeypatch):
    concepts = ConceptMap(ICD.taxonomy(), ontology=ICD, unknown="ancestor")
    values = ["A00", "a000", "38", "cholera", "twin", "A00.99", "nothing", ""]
    concepts.prefetch(values)
    monkeypatch.setattr(FoldedIndex, "candidates", None)
    assert [concepts.find(value).how for value in values] == [
        "exact",
        "normalised",
        "normalised",
        "label",
        "unknown",
        "ancestor",
        "unknown",
        "unknown",
    ]


def test_a_long_value_is_looked_up_by_a_few_prefixes_and_not_cached(monkeypatch):
    searched = []
    candidates = FoldedIndex.candidates

    def counted(index, texts, fold):
        searched.extend(texts)
        return candidates(index, texts, fold)

    monkeypatch.setattr(FoldedIndex, "candidates", counted)
    concepts = ConceptMap(ICD.taxonomy(), ontology=ICD, unknown="ancestor")
    for value in ("A00" + "x" * 100_000, "ß" * 100_000, "38." + "1" * 100_000):
        searched.clear()
        found = concepts.find(value)
        concepts.prefetch([value])
        assert found.how == ("unknown" if value[0] == "ß" else "ancestor")
        assert len(searched) < 50
    assert not concepts._cache


def test_prefixes_as_long_as_the_longest_key_are_tried():
    """The capitals of one character are up to three."""
    taxonomy = Ontology.from_edges([("ΐΐ", "ROOT"), ("A", "ROOT"), ("A.1", "A")]).taxonomy()
    concepts = ConceptMap(taxonomy, unknown="ancestor")
    assert concepts.find("ΐΐx") == Match(taxonomy.position("ΐΐ"), "ancestor")
    assert concepts.find("a.1x") == Match(taxonomy.position("A.1"), "ancestor")
