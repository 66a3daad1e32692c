"""Transport with a context: a law and a promise for each context, and a law for rare ones."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from support.data import discharges_with_sex, icd9cm, sex_of_code

from stream_masker import SemanticTransport
from stream_masker.core.mechanisms.transport.strata import Laws
from stream_masker.core.ontology import UNKNOWN, ConceptMap, Ontology
from stream_masker.core.random.keys import PositionKeys
from stream_masker.errors import ParameterError, StatisticsError

SEED = b"a seed of many bytes"
TAU = Ontology.from_edges([(f"c{k}", f"c{(k - 1) // 2}") for k in range(1, 31)]).taxonomy()
SEX = {"sex": ["F", "M"]}


def drawn(records, *, attributes=("a", "b"), seed=3):
    """Records whose codes depend on sex and age: each of both has codes that the other does not have."""
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(records):
        sex, age = rng.choice(["F", "M"]), int(rng.integers(0, 90))
        first = int(rng.integers(7, 15)) + 8 * (sex == "M")
        codes = [first, *(first if rng.random() < 0.5 else int(rng.integers(1, 15)) for _ in attributes[1:])]
        rows.append({**{n: f"c{code}" for n, code in zip(attributes, codes, strict=True)}, "sex": str(sex), "age": age})
    return rows


def made(records, *, attributes=("a", "b"), **parameters):
    given = {"context": SEX, "window": 100_000, "least": 1, **parameters}
    transport = SemanticTransport(dict.fromkeys(attributes, TAU), seed=SEED, **given)
    transport.learn_many(records)
    transport.calibrate()
    return transport


def keys(records):
    return [b"%d" % k for k in range(len(records))]


def laws_of(transport):
    prepared = transport._prepared_statistics()
    assert isinstance(prepared, Laws)
    return {prepared.context.name_of(law.kinds): law for law in prepared.laws}


@pytest.mark.parametrize("attributes", [("a",), ("a", "b"), ("a", "b", "c")])
def test_no_code_of_another_context_is_written(attributes):
    records = drawn(4000, attributes=attributes)
    transport = made(records, attributes=attributes)
    masks = transport.mask_many(records, keys=keys(records))
    for record, mask in zip(records, masks, strict=True):
        assert (int(mask["a"][1:]) >= 15) == (record["sex"] == "M")
    assert sum(record["a"] != mask["a"] for record, mask in zip(records, masks, strict=True)) > 2000


def test_the_law_of_context_and_attributes_is_kept():
    records = drawn(6000)
    masks = made(records).mask_many(records, keys=keys(records))
    before = Counter((r["sex"], r["a"], r["b"]) for r in records)
    after = Counter((r["sex"], m["a"], m["b"]) for r, m in zip(records, masks, strict=True))
    for entry in before | after:
        assert abs(before[entry] - after[entry]) <= 6.0 * np.sqrt(before[entry] + 1.0)


def test_records_of_a_context_are_masked_as_without_the_others():
    """Beside records of the other sex, and alone: one law, and so the same masks."""
    records = drawn(3000)
    women = [record for record in records if record["sex"] == "F"]
    transport, alone = made(records), made(women, context=None)
    assert transport.mask_many(women, keys=keys(women)) == alone.mask_many(women, keys=keys(women))


def test_masks_do_not_depend_on_the_batch():
    records = drawn(3000)
    transport = made(records)
    together = transport.mask_many(records[:50], keys=keys(records)[:50])
    assert together == [transport.mask_one(r, key=k) for r, k in zip(records[:50], keys(records), strict=False)]


def test_rare_contexts_share_a_law():
    records = [{**record, "age": 95} if k % 30 == 0 else record for k, record in enumerate(drawn(3000))]
    context = {"sex": ["F", "M"], "age": [1, 30, 60, 90]}
    laws = laws_of(made(records, context=context, context_least=60))
    assert laws["sex F, age 30 to below 60"].records == laws["sex F, age 30 to below 60"].learned
    rare = laws["sex F"]
    ages = [record["age"] for record in records if record["sex"] == "F"]
    assert rare.records == rare.learned == sum(age < 1 or age >= 90 for age in ages)
    assert rare.contexts.size == 3
    assert laws["all records"].records == 0
    assert laws["all records"].learned == 3000


def test_too_few_rare_records_take_the_law_of_all_with_the_same_first_kinds():
    records = [*drawn(3000), {"a": "c9", "b": "c9", "sex": "F", "age": None}]
    transport = made(records, context={"sex": ["F", "M"], "age": [30, 60]})
    rare = laws_of(transport)["sex F"]
    assert rare.records == 1
    assert rare.learned == sum(record["sex"] == "F" for record in records)
    masks = transport.mask_many([records[-1]] * 300, keys=keys(range(300)))
    assert {int(mask["a"][1:]) >= 15 for mask in masks} == {False}


def test_a_context_that_cannot_meet_the_target_shares_a_law():
    """All codes of these 300 records are equal, so that nothing could be masked."""
    records = [*drawn(3000), *({"a": "c9", "b": "c9", "sex": "X", "age": 1} for _ in range(300))]
    laws = laws_of(made(records, context={"sex": ["F", "M", "X"]}))
    assert laws["all records"].records == 300
    assert laws["all records"].learned == 3300


def test_unseen_contexts_are_masked():
    records = drawn(3000)
    transport = made(records)
    (mask,) = transport.mask_many([{"a": "c9", "b": "c10", "sex": "unheard of"}], keys=[b"1"])
    assert mask.keys() == {"a", "b"}
    assert all(mask.values())


def test_arrays_have_a_context():
    records = drawn(4000)
    for record in records:
        record["b"] = [record["b"], record["a"]][: 1 + record["age"] % 2]
    transport = made(records)
    masks = transport.mask_many(records, keys=keys(records))
    assert all(
        (int(mask["a"][1:]) >= 15) == (record["sex"] == "M") for record, mask in zip(records, masks, strict=True)
    )
    assert [len(mask["b"]) for mask in masks] == [len(record["b"]) for record in records]
    assert max(transport.disclosure().certainty.values()) <= 0.5


def test_transition_probabilities_are_averages_over_the_contexts():
    records = drawn(4000)
    transport = made(records)
    row = transport.channel("b", "c9")
    assert sum(row.values()) == pytest.approx(1.0)
    masks = transport.mask_many(records, keys=keys(records))
    seen = Counter(mask["b"] for record, mask in zip(records, masks, strict=True) if record["b"] == "c9")
    total = sum(seen.values())
    for concept, chance in row.items():
        assert abs(seen[concept] / total - chance) < 5.0 * np.sqrt(chance / total) + 0.01


def test_a_snapshot_masks_alike_and_other_contexts_are_refused():
    records = drawn(2000)
    transport = made(records)
    snapshot = json.loads(json.dumps(transport.snapshot()))
    other = SemanticTransport({"a": TAU, "b": TAU}, least=1, context=SEX, seed=SEED)
    other.restore(snapshot)
    assert other.mask_many(records, keys=keys(records)) == transport.mask_many(records, keys=keys(records))
    for context in (None, {"sex": ["M", "F"]}, {"sex": ["F", "M"], "age": [18]}):
        with pytest.raises(StatisticsError):
            SemanticTransport({"a": TAU, "b": TAU}, least=1, context=context, seed=SEED).restore(snapshot)


@pytest.mark.parametrize("name", ["kinds", "contexts", "spread", "records"])
@pytest.mark.parametrize("value", [None, [], [7], -1, "x", [0.5, "x"], [[1]]])
def test_a_damaged_model_is_refused(name, value):
    transport = made(drawn(600))
    snapshot = json.loads(json.dumps(transport.snapshot()))
    snapshot["statistics"]["model"]["laws"][0][name] = value
    with pytest.raises(StatisticsError):
        SemanticTransport({"a": TAU, "b": TAU}, least=1, context=SEX, seed=SEED).restore(snapshot)


def test_the_window_forgets_contexts():
    transport = SemanticTransport({"a": TAU, "b": TAU}, context=SEX, least=1, window=2000, seed=SEED)
    transport.learn_many([{**record, "sex": "X"} for record in drawn(500)])
    transport.learn_many(drawn(2000))
    transport.calibrate()
    assert {name: law.records for name, law in laws_of(transport).items() if law.records and name != "sex F"} == {
        "sex M": sum(record["sex"] == "M" for record in drawn(2000))
    }


def test_the_next_version_starts_from_the_last_one():
    records = drawn(3000)
    transport = made(records)
    before = {name: law.transport.disclosure(("a", "b")).rmse for name, law in laws_of(transport).items()}
    transport.learn_many(drawn(200, seed=8))
    transport.calibrate()
    for name, law in laws_of(transport).items():
        assert law.transport.disclosure(("a", "b")).rmse["a"] == pytest.approx(before[name]["a"], abs=0.02)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"context": {"a": ["c1"]}}, "is masked"),
        ({"context": {"sex": []}}, "context 'sex'"),
        ({"context_least": 1}, "context_least"),
    ],
)
def test_wrong_contexts_are_refused(parameters, message):
    with pytest.raises(ParameterError, match=message):
        SemanticTransport({"a": TAU}, seed=SEED, **parameters)


def test_records_without_the_field_are_refused():
    transport = SemanticTransport({"a": TAU}, context={"gender": ["F"]}, seed=SEED)
    with pytest.raises(ParameterError, match="no record has the context 'gender'"):
        transport.learn_many([{"a": "c9", "sex": "F"}] * 2)


def test_a_batch_without_context_is_refused():
    records = drawn(1000)
    transport = made(records)
    bare = replace(transport.encode(records[:2]), context=None)
    with pytest.raises(ParameterError, match="no context"):
        transport.mask_batch(bare, PositionKeys(SEED, "t", 0, np.arange(2)))


def real(records):
    """Real discharges with both diagnoses, a sex, and an age."""
    find = ConceptMap(icd9cm().taxonomy(), unknown="ancestor", ontology=icd9cm()).resolve
    ids = icd9cm().taxonomy().ids
    rows = []
    for row in discharges_with_sex():
        codes = [find(row[f"diag_{j}"])[0] for j in (1, 2)]
        if UNKNOWN not in codes:
            age = int(row["age"][1:].split("-")[0])
            rows.append({"a": ids[codes[0]], "b": ids[codes[1]], "sex": row["sex"], "age": age})
    chosen = np.random.default_rng(1).choice(len(rows), records, replace=False)
    return [rows[k] for k in chosen]


def of_other_sex(records, masks):
    codes = [(record["sex"], mask[name]) for record, mask in zip(records, masks, strict=True) for name in "ab"]
    return sum(sex_of_code(code) not in (None, sex) for sex, code in codes)


@pytest.mark.exhaustive
def test_no_real_discharge_has_a_code_of_the_other_sex():
    """The promise holds for an attacker who reads sex and age, and costs about three hundredths of V."""
    records, tau = real(6_000), icd9cm().taxonomy()
    found = {}
    for context in (None, {"sex": ["F", "M"], "age": [65]}):
        transport = SemanticTransport({"a": tau, "b": tau}, context=context, window=6_000, seed=SEED)
        transport.learn_many(records)
        transport.calibrate()
        masks = transport.mask_many(records, keys=keys(records))
        risk = transport.risk(draws=200)
        found[context is None] = of_other_sex(records, masks), risk.value["a"].vulnerability
        assert max(transport.disclosure().certainty.values()) <= 0.5
    assert of_other_sex(records, records) == 0
    assert found[False][0] == 0
    assert found[True][0] > 10
    assert found[False][1] < found[True][1] + 0.08
