"""Wrong calls of the library: each message names the argument, what was given, and what is allowed."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from stream_masker import (
    ConceptMap,
    Ontology,
    SemanticNoise,
    WuPalmer,
    distance_correlation,
    mask_frame,
    measure_utility,
    semantic_mean,
    semantic_variance,
)
from stream_masker.errors import ParameterError, UnknownConceptError

LINKS = [(f"{chapter}{i}", chapter) for chapter in "ABC" for i in range(6)] + [(chapter, "root") for chapter in "ABC"]
ONTOLOGY = Ontology.from_edges(LINKS)
TAU = ONTOLOGY.taxonomy()
D = WuPalmer(TAU)
SEED = b"sixteen bytes or more"
LEAVES = [child for child, _ in LINKS[:18]]
RECORDS = [{"a": LEAVES[k % 18], "b": LEAVES[k * 5 % 18]} for k in range(90)]
FRAME = pd.DataFrame(RECORDS)
TWICE = pd.DataFrame([["A1", "B1"]] * 20, columns=["a", "a"])


@pytest.fixture(scope="module")
def noise():
    made = SemanticNoise({"a": TAU, "b": TAU}, alpha=0.5, reference="pair", seed=SEED)
    made.learn_many(RECORDS)
    made.calibrate()
    return made


def made(*taxonomies, **parameters):
    return SemanticNoise(*(taxonomies or ({"a": TAU, "b": TAU},)), **{"seed": SEED, **parameters})


def framed(attributes=None, frame=FRAME, **parameters):
    return mask_frame(
        frame, {"a": TAU} if attributes is None else attributes, **{"keep": [], "seed": SEED, **parameters}
    )


MAPPING = r"use a mapping, such as \{'principal': "

CREATED = {
    "a list of taxonomies": (lambda: made([TAU]), rf"^taxonomies is of type list: {MAPPING}"),
    "a taxonomy": (lambda: made(TAU), rf"^taxonomies is of type Taxonomy: {MAPPING}"),
    "one attribute as a text": (lambda: made("a"), rf"^taxonomies is of type str: {MAPPING}"),
    "a name that is no text": (lambda: made({1: TAU}), r"^taxonomies has the key 1: use names as texts"),
    "an ontology": (lambda: made({"a": ONTOLOGY}), r"^the taxonomy of 'a' is of type Ontology: use a Taxonomy, as in"),
    "a short seed": (lambda: made(seed=b"x"), r"^seed is 1 bytes: use at least 16 secret bytes, such as "),
    "a seed of text": (lambda: made(seed="x" * 16), r"^seed is of type str: use at least 16 secret bytes"),
    "an ontology as a distance": (lambda: made(distance=ONTOLOGY), r"^distance is of type Ontology: use wu_palmer, "),
    "a distance of one taxonomy": (lambda: made(distance=D), r"^distance is of type WuPalmer: use wu_palmer, "),
    "a window of text": (lambda: made(window="9"), r"^window='9' is not allowed: use a whole number"),
    "a window of a fraction": (lambda: made(window=1e4), r"^window=10000.0 is not allowed"),
    "an age of text": (
        lambda: made(window_age="1h"),
        r"^window_age='1h' is not allowed: use a number of 0.001 or more",
    ),
    "the distance of an ontology": (lambda: WuPalmer(ONTOLOGY), r"^taxonomy is of type Ontology: use a Taxonomy"),
    "the concepts of an ontology": (lambda: ConceptMap(ONTOLOGY), r"^taxonomy is of type Ontology: use a Taxonomy"),
    "a value that is no text": (lambda: ConceptMap(TAU).find(5), r"^value is of type int: use a text$"),
    "a source that is no text": (lambda: Ontology.load(5), r"^source is of type int: use a name such as 'icd10cm'"),
    "links of text": (lambda: Ontology.from_edges("A"), r"^edges is of type str: use a list of \(child, parent\)"),
    "links as a mapping": (lambda: Ontology.from_edges({"A1": "A"}), r"^edges is of type dict: use a list of "),
    "labels as a list": (
        lambda: Ontology.from_edges(LINKS, labels=["x"]),
        r"^labels is of type list: use a mapping, such as {'concept': 'a label'}",
    ),
    "synonyms as a text": (
        lambda: Ontology.from_edges(LINKS, synonyms="x"),
        r"^synonyms is of type str: use a mapping",
    ),
    "a domain of text": (lambda: ONTOLOGY.taxonomy("A1"), r"^domain is one text: use a list of concept ids, or root"),
    "links of three": (lambda: Ontology.from_edges([("A", "B", "C")]), r"^edges\[0\]=\('A', 'B', 'C'\) is not allowed"),
    "a link to nothing": (lambda: Ontology.from_edges([("A", None)]), r"^edges\[0\]=\('A', None\) is not allowed"),
    "the mean of a text": (lambda: semantic_mean("A1", D), r"^the concepts are one text: use a list of concept ids"),
    "the mean by an ontology": (lambda: semantic_mean(["A1"], ONTOLOGY), r"^the distance is of type Ontology: use a d"),
    "the variance by a taxonomy": (lambda: semantic_variance(["A1"], TAU), r"^the distance is of type Taxonomy: use a"),
    "values for a distance": (
        lambda: distance_correlation(["A1"], ["A1"], D, D),
        r"^d_a is of type list: use a distance, such as WuPalmer",
    ),
}


@pytest.mark.parametrize("wrong", CREATED)
def test_what_is_created_wrongly(wrong):
    call, message = CREATED[wrong]
    with pytest.raises(ParameterError, match=message):
        call()


USED = {
    "a name that is no attribute": (
        lambda noise: noise.learn_one({"x": "A1"}),
        r"^the record has no 'a', but 'x': the attributes are 'a', 'b'; give None for an absent value$",
    ),
    "a misspelt name": (lambda noise: noise.learn_one({"a": "A1", "B": "A1"}), r"^the record has no 'b', but 'B': "),
    "no attribute in any record": (
        lambda noise: noise.learn_many([{"x": "A1"}, {"y": "A1"}]),
        r"^no record has 'a', but 'x', 'y': ",
    ),
    "a table of other columns": (
        lambda noise: noise.learn_many(FRAME.rename(columns={"a": "x", "b": "y"})),
        r"^the table has no 'a', but 'x', 'y': ",
    ),
    "a text as a record": (lambda noise: noise.mask_one("A1", key=b"k"), r"^record 0 is of type str: use a mapping"),
    "a list as a record": (lambda noise: noise.learn_one(["A1", "B1"]), r"^record 0 is of type list: use a mapping"),
    "rows of an array": (lambda noise: noise.learn_many(np.array([["A1"]])), r"^record 0 is of type ndarray: use a "),
    "a column": (lambda noise: noise.learn_many(FRAME["a"]), r"^record 0 is of type str: use a mapping"),
    "a record as records": (lambda noise: noise.learn_many(RECORDS[0]), r"^records is of type dict: use a list of rec"),
    "nothing as records": (
        lambda noise: noise.learn_many(None),
        r"^records is of type NoneType: use a list of records",
    ),
    "a tuple as an array": (lambda noise: noise.learn_one({"a": ("A1",), "b": "A1"}), r": it is of type tuple$"),
    "a time of text": (lambda noise: noise.learn_one(RECORDS[0], time="now"), r"^time is of type str: use seconds"),
    "a key of text": (
        lambda noise: noise.mask_one(RECORDS[0], key="p"),
        r"^keys\[0\] is of type str: use bytes, as te",
    ),
    "keys of text": (lambda noise: noise.learn_many(RECORDS[:1], keys=["p"]), r"^keys\[0\] is of type str: use bytes"),
    "keys in one": (lambda noise: noise.mask_many(RECORDS[:2], keys=b"ab"), r"^keys is of type bytes: use a list with"),
    "no keys": (lambda noise: noise.mask_many(RECORDS[:2], keys=None), r"^keys is of type NoneType: use a list with"),
    "a snapshot of text": (lambda noise: noise.restore("x"), r"^snapshot is of type str: use a mapping"),
    "another order": (lambda noise: measure_utility(RECORDS, noise, RECORDS), r"^mechanism is of type list: use the m"),
}


@pytest.mark.parametrize("wrong", USED)
def test_what_is_used_wrongly(wrong, noise):
    call, message = USED[wrong]
    with pytest.raises(ParameterError, match=message):
        call(noise)


FRAMES = {
    "a list of columns": (lambda: framed(["a"]), rf"^attributes is of type list: {MAPPING}"),
    "a column": (lambda: framed("a"), rf"^attributes is of type str: {MAPPING}"),
    "a taxonomy": (lambda: framed(TAU), rf"^attributes is of type Taxonomy: {MAPPING}"),
    "a distance": (lambda: framed({"a": D}), r"^the concepts of 'a' are of type WuPalmer: use an Ontology, a Taxonomy"),
    "another order": (lambda: mask_frame({"a": TAU}, FRAME, keep=[], seed=SEED), r"^attributes is of type DataFrame: "),
    "nothing kept": (lambda: framed(keep=None), r"^keep=None is not allowed: use a list of columns, such as "),
    "a number kept": (lambda: framed(keep=[0]), r"^the table has no column 0: use 'a', 'b'$"),
    "a list of keys": (lambda: framed(key=["b"]), r"^key is of type list: use a str$"),
    "a class": (
        lambda: framed(mechanism=SemanticNoise),
        r"^mechanism is a class or an object: use its name, such as 's",
    ),
    "a misspelt option": (
        lambda: framed(mechanism="semantic_transport", certainy=0.4),
        r"^semantic_transport has no parameter 'certainy': did you m",
    ),
    "an option of another": (
        lambda: framed(mechanism="pram", alpha=1),
        r"^pram has no parameter 'alpha': use retention",
    ),
    "a short seed": (lambda: framed(seed=b"x"), r"^seed is 1 bytes: use at least 16 secret bytes"),
    "columns of numbers": (
        lambda: framed(frame=pd.DataFrame([["A1", "B1"]] * 20)),
        r"^a column of the frame has a name that is no text: use frame.rename\(columns=str\)$",
    ),
    "columns of one name": (lambda: framed(frame=TWICE), r"^two columns of the frame have the same name: rename one"),
}


@pytest.mark.parametrize("wrong", FRAMES)
def test_what_is_masked_wrongly(wrong):
    call, message = FRAMES[wrong]
    with pytest.raises(ParameterError, match=message):
        call()


@pytest.mark.parametrize(("concept", "kind"), [("Z9", "str"), (None, "NoneType")])
def test_an_unknown_concept_is_not_shown(concept, kind):
    allowed = rf"^the concept, a {kind} that is not shown, is not below 'root': use one of 22 ids, such as '\w+'$"
    for call in (lambda: D(concept, "A1"), lambda: TAU.depth_of(concept)):
        with pytest.raises(UnknownConceptError, match=allowed):
            call()
