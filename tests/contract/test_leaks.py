"""The contract of masking mechanisms: no mask determines its original, and masking changes enough."""

from __future__ import annotations

import numpy as np
import pytest
from support.channels import channel

from stream_masker import Ontology
from stream_masker.core.mechanisms import (
    MECHANISMS,
    Exponential,
    Microaggregation,
    Pram,
    RankSwapping,
    SemanticNoise,
    mechanism,
)
from stream_masker.errors import StatisticsError

SEED = b"the seed of the leaks"
TWO = Ontology.from_edges([("positive", "result"), ("negative", "result")]).taxonomy()
WIDE = Ontology.from_edges(
    [(f"b{i}", "root") for i in range(4)] + [(f"l{i}{j}", f"b{i}") for i in range(4) for j in range(5)]
).taxonomy()
OUTCOMES = [{"a": value} for value in ["positive", "negative", "negative"] * 40]
KEYS = [b"%d" % k for k in range(400)]


def varied(size=400) -> list[dict[str, str]]:
    rng = np.random.default_rng(4)
    return [{"a": str(rng.choice(WIDE.ids)), "b": str(rng.choice(WIDE.ids))} for _ in range(size)]


@pytest.mark.usefixtures("groups_to_refuse")
@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("name", "parameters"),
    [*((name, {}) for name in sorted(MECHANISMS)), ("semantic_noise", {"rounding": "ceil", "candidates": "leaves"})],
)
def test_a_mask_of_two_values_never_determines_its_original(name, parameters):
    """Rank swapping does not change values that are more frequent than k; such statistics are refused."""
    attributes = {"a": TWO, "b": TWO} if name in ("vicus", "random") else {"a": TWO}
    made = mechanism(name)(attributes, seed=SEED, **parameters)
    made.learn_many([{**record, "b": record["a"]} for record in OUTCOMES])
    if parameters or name == "rank_swapping":
        with pytest.raises(StatisticsError, match=r"would change|original"):
            made.calibrate()
        return
    made.calibrate()
    rows = [channel(made, "a", value) for value in ("positive", "negative")]
    assert any(all(row.get(masked, 0.0) > 0.0 for row in rows) for masked in TWO.ids)
    assert made.risk(draws=50).value["a"].vulnerability < 1.0 - 1e-6


FEW = Ontology.from_edges([(f"v{i}", "root") for i in range(30)]).taxonomy()


@pytest.mark.parametrize("hybrid", [False, True])
def test_a_mask_of_microaggregation_may_have_stayed(hybrid):
    """So it determines no changed value: a record of the group has it as its original value."""
    made = Microaggregation({"a": WIDE}, k=2, hybrid=hybrid, seed=SEED)
    made.learn_many(varied())
    made.calibrate()
    group = [{"a": record["a"]} for record in varied()[:40]]
    masks = [made.mask_many(group, keys=[b"%d %d" % (k, i) for i in range(40)]) for k in range(60)]
    kept = {m["a"] for masked in masks for r, m in zip(group, masked, strict=True) if r == m}
    changed = {m["a"] for masked in masks for r, m in zip(group, masked, strict=True) if r != m}
    assert changed
    assert changed <= kept


def few_values() -> list[dict[str, str]]:
    return [{"a": f"v{i % 30}"} for i in range(600)]


@pytest.mark.usefixtures("groups_to_refuse")
@pytest.mark.parametrize(
    ("made", "records"),
    [
        (RankSwapping({"a": FEW}, k=10, group_records=600, seed=SEED), few_values()),
        (RankSwapping({"a": TWO}, k=10, group_records=50, seed=SEED), OUTCOMES),
        (Microaggregation({"a": TWO}, k=5, group_records=300, seed=SEED), OUTCOMES * 10),
    ],
    ids=["rank swapping", "two values", "microaggregation"],
)
def test_groups_in_which_almost_nothing_changes_are_refused(made, records):
    """Each value is more frequent than k in a group, so it is exchanged for itself."""
    made.learn_many(records)
    with pytest.raises(StatisticsError, match=r"in groups of \d+ records, masking would change .* of the values"):
        made.calibrate()
    with pytest.raises(StatisticsError, match="no statistics"):
        made.mask_many(records[:50], keys=KEYS[:50])


@pytest.mark.parametrize(
    "made",
    [
        SemanticNoise({"a": WIDE}, alpha=0.01, correlated=True, rounding="calibrated", seed=SEED),
        SemanticNoise({"a": WIDE, "b": WIDE}, alpha=0.01, reference="pair", rounding="calibrated", seed=SEED),
        Exponential({"a": WIDE}, epsilon=500.0, seed=SEED),
        Pram({"a": WIDE}, retention=0.99, seed=SEED),
    ],
    ids=["noise", "paired noise", "exponential", "pram"],
)
def test_statistics_that_would_mask_almost_nothing_are_refused(made):
    made.learn_many(varied())
    with pytest.raises(StatisticsError, match=r"change .* of the values"):
        made.calibrate()
    with pytest.raises(StatisticsError, match="no statistics"):
        made.mask_one({"a": "l00"}, key=b"1")


PAIRS = Ontology.from_edges(
    [(f"b{i}", "root") for i in range(50)] + [(f"l{i}{k}", f"b{i}") for i in range(50) for k in "xy"]
).taxonomy()
SIBLINGS = [f"l{i}{k}" for i in range(50) for k in "xy"]


def test_a_permutation_of_many_values_is_refused():
    """Each value becomes its sibling."""
    made = SemanticNoise({"a": PAIRS}, alpha=0.02, rounding="ceil", candidates="leaves", seed=SEED)
    made.learn_many([{"a": SIBLINGS[i % 100]} for i in range(150)])
    with pytest.raises(StatisticsError, match="single possible original"):
        made.calibrate()
