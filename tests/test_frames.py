"""Masking of tables: every kind of table, what is written and what is not, and errors that hold no code."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from stream_masker import FrameMasker, Ontology, SemanticNoise, mask_frame
from stream_masker.errors import StatisticsError, UnknownConceptError
from stream_masker.frames import UnchangedWarning

SEED = b"sixteen bytes or more"
LINKS = [(f"{chapter}{i}", chapter) for chapter in "ABC" for i in range(6)] + [(chapter, "root") for chapter in "ABC"]
ONTOLOGY = Ontology.from_edges(LINKS)
TAU = ONTOLOGY.taxonomy()
LEAVES = [child for child, _ in LINKS[:18]]
SIZE = 60


def codes(seed):
    return [LEAVES[i] for i in np.random.default_rng(seed).integers(0, 18, SIZE)]


DATA = {
    "patient": [f"patient {i}" for i in range(SIZE)],
    "principal": codes(1),
    "age": list(range(20, 20 + SIZE)),
    "secondary": [None, *codes(2)[1:]],
    "note": ["confidential"] * SIZE,
}
KINDS = {
    "pyarrow": lambda data: pa.table(data).replace_schema_metadata({"note": "confidential"}),
    "pandas": lambda data: pd.DataFrame(data, index=[f"confidential {i}" for i in range(SIZE)]),
    "polars": pl.DataFrame,
}
BOTH = {"principal": TAU, "secondary": ONTOLOGY}


def contents(frame):
    """The columns of a table as lists, with None for missing values."""
    if isinstance(frame, pd.DataFrame):
        return {name: [None if value is pd.NA or value != value else value for value in frame[name]] for name in frame}
    return frame.to_pydict() if isinstance(frame, pa.Table) else frame.to_dict(as_series=False)


@pytest.mark.parametrize("kind", KINDS)
def test_the_result_is_a_table_of_the_same_kind_with_masked_and_kept_columns_alone(kind):
    frame = KINDS[kind](DATA)
    masked = mask_frame(frame, BOTH, keep=["age"], seed=SEED)
    assert type(masked) is type(frame)
    assert "confidential" not in str(masked.schema if kind == "pyarrow" else masked)
    assert "patient 1" not in str(masked)
    found = contents(masked)
    assert list(found) == ["principal", "age", "secondary"]
    assert found["age"] == DATA["age"]
    assert found["secondary"][0] is None
    assert found["principal"] != DATA["principal"]
    assert set(found["principal"]) <= set(TAU.ids)


@pytest.mark.parametrize("kind", KINDS)
def test_the_masks_are_those_of_the_mechanism(kind):
    masked = contents(mask_frame(KINDS[kind](DATA), BOTH, keep=[], seed=SEED, key="patient", alpha=0.5, preset="paper"))
    noise = SemanticNoise(dict.fromkeys(BOTH, TAU), alpha=0.5, reference="pair", preset="paper", seed=SEED)
    records = [{"principal": a, "secondary": b} for a, b in zip(DATA["principal"], DATA["secondary"], strict=True)]
    noise.learn_many(records)
    noise.calibrate()
    expected = noise.mask_many(records, keys=[name.encode() for name in DATA["patient"]])
    assert masked == {name: [row[name] for row in expected] for name in BOTH}


@pytest.mark.parametrize("kind", KINDS)
def test_codes_of_a_context_stay_in_it(kind):
    """Each ward has a chapter of its own, which its masks do not leave."""
    context = {"ward": ["A", "B"], "age": ["old", "young"]}
    rng = np.random.default_rng(7)
    wards = rng.choice(["A", "B"], 600).tolist()
    data = {
        "principal": [f"{ward}{rng.integers(6)}" for ward in wards],
        "ward": wards,
        "age": rng.choice(["young", "old"], 600).tolist(),
    }
    frame = KINDS[kind](data) if kind != "pandas" else pd.DataFrame(data)
    masker = FrameMasker(
        {"principal": TAU}, keep=["ward", "age"], context=context, mechanism="semantic_transport", seed=SEED
    )
    masked = masker.fit_transform(frame)
    found = contents(masked)
    assert found["ward"] == wards
    assert {code[0] == ward for code, ward in zip(found["principal"], wards, strict=True)} == {True}
    assert found["principal"] != data["principal"]
    assert masker.report(frame, masked).risk.value["principal"].prior < 0.3


def test_equal_keys_have_equal_masks():
    frame = pl.DataFrame({"code": ["A1"] * 20 + ["B1"] * 20, "patient": [*["p"] * 20, *range(20)]}, strict=False)
    masked = mask_frame(
        frame, {"code": TAU}, keep=[], key="patient", mechanism="semantic_transport", least=1, seed=SEED
    )["code"].to_list()
    assert len(set(masked[:20])) == 1
    assert len(set(masked[20:])) > 1


def test_an_unknown_code_is_an_error_that_says_where_and_not_which():
    frame = pl.DataFrame({"code": ["A1", "B1", "secret code"]})
    with pytest.raises(UnknownConceptError, match=r"^column 'code', row 2: the code has no concept") as caught:
        mask_frame(frame, {"code": TAU}, keep=[], seed=SEED)
    assert caught.value.position == 2
    assert "secret code" not in str(caught.value)


def test_a_table_of_which_most_rows_stay_as_they_were_is_a_warning():
    tau = Ontology.from_edges(
        [(f"c{k}", f"g{k // 3}") for k in range(9)] + [(f"g{k}", "r") for k in range(3)]
    ).taxonomy()
    frame = pl.DataFrame({"code": [f"c{k % 9}" for k in range(90)]})
    with pytest.warns(UnchangedWarning, match=r"semantic_noise leaves \d+% of the records as they were"):
        mask_frame(frame, {"code": tau}, keep=[], alpha=0.2, seed=b"a seed of sixteen")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mask_frame(frame, {"code": tau}, keep=[], alpha=1.0, seed=b"a seed of sixteen")


CATEGORIES = {
    "pandas": lambda: pd.DataFrame({"a": pd.Categorical(DATA["principal"], categories=[*LEAVES, "unused"])}),
    "polars": lambda: pl.DataFrame({"a": DATA["principal"]}, schema={"a": pl.Enum([*LEAVES, "unused"])}),
    "pyarrow": lambda: pa.table({"a": pa.array(DATA["principal"]).dictionary_encode()}),
}


@pytest.mark.parametrize("kind", CATEGORIES)
def test_categories_stay_categories_of_the_masks_alone(kind):
    masked = mask_frame(CATEGORIES[kind](), {"a": TAU}, keep=[], seed=SEED)
    shown = str(masked["a"].dtype if kind == "pandas" else masked.schema)
    assert any(name in shown.lower() for name in ("categor", "dictionary"))
    assert "unused" not in shown
    assert set(contents(masked)["a"]) <= set(TAU.ids)


def masker(**changes):
    return FrameMasker(BOTH, **{"keep": ["age"], "key": "patient", "seed": SEED, **changes})


def test_a_masker_masks_as_the_function_does_and_other_tables_with_the_same_statistics():
    frame = pl.DataFrame(DATA)
    expected = mask_frame(frame, BOTH, keep=["age"], key="patient", seed=SEED)
    assert masker().fit_transform(frame).equals(expected)
    fitted = masker().fit(frame)
    assert fitted.transform(frame).equals(expected)
    assert fitted.transform(frame[20:30]).equals(expected[20:30])
    assert fitted.mechanism_.statistics.records == SIZE


def test_what_a_masker_shows_has_the_statistics_and_never_the_seed():
    one = masker()
    with pytest.raises(StatisticsError, match=r"^this FrameMasker has no statistics: call fit first$"):
        one.transform(pl.DataFrame(DATA))
    shown = "<FrameMasker(['principal', 'secondary'], mechanism='semantic_noise'), "
    assert repr(one) == shown + "not fitted>"
    assert repr(one.fit(pl.DataFrame(DATA))) == shown + "statistics of 60 rows>"


def test_a_report_has_three_sentences():
    frame = pl.DataFrame(DATA)
    one = masker().fit(frame)
    masked = one.transform(frame)
    report = one.report(frame, masked)
    same = (masked["principal"] == frame["principal"]).mean()
    head, learned, stays, kept = repr(report).splitlines()
    assert head == "semantic_noise, 60 records"
    assert learned.startswith("Nothing is promised about single records: some masks make an attacker ")
    assert stays.startswith(f"{same:.0%} of the codes of principal")
    assert "correlations by at most" in kept
    assert report.to_dict()["unchanged"]["principal"] == same
