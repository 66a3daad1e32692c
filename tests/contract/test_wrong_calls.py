"""Wrong calls of the library: each message names the argument, what was given, and what is allowed."""

from __future__ import annotations

from functools import cache

import pandas as pd
import pytest

from stream_masker import (
    Ontology,
    SemanticNoise,
    WuPalmer,
    distance_correlation,
    mask_frame,
    measure_utility,
    semantic_mean,
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


def made(*taxonomies, **parameters):
    return SemanticNoise(*(taxonomies or ({"a": TAU, "b": TAU},)), **{"seed": SEED, **parameters})


@cache
def noise():
    calibrated = made(alpha=0.5, reference="pair")
    calibrated.learn_many(RECORDS)
    calibrated.calibrate()
    return calibrated


def framed(attributes=None, frame=FRAME, **parameters):
    given = {"a": TAU} if attributes is None else attributes
    return mask_frame(frame, given, **{"keep": [], "seed": SEED, **parameters})


MAPPING = r"use a mapping, such as \{'principal': "

WRONG = [
    (lambda: made([TAU]), rf"taxonomies is of type list: {MAPPING}"),
    (lambda: made(TAU), rf"taxonomies is of type Ontology: {MAPPING}"),
    (lambda: made(seed=b"x"), r"seed is 1 bytes: use at least 16 secret bytes, such as "),
    (lambda: made(distance=D), r"distance=WuPalmer\(.*\) is not allowed: use wu_palmer or log_taxonomic$"),
    (lambda: WuPalmer(D), r"taxonomy is of type WuPalmer: use a Taxonomy"),
    (lambda: Ontology.from_edges({"A1": "A"}), r"edges\[0\]='A1' is not allowed: use \(child, parent\)"),
    (lambda: ONTOLOGY.taxonomy("A1"), r"the concepts are one text: use a list of concept ids"),
    (lambda: Ontology.from_edges([("A", "B", "C")]), r"edges\[0\]=\('A', 'B', 'C'\) is not allowed"),
    (lambda: semantic_mean("A1", D), r"the concepts are one text: use a list of concept ids"),
    (lambda: distance_correlation(["A1"], ["A1"], D, D), r"d_a is of type list: use a Distance$"),
    (lambda: noise().learn_one({"x": "A1"}), r"no record has 'a': the attributes are a, b$"),
    (
        lambda: noise().learn_many(FRAME),
        r"record 0 is of type str: use a mapping from .*, or, of a table, `mask_frame`",
    ),
    (lambda: framed(frame=FRAME.to_dict()), r"frame is of type dict: use a pyarrow Table, or a pandas or polars "),
    (lambda: noise().mask_one("A1", key=b"k"), r"record 0 is of type str: use a mapping"),
    (lambda: noise().learn_one({"a": ("A1",), "b": "A1"}), r".*: it is of type tuple$"),
    (lambda: noise().mask_one(RECORDS[0], key="p"), r"keys must be bytes, as "),
    (lambda: measure_utility(RECORDS, noise(), RECORDS), r"mechanism is of type list: use the m"),
    (lambda: framed({"a": D}), r"taxonomy is of type WuPalmer: use a Taxonomy"),
    (lambda: framed(keep=[0]), r"the table has no column 0: use 'a', 'b'$"),
    (lambda: framed(mechanism=SemanticNoise), r"mechanism=<class .* is not allowed: use semantic_noise or"),
    (lambda: framed(mechanism="semantic_transport", certainy=0.4), r"semantic_transport has no parameter 'certainy'"),
    (lambda: framed(mechanism="pram", alpha=1), r"pram has no parameter 'alpha': use retention"),
    (lambda: framed(keep=["a"]), r"the column 'a' is to be masked and kept: choose one of the two$"),
    (lambda: framed(unknown="pass"), r"unknown='pass' is not allowed: use reject or ancestor or suppress$"),
    (lambda: framed(frame=FRAME.assign(a=1)), r"column 'a', row 0: the code is of type int: use text$"),
    (lambda: framed(frame=FRAME.assign(k=None), key="k"), r"column 'k', row 0: the key is missing, but every row "),
]


@pytest.mark.parametrize(("call", "message"), WRONG, ids=[message[:40] for _, message in WRONG])
def test_a_wrong_call_is_refused_with_what_is_allowed(call, message):
    with pytest.raises(ParameterError, match=f"^{message}"):
        call()


@pytest.mark.parametrize(("concept", "kind"), [("Z9", "str"), (None, "NoneType")])
def test_an_unknown_concept_is_not_shown(concept, kind):
    allowed = rf"^the concept, a {kind} that is not shown, is not below 'root': use one of 22 ids, such as '\w+'$"
    for call in (lambda: D(concept, "A1"), lambda: TAU.label(concept)):
        with pytest.raises(UnknownConceptError, match=allowed):
            call()
