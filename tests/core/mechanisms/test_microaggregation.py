"""Microaggregation: verified k-anonymity, absent values, arrays, the hybrid step, and errors (2013)."""

import numpy as np
import pytest

from stream_masker import Ontology
from stream_masker.core.mechanisms import Microaggregation, microaggregation
from stream_masker.core.numeric import Numeric
from stream_masker.core.random import PositionKeys
from stream_masker.errors import AnonymityError, ParameterError

SEED = b"seed............"
RNG = np.random.default_rng(12)
TAU = Ontology.from_edges([(f"c{k}", f"c{RNG.integers(0, k)}") for k in range(1, 60)]).taxonomy()
FLAT = Ontology.from_edges([(f"v{k}", "any") for k in range(12)]).taxonomy()
NUMERIC = {"age": Numeric(minimum=0, maximum=110, integer=True), "charge": Numeric(minimum=0)}
SIZE = 200


def table(n=SIZE):
    return [
        {
            "code": str(RNG.choice(TAU.ids)),
            "kind": f"v{RNG.integers(0, 12)}",
            "age": int(RNG.integers(0, 110)),
            "charge": float(RNG.exponential(900)),
        }
        for _ in range(n)
    ]


RECORDS = table()
KEYS = [b"%d" % k for k in range(SIZE)]


def mechanism(records=RECORDS, **parameters):
    made = Microaggregation({"code": TAU, "kind": FLAT}, numeric=NUMERIC, seed=SEED, **parameters)
    if records:
        made.learn_many(records)
        made.calibrate()
    return made


def rows(records):
    return [tuple(record.values()) for record in records]


def classes(records):
    masked = rows(records)
    return [masked.count(row) for row in masked]


@pytest.mark.parametrize("variant", ["semantic", "classic"])
@pytest.mark.parametrize("scaling", ["balanced", "paper"])
@pytest.mark.parametrize("k", [2, 5, 40, 200])
def test_every_masked_record_equals_at_least_k_minus_1_others(k, scaling, variant):
    masked = mechanism(k=k, scaling=scaling, variant=variant).mask_many(RECORDS, keys=KEYS)
    assert min(classes(masked)) >= k
    if k < 40:
        assert max(classes(masked)) < 4 * k


def test_records_that_are_not_anonymous_are_withheld(monkeypatch):
    made = mechanism()
    monkeypatch.setattr(microaggregation, "mdav", lambda *_: list(np.arange(SIZE)[:, None]))
    with pytest.raises(AnonymityError, match="5-anonymous"):
        made.mask_many(RECORDS, keys=KEYS)


def test_too_few_records_are_rejected():
    with pytest.raises(ParameterError, match="groups of at least 5 records"):
        mechanism().mask_many(RECORDS[:4], keys=KEYS[:4])
    assert mechanism().group_minimum == 5
    with pytest.raises(ParameterError, match="mask_many"):
        mechanism().mask_one(RECORDS[0], key=b"k")


@pytest.fixture
def with_absent_values():
    records = [dict(record) for record in RECORDS]
    for k, record in enumerate(records):
        if k % 4 == 0:
            record["kind"] = None
        if k % 10 == 1:
            record["charge"] = None
    for name in ("code", "kind", "age"):
        records[7][name] = None
    records[9] = {}
    return records


def test_records_with_the_same_attributes_form_groups_and_rare_ones_are_replaced(with_absent_values):
    made = mechanism(records=with_absent_values)
    masked = made.mask_many(with_absent_values, keys=KEYS)
    for before, after in zip(with_absent_values, masked, strict=True):
        assert all((after[name] is None) == (before.get(name) is None) for name in after)
    small = [k for k, size in enumerate(classes(masked)) if size < 5]
    assert small == [7, 9]
    assert rows(masked)[9] == (None, None, None, None)
    assert masked[7]["charge"] == pytest.approx(made.statistics.numeric.mean[1])


def test_rare_values_become_the_windows_means_and_are_counted(with_absent_values):
    rare = {"code": "c3", "age": 104, "charge": 5.0}
    records = [record for record in with_absent_values if record.get("kind")][:100]
    made = mechanism(records=records)
    batch = made.encode([*records, rare])
    masked = made.mask_batch(batch, PositionKeys(SEED, "t", 0, np.arange(101)))
    row = made.decode(batch, masked)[-1]
    means = made.statistics.model["marginality"]
    assert row["code"] == means["code"]["mean"]
    assert row["age"] == round(made.statistics.numeric.mean[0])
    assert masked.distortions[0].truncated >= 1
    assert masked.distortions[0].values == 101


def test_array_elements_form_their_own_groups():
    records = [{"code": str(RNG.choice(TAU.ids)), "more": RNG.choice(TAU.ids, k % 4).tolist()} for k in range(SIZE)]
    made = Microaggregation({"code": TAU, "more": TAU}, k=6, seed=SEED)
    made.learn_many(records)
    made.calibrate()
    masked = made.mask_many(records, keys=KEYS)
    assert [len(row["more"]) for row in masked] == [len(row["more"]) for row in records]
    elements = [code for row in masked for code in row["more"]]
    assert min(elements.count(code) for code in elements) >= 6
    codes = [row["code"] for row in masked]
    assert min(codes.count(code) for code in codes) >= 6
    few = made.mask_many([{"code": "c1", "more": ["c2"] if k < 3 else []} for k in range(9)], keys=KEYS[:9])
    mean = made.statistics.model["marginality"]["more"]["mean"]
    assert [row["more"] for row in few] == [[mean]] * 3 + [[]] * 6


def test_the_hybrid_step_preserves_the_variance():
    before = np.array([row["charge"] for row in RECORDS])
    plain, hybrid = (
        np.array([row["charge"] for row in mechanism(k=10, hybrid=h).mask_many(RECORDS, keys=KEYS)])
        for h in (False, True)
    )
    assert plain.var() < 0.9 * before.var()
    assert hybrid.var() > plain.var()
    assert len(set(hybrid)) == SIZE


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"k": 1}, "of 2 or more"),
        ({"k": 2.0}, "whole number"),
        ({"k": True}, "whole number"),
        ({"k": 30, "window": 20}, "from 2 to 20"),
        ({"variant": "modal"}, "semantic or classic"),
        ({"scaling": "none"}, "balanced or paper"),
        ({"hybrid": 1}, "bool"),
    ],
)
def test_invalid_parameters_are_rejected(parameters, message):
    with pytest.raises(ParameterError, match=message):
        mechanism(records=None, **parameters)
