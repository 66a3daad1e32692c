"""The contract of masking mechanisms: every check for every registered mechanism."""

from __future__ import annotations

import copy
import json

import numpy as np
import pytest
from jsonschema import Draft202012Validator
from support.channels import trained
from support.core_parts import Batch, Column, FieldKeys, PositionKeys
from support.schemas import load_schema

from stream_masker import Ontology
from stream_masker.core.mechanisms import MECHANISMS, Mechanism, mechanism
from stream_masker.core.statistics import count_batch
from stream_masker.errors import ParameterError, StatisticsError

SEED = b"the seed of the contract"
SIZE = 60
RNG = np.random.default_rng(3)
TAU = Ontology.from_edges([(f"c{k}", f"c{RNG.integers(0, k)}") for k in range(1, 40)]).taxonomy()
KEYS = [b"key %d" % (k % 50) for k in range(SIZE)]


def drawn_records():
    """Records with scalars and lists, and with every way in which a value can be absent."""
    some = [
        {"principal": str(RNG.choice(TAU.ids)), "secondary": RNG.choice(TAU.ids, RNG.integers(0, 5)).tolist()}
        for _ in range(SIZE)
    ]
    some[3]["principal"] = None
    some[4]["secondary"] = None
    del some[5]["principal"]
    some[6] = {}
    return some


RECORDS = drawn_records()


@pytest.fixture(scope="module", params=sorted(MECHANISMS))
def kind(request):
    return mechanism(request.param)


@pytest.fixture(scope="module")
def make(kind):
    def create(seed=SEED) -> Mechanism:
        options = {"least": 1} if kind.name == "semantic_transport" else {}
        return kind({"principal": TAU, "secondary": TAU}, **options, seed=seed)

    return create


@pytest.fixture(scope="module")
def calibrated(make):
    """A calibrated mechanism, which no test changes."""
    return trained(make(), RECORDS)


@pytest.fixture
def single(calibrated):
    """A mechanism that masks single records; others mask groups only, and the size of a group matters."""
    if calibrated.needs_group:
        pytest.skip(f"{calibrated.name} masks records as a group")
    return calibrated


def masked_by_offset(made, records, start=0):
    return made.mask_batch(made.encode(records), PositionKeys(SEED, "t", 0, np.arange(start, start + len(records))))


def test_the_registry_contains_the_mechanism_by_name_with_what_it_does(kind):
    assert mechanism(kind.name) is kind
    assert all(text and not text.endswith(".") for text in kind.preserves)
    assert kind.preserves


def test_nothing_is_masked_without_statistics(make):
    made = make()
    with pytest.raises(StatisticsError):
        made.calibrate()
    made.learn_many(RECORDS)
    for attempt in (
        lambda: made.statistics,
        made.snapshot,
        lambda: made.mask_many(RECORDS, keys=KEYS),
        lambda: made.mask_batch(made.encode(RECORDS), FieldKeys(SEED, KEYS)),
    ):
        with pytest.raises(StatisticsError):
            attempt()


def test_computing_and_masking_change_nothing(calibrated, make):
    before, given = calibrated.snapshot(), copy.deepcopy(RECORDS)
    counts = count_batch(calibrated.encode(RECORDS), [len(TAU)] * 2)
    fresh = make()
    assert fresh.compute(counts, version=1).to_dict() == calibrated.statistics.to_dict()
    with pytest.raises(StatisticsError):
        _ = fresh.statistics
    assert calibrated.compute(counts, version=9).version == 9
    first = calibrated.mask_many(RECORDS, keys=KEYS)
    assert calibrated.mask_many(RECORDS, keys=KEYS) == first
    assert (calibrated.snapshot(), RECORDS) == (before, given)


def test_masked_records_have_the_shape_of_their_records_and_other_values(calibrated):
    changed = []
    for record, masked in zip(RECORDS, calibrated.mask_many(RECORDS, keys=KEYS), strict=True):
        assert list(masked) == ["principal", "secondary"]
        for name, value in masked.items():
            original = record.get(name)
            assert type(value) is type(original)
            values = [value] if isinstance(value, str) else value or []
            assert all(v in TAU for v in values)
            assert not isinstance(original, list) or len(values) == len(original)
        changed += [masked["principal"] != record["principal"]] if record.get("principal") else []
    assert sum(changed) > len(changed) / 5


def test_fields_that_are_not_attributes_are_dropped(calibrated):
    masked = calibrated.mask_many([{**record, "name": "Jane"} for record in RECORDS], keys=KEYS)
    assert masked == calibrated.mask_many(RECORDS, keys=KEYS)


def test_one_record_is_masked_as_in_any_batch(single):
    together = single.mask_many(RECORDS, keys=KEYS)
    assert [single.mask_one(r, key=k) for r, k in zip(RECORDS, KEYS, strict=True)] == together
    assert single.mask_many(RECORDS[::-1] + RECORDS, keys=KEYS[::-1] + KEYS) == together[::-1] + together
    whole, start = single.decode(masked_by_offset(single, RECORDS)), 0
    for size in (1, 20, SIZE - 21):
        part = single.decode(masked_by_offset(single, RECORDS[start : start + size], start))
        assert part == whole[start : start + size]
        start += size


def test_masks_depend_on_the_key(single):
    outcomes = {json.dumps(single.mask_one(RECORDS[0], key=b"%d" % k)) for k in range(40)}
    assert len(outcomes) > 5


def test_batches_and_records_have_the_same_masks(calibrated):
    decoded = calibrated.decode(calibrated.mask_batch(calibrated.encode(RECORDS), FieldKeys(SEED, KEYS)))
    for record, plain, mapped in zip(RECORDS, decoded, calibrated.mask_many(RECORDS, keys=KEYS), strict=True):
        present = [name for name in plain if record.get(name) is not None]
        assert [plain[name] for name in present] == [mapped[name] for name in present]


def test_masking_leaves_the_batch_and_tells_the_distortion(calibrated):
    batch = calibrated.encode(RECORDS)
    before = [column.codes.copy() for column in batch.columns]
    masked = calibrated.mask_batch(batch, FieldKeys(SEED, KEYS))
    parts = zip(batch.columns, before, masked.columns, masked.distortions, calibrated.distances, strict=True)
    for column, codes, after, distortion, d in parts:
        np.testing.assert_array_equal(column.codes, codes)
        assert not np.shares_memory(column.codes, after.codes)
        assert after.codes.dtype == np.int32
        there = codes >= 0
        assert distortion.values == there.sum()
        assert distortion.unchanged == (codes[there] == after.codes[there]).sum()
        assert distortion.squared_distance == pytest.approx((d.pairs(codes[there], after.codes[there]) ** 2).sum())


def test_an_empty_batch_has_an_empty_mask(calibrated):
    assert calibrated.mask_many([], keys=[]) == []
    empty = Batch(0, (Column(np.empty(0, np.int32)), Column(np.empty(0, np.int32), np.zeros(1, np.int64))))
    masked = calibrated.mask_batch(empty, PositionKeys(SEED, "t", 0, np.empty(0, np.int64)))
    assert [column.codes.size for column in masked.columns] == [0, 0]
    assert [distortion.values for distortion in masked.distortions] == [0, 0]


def restored(make, calibrated, seed=SEED):
    made = make(seed=seed)
    made.restore(json.loads(json.dumps(calibrated.snapshot())))
    return made


def test_a_snapshot_round_trips_through_json(make, calibrated):
    made, schema = restored(make, calibrated), load_schema("statistics")
    assert Draft202012Validator({**schema["properties"]["snapshot"], "$defs": schema["$defs"]}).is_valid(
        json.loads(json.dumps(made.snapshot()))
    )
    assert made.snapshot() == calibrated.snapshot() == calibrated.snapshot_of(calibrated.statistics)
    assert made.mask_many(RECORDS, keys=KEYS) == calibrated.mask_many(RECORDS, keys=KEYS)


def test_masks_depend_on_the_seed(make, calibrated):
    other = restored(make, calibrated, seed=b"another seed....")
    assert other.mask_many(RECORDS, keys=KEYS) != calibrated.mask_many(RECORDS, keys=KEYS)


def test_other_snapshots_are_rejected_and_change_nothing(calibrated):
    good = calibrated.snapshot()
    statistics = good["statistics"]
    for bad in (
        {},
        {**good, "mechanism": "another"},
        {**good, "statistics": None},
        {**good, "statistics": {**statistics, "observed": dict.fromkeys(statistics["observed"], "None")}},
        {**good, "statistics": {**statistics, "attributes": ["a", "b"]}},
    ):
        with pytest.raises(StatisticsError):
            calibrated.restore(bad)
        assert calibrated.snapshot() == good


def test_an_unknown_mechanism_is_rejected():
    with pytest.raises(ParameterError, match="use semantic_noise"):
        mechanism("rot13")
