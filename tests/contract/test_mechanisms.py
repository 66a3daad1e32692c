"""The contract of masking mechanisms: every check for every registered mechanism, on a tree and on a DAG."""

from __future__ import annotations

import copy
import json
from dataclasses import fields

import numpy as np
import pytest
from jsonschema import Draft202012Validator
from support.schemas import load_schema

from stream_masker.core.batch import Batch, Column
from stream_masker.core.mechanisms import MECHANISMS, Mechanism, mechanism
from stream_masker.core.ontology import Ontology
from stream_masker.core.random import FieldKeys, PositionKeys
from stream_masker.errors import ParameterError, StatisticsError, UnknownConceptError

SEED = b"the seed of the contract"
SIZE = 60


def taxonomy(parents: int):
    rng = np.random.default_rng(3)
    links = {(f"c{k}", f"c{p}") for k in range(1, 40) for p in rng.integers(0, k, parents)}
    return Ontology.from_edges(sorted(links)).taxonomy()


TAXONOMIES = {"tree": taxonomy(1), "dag": taxonomy(2)}


@pytest.fixture(scope="module", params=sorted(MECHANISMS))
def kind(request):
    return mechanism(request.param)


@pytest.fixture(scope="module", params=[pytest.param("dag", marks=pytest.mark.exhaustive), "tree"])
def tau(request):
    return TAXONOMIES[request.param]


@pytest.fixture(scope="module")
def make(kind, tau):
    def create(seed=SEED, attributes=("principal", "secondary")) -> Mechanism:
        options = {"least": 1} if kind.name == "semantic_transport" else {}
        return kind(dict.fromkeys(attributes, tau), **options, seed=seed)

    return create


@pytest.fixture(scope="module")
def records(tau):
    """Records with scalars and lists, and with every way in which a value can be absent."""
    rng = np.random.default_rng(5)
    some = [
        {"principal": str(rng.choice(tau.ids)), "secondary": rng.choice(tau.ids, rng.integers(0, 5)).tolist()}
        for _ in range(SIZE)
    ]
    some[3]["principal"] = None
    some[4]["secondary"] = None
    del some[5]["principal"]
    some[6] = {}
    return some


@pytest.fixture
def keys():
    return [b"key %d" % (k % 50) for k in range(SIZE)]


def calibrate(make, records):
    made = make()
    made.learn_many(records)
    made.calibrate()
    return made


@pytest.fixture(scope="module")
def calibrated(make, records):
    """A calibrated mechanism, which no test changes."""
    return calibrate(make, records)


@pytest.fixture
def fresh(make, records):
    """A calibrated mechanism for a test that changes it."""
    return calibrate(make, records)


def skip_if_grouped(calibrated):
    """Skip tests of single records for mechanisms that mask groups only."""
    if calibrated.needs_group:
        pytest.skip(f"{calibrated.name} masks records as a group: it has no mask_one, and a group's size matters")
    return calibrated


def restore_into_new(make, calibrated, **parameters):
    made = make(**parameters)
    made.restore(calibrated.snapshot())
    return made


def test_the_registry_contains_the_mechanism_by_name(kind):
    assert issubclass(kind, Mechanism)
    assert mechanism(kind.name) is kind


def test_parameters_are_named_and_known(kind, tau):
    with pytest.raises(ParameterError, match="the mechanism has no parameter 'distence': did you mean 'distance'"):
        kind({"a": tau, "b": tau}, distence="wu_palmer", seed=SEED)


def test_the_attributes_keep_their_order(make):
    assert make(attributes=("b", "a", "c")).attributes == ("b", "a", "c")


def test_no_attributes_are_rejected(kind):
    with pytest.raises(ParameterError, match="attribute"):
        kind({}, seed=SEED)


@pytest.mark.parametrize("seed", [b"", "text", None])
def test_a_seed_must_be_bytes(make, seed):
    with pytest.raises(ParameterError, match="secret"):
        make(seed=seed)


def test_nothing_is_masked_without_statistics(make, records, keys):
    made = make()
    made.learn_many(records)
    for attempt in (
        lambda: made.statistics,
        made.snapshot,
        lambda: made.mask_many(records, keys=keys),
        lambda: made.mask_batch(made.encode(records), FieldKeys(SEED, keys)),
    ):
        with pytest.raises(StatisticsError):
            attempt()


def test_an_empty_window_has_no_statistics(make):
    with pytest.raises(StatisticsError):
        make().calibrate()


def test_learning_returns_nothing_and_keeps_the_statistics(fresh, records):
    before = fresh.snapshot()
    assert fresh.learn_one(records[0]) is None
    assert fresh.learn_many(records) is None
    assert fresh.snapshot() == before


def test_learning_one_by_one_equals_learning_many(make, records, calibrated):
    made = make()
    for record in records:
        made.learn_one(record)
    assert made.calibrate().to_dict() == calibrated.statistics.to_dict()


def test_calibration_increments_the_version_and_describes_the_window(fresh, records):
    assert fresh.statistics.version == 1
    assert fresh.statistics.records == SIZE
    assert fresh.statistics.attributes == fresh.attributes
    fresh.learn_many(records)
    assert fresh.calibrate().version == 2
    assert fresh.statistics.version == 2


def test_computing_changes_nothing(calibrated, records, make):
    from stream_masker.core.statistics import count_batch

    fresh = make()
    sizes = [len(fresh.distances[0].taxonomy)] * 2
    counts = count_batch(fresh.encode(records), sizes)
    assert fresh.compute(counts, version=1).to_dict() == calibrated.statistics.to_dict()
    with pytest.raises(StatisticsError):
        _ = fresh.statistics
    before = calibrated.snapshot()
    assert calibrated.compute(counts, version=9).version == 9
    assert calibrated.snapshot() == before


def test_masking_changes_nothing(calibrated, records, keys):
    before, given = calibrated.snapshot(), copy.deepcopy(records)
    first = calibrated.mask_many(records, keys=keys)
    assert calibrated.mask_many(records, keys=keys) == first
    assert calibrated.snapshot() == before
    assert records == given


def test_masked_records_have_the_shape_of_their_records(calibrated, records, keys, tau):
    for record, masked in zip(records, calibrated.mask_many(records, keys=keys), strict=True):
        assert list(masked) == list(calibrated.attributes)
        for name, value in masked.items():
            original = record.get(name)
            assert type(value) is type(original)
            values = [value] if isinstance(value, str) else value or []
            assert all(v in tau for v in values)
            assert not isinstance(original, list) or len(values) == len(original)


def test_masking_masks(calibrated, records, keys):
    masked = calibrated.mask_many(records, keys=keys)
    values = [(r["principal"], m["principal"]) for r, m in zip(records, masked, strict=True) if r.get("principal")]
    assert sum(before != after for before, after in values) > len(values) / 5


def test_fields_that_are_not_attributes_are_dropped(calibrated, records, keys):
    masked = calibrated.mask_many([{**record, "name": "Jane"} for record in records], keys=keys)
    assert masked == calibrated.mask_many(records, keys=keys)


def test_one_record_is_masked_as_in_any_batch(calibrated, records, keys):
    skip_if_grouped(calibrated)
    together = calibrated.mask_many(records, keys=keys)
    assert [calibrated.mask_one(r, key=k) for r, k in zip(records, keys, strict=True)] == together
    assert calibrated.mask_many(records[7:19], keys=keys[7:19]) == together[7:19]
    assert calibrated.mask_many(records[::-1], keys=keys[::-1]) == together[::-1]


def test_batches_can_be_split_anywhere(calibrated, records):
    skip_if_grouped(calibrated)
    whole = calibrated.mask_batch(calibrated.encode(records), PositionKeys(SEED, "t", 0, np.arange(SIZE)))
    start = 0
    for size in (1, 20, SIZE - 21):
        part = records[start : start + size]
        offsets = np.arange(start, start + size)
        masked = calibrated.mask_batch(calibrated.encode(part), PositionKeys(SEED, "t", 0, offsets))
        assert calibrated.decode(masked) == calibrated.decode(whole)[start : start + size]
        start += size


def test_masks_depend_on_the_key(calibrated, records):
    skip_if_grouped(calibrated)
    record = records[0]
    outcomes = {json.dumps(calibrated.mask_one(record, key=b"%d" % k)) for k in range(40)}
    assert calibrated.mask_one(record, key=b"1") == calibrated.mask_one(record, key=b"1")
    assert len(outcomes) > 5


def test_masks_depend_on_the_seed(make, calibrated, records, keys):
    other = restore_into_new(make, calibrated, seed=b"another seed....")
    assert other.mask_many(records, keys=keys) != calibrated.mask_many(records, keys=keys)


def test_batches_and_records_have_the_same_masks(calibrated, records, keys):
    batch = calibrated.encode(records)
    masked = calibrated.mask_batch(batch, FieldKeys(SEED, keys))
    decoded = calibrated.decode(masked)
    for record, plain, mapped in zip(records, decoded, calibrated.mask_many(records, keys=keys), strict=True):
        assert {name: plain[name] for name in plain if record.get(name) is not None} == {
            name: mapped[name] for name in mapped if record.get(name) is not None
        }


def test_masking_does_not_modify_the_batch(calibrated, records, keys):
    batch = calibrated.encode(records)
    before = [column.codes.copy() for column in batch.columns]
    masked = calibrated.mask_batch(batch, FieldKeys(SEED, keys))
    for column, codes, after in zip(batch.columns, before, masked.columns, strict=True):
        np.testing.assert_array_equal(column.codes, codes)
        assert not np.shares_memory(column.codes, after.codes)
        assert after.codes.dtype == np.int32


def test_distortion_equals_a_computation_from_the_masks(calibrated, records, keys):
    batch = calibrated.encode(records)
    masked = calibrated.mask_batch(batch, FieldKeys(SEED, keys))
    for column, after, distortion, d in zip(
        batch.columns, masked.columns, masked.distortions, calibrated.distances, strict=True
    ):
        there = column.codes >= 0
        assert distortion.values == there.sum()
        assert distortion.unchanged == (column.codes[there] == after.codes[there]).sum()
        distances = d.pairs(column.codes[there], after.codes[there])
        assert distortion.squared_distance == pytest.approx((distances**2).sum())


def test_an_empty_batch_has_an_empty_mask(calibrated):
    assert calibrated.mask_many([], keys=[]) == []
    empty = Batch(0, (Column(np.empty(0, np.int32)), Column(np.empty(0, np.int32), np.zeros(1, np.int64))))
    masked = calibrated.mask_batch(empty, PositionKeys(SEED, "t", 0, np.empty(0, np.int64)))
    assert [column.codes.size for column in masked.columns] == [0, 0]
    assert [distortion.values for distortion in masked.distortions] == [0, 0]


@pytest.mark.parametrize("bad", [{"principal": "a secret"}, {"secondary": ["c0", "a secret"]}])
def test_errors_name_the_record_of_an_unknown_value_but_not_the_value(fresh, records, keys, bad):
    for attempt in (
        lambda: fresh.mask_many([*records[:2], bad], keys=keys[:3]),
        lambda: fresh.learn_many([*records[:2], bad]),
        lambda: fresh.encode([*records[:2], bad]),
    ):
        with pytest.raises(UnknownConceptError) as caught:
            attempt()
        assert caught.value.position == 2
        assert "secret" not in str(caught.value)


@pytest.mark.parametrize("bad", [7, 1.5, {"code": "c0"}, ["c0", None], [["c0"]], b"c0"])
def test_a_value_of_another_type_is_rejected(calibrated, bad):
    with pytest.raises(ParameterError, match="record 0"):
        calibrated.encode([{"secondary": bad}])


def test_lists_and_single_values_cannot_be_mixed(calibrated):
    with pytest.raises(ParameterError, match="record 1"):
        calibrated.encode([{"secondary": ["c0"]}, {"secondary": "c0"}])


def test_each_record_needs_a_key(calibrated, records, keys):
    with pytest.raises(ParameterError, match="keys"):
        calibrated.mask_many(records, keys=keys[1:])


def test_batches_of_other_attributes_are_rejected(calibrated):
    with pytest.raises(ParameterError, match="columns"):
        calibrated.mask_batch(Batch(1, (Column(np.zeros(1, np.int32)),)), FieldKeys(SEED, [b"k"]))


def test_a_snapshot_round_trips_through_json(make, calibrated, records, keys):
    made = make()
    made.restore(json.loads(json.dumps(calibrated.snapshot())))
    assert made.statistics.to_dict() == calibrated.statistics.to_dict()
    assert made.mask_many(records, keys=keys) == calibrated.mask_many(records, keys=keys)
    assert made.snapshot() == calibrated.snapshot() == calibrated.snapshot_of(calibrated.statistics)


def test_a_snapshot_is_valid_in_the_schema_of_statistics(calibrated):
    schema = load_schema("statistics")
    snapshot = {**schema["properties"]["snapshot"], "$defs": schema["$defs"]}
    assert Draft202012Validator(snapshot).is_valid(json.loads(json.dumps(calibrated.snapshot())))


def test_other_snapshots_are_rejected_and_change_nothing(make, fresh):
    good = fresh.snapshot()
    other_attributes = make(attributes=("a", "b"))
    other_attributes.learn_many([{"a": "c1", "b": "c2"}, {"a": "c2", "b": "c1"}])
    other_attributes.calibrate()
    for bad in (
        {},
        {**good, "mechanism": "another"},
        {**good, "statistics": {}},
        {**good, "statistics": None},
        {**good, "statistics": {**good["statistics"], "seen": dict.fromkeys(good["statistics"]["seen"], "None")}},
        other_attributes.snapshot(),
    ):
        with pytest.raises(StatisticsError):
            fresh.restore(bad)
        assert fresh.snapshot() == good


def test_an_unknown_mechanism_is_rejected():
    with pytest.raises(ParameterError, match="use semantic_noise"):
        mechanism("rot13")


def test_the_method_card_is_complete(kind):
    card = kind.method_card
    texts = [getattr(card, field.name) for field in fields(card) if field.name != "preserves"]
    assert all(text and not text.endswith(".") for text in [*texts, *card.preserves])
    assert card.preserves
