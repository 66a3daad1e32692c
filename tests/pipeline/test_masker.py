"""The record masker: one outcome per record in order, keys and headers, and block counts."""

from __future__ import annotations

import logging
from collections import Counter

import numpy as np
import orjson
import pytest
from support.results import InputRecord, Masked, Refused, inputs, outcomes, same_counts

from stream_masker.core.random import FieldKeys, PositionKeys
from stream_masker.core.statistics.counts import count_batch
from stream_masker.errors import ParameterError, StatisticsError
from stream_masker.pipeline import masker
from stream_masker.pipeline.masker import RecordMasker
from stream_masker.pipeline.transforms import Pseudonyms
from stream_masker.pipeline.window import merge_blocks
from tests.pipeline.conftest import SECRET

EVENT = {"code": "I10"}
CODE = {"a": {"path": "code"}}
TWO = {"a": {"path": "a"}, "b": {"path": "b[*]", "unknown": "ancestor"}}
STAMP = [
    ("stream-masker-version", b"7"),
    ("stream-masker-mechanism", b"fixed"),
    ("stream-masker-configuration", b"c0ffee0123456789"),
]


def test_outcomes_keep_order_offset_and_timestamp(bench):
    records = [
        InputRecord(5, b'{"code":"I10"}', timestamp=50),
        InputRecord(7, b"{", timestamp=70),
        InputRecord(8, None, timestamp=60),
        InputRecord(9, b'{"code":"nothing"}', timestamp=40),
        InputRecord(12, b'{"code": "I11.0"}', timestamp=30),
    ]
    assert outcomes(bench(CODE).result(records)) == [
        Masked(5, b'{"code":"E11.9"}', None, STAMP, 50),
        Refused(7, "not_json"),
        Masked(8, None, None, STAMP, 60),
        Refused(9, "unknown_code", "code"),
        Masked(12, b'{"code":"E11.65"}', None, STAMP, 30),
    ]


PSEUDONYMS = Pseudonyms(SECRET)


@pytest.mark.parametrize(
    ("policy", "given", "emitted"),
    [
        ("keep", b"p-1", b"p-1"),
        ("drop", b"p-1", None),
        ("pseudonymize", b"p-1", PSEUDONYMS.of_bytes(b"p-1").encode()),
        ("pseudonymize", b"", PSEUDONYMS.of_bytes(b"").encode()),
        ("pseudonymize", b"\xff\x00", PSEUDONYMS.of_bytes(b"\xff\x00").encode()),
        ("pseudonymize", None, None),
    ],
)
@pytest.mark.parametrize("kept", [(), ("trace",)])
def test_keys_follow_the_policy_and_only_listed_headers_pass(bench, policy, given, emitted, kept):
    """Also of tombstones. Headers of stream-masker itself are replaced."""
    traces = [("trace", b"1"), ("trace", None)]
    headers = [traces[0], ("stream-masker-version", b"99"), ("patient", b"p-1"), traces[1], (STAMP[1][0], b"none")]
    for outcome in bench(CODE, message={"key": policy, "headers": kept}).mask(EVENT, None, key=given, headers=headers):
        assert (outcome.key, outcome.headers) == (emitted, [*(traces if kept else []), *STAMP])


def test_noise_is_keyed_by_position_or_by_a_field(bench):
    patients = ["p", 7, 1.5, "ä"]
    for noise_key, expected in (
        (None, PositionKeys(SECRET, "discharges", 3, np.array([100, 102, 103, 104]))),
        ("patient.id", FieldKeys(SECRET, [b"p", b"7", b"1.5", "ä".encode()])),
    ):
        on_bench = bench(CODE, noise_key=noise_key)
        first, *others = [{**EVENT, "patient": {"id": patient}} for patient in patients]
        on_bench.mask(first, {}, *others)
        ((_, keys),) = on_bench.mechanism.seen
        assert np.array_equal(keys.digests, expected.digests)


@pytest.mark.parametrize("patient", [{}, *({"id": key} for key in (None, True, "", " ", [])), "p", None])
def test_rejects_a_missing_noise_key(bench, patient):
    on_bench = bench(CODE, noise_key="patient.id")
    assert on_bench.mask_one({**EVENT, "patient": patient}) == ("missing_noise_key", "patient.id")


def test_blocks_count_original_and_masked_values(bench):
    on_bench = bench(TWO)
    records = [
        InputRecord(10, b'{"a":"I10","b":["E11","E11.99","E03"]}', timestamp=5),
        InputRecord(11, b'{"a":"I10","b":[]}', timestamp=9),
        InputRecord(12, b"[]", timestamp=7),
        InputRecord(13, None, timestamp=3),
        InputRecord(14, b'{"a":"I99","b":["X"]}', timestamp=2),
        InputRecord(15, b'{"a":"E03","b":["X"]}', timestamp=1),
    ]
    (block,) = on_bench.result(records).blocks
    assert (block.topic, block.partition, block.first_offset, block.last_offset) == ("discharges", 3, 10, 15)
    assert block.timestamp == 9
    assert (block.original.records, block.masked.records) == (2, 2)
    assert on_bench.texts_counted(block.original) == [{"I10": 4}, {"E11": 1, "E11.9": 1, "E03": 1}]
    assert on_bench.texts_counted(block.masked) == [{"E11.9": 4}, {"E08-E13": 1, "I11.0": 1, "E03": 1}]
    assert [distortion.values for distortion in block.distortions] == [2, 3]


def test_a_block_holds_at_most_5000_records(bench):
    records = [InputRecord(i, b'{"code":"I10"}' if i % 3 else b"") for i in range(11_000)]
    on_bench = bench(CODE)
    result = on_bench.result(records)
    assert len(outcomes(result)) == 11_000
    assert [(b.first_offset, b.last_offset) for b in result.blocks] == [(0, 3665), (3666, 7332), (7333, 10_999)]
    assert [b.original.records for b in result.blocks] == [2_444, 2_444, 2_445]
    split = [on_bench.result(records[i : i + 100]) for i in range(0, 11_000, 100)]
    assert [o for part in split for o in outcomes(part)] == outcomes(result)


def test_large_runs_are_split_without_changing_their_sums(bench, monkeypatch):
    on_bench, codes = bench({name: {"path": name} for name in "ab"}), ["I10", "E03", "E11.9"]
    values = [dict.fromkeys("ab", codes[k % 3]) if k % 7 else {} for k in range(52)]
    records = [on_bench.record(k, value, timestamp=k) for k, value in enumerate(values)]
    (whole,) = on_bench.result(records).blocks
    monkeypatch.setattr(masker, "MAX_BLOCK_ROWS", 30)
    several = on_bench.result(records).blocks
    assert len(several) == 5
    assert [b.first_offset for b in several[1:]] == [b.last_offset + 1 for b in several[:-1]]
    assert [b.timestamp for b in several] == [b.last_offset for b in several]
    merged = merge_blocks(several)
    assert (merged.first_offset, merged.last_offset, merged.timestamp) == (0, 51, 51)
    assert merged.distortions == whole.distortions
    assert merged.unchanged == whole.unchanged == sum(value.get("a") == "E03" for value in values)
    assert all(map(same_counts, merged.masked.values, whole.masked.values))
    assert same_counts(merged.masked.pairs[0, 1], whole.masked.pairs[0, 1])


@pytest.mark.parametrize(("noise_key", "part_bytes"), [(None, 1 << 20), ("patient", 1 << 20), ("patient", 20)])
def test_partitions_are_masked_together_as_each_alone(bench, monkeypatch, noise_key, part_bytes):
    """Only the distortions of all stand in the first block."""
    on_bench = bench(TWO, noise_key=noise_key)
    monkeypatch.setattr(masker, "PART_BYTES", part_bytes)
    events = [b'{"a":"I10","b":["E11","E11.99"],"patient":7}', None, b"x", b'{"a":"E03","b":[],"patient":8}']
    given = {
        partition: inputs([InputRecord(start + k, value, timestamp=k) for k, value in enumerate(values)])
        for partition, start, values in ((5, 9, events), (2, 10, events[:1]), (4, 9, events[::-1] * 700))
    }
    together = on_bench.masker.mask_all("t", given, statistics_version=1)
    assert list(together) == list(given)
    for partition, records in given.items():
        alone = on_bench.masker.mask("t", partition, records, statistics_version=1)
        assert outcomes(together[partition]) == outcomes(alone)
        for one, other in zip(together[partition].blocks, alone.blocks, strict=True):
            places = [(b.partition, b.first_offset, b.last_offset, b.timestamp, b.unchanged) for b in (one, other)]
            assert places[0] == places[1]
            for each in ("original", "masked"):
                assert on_bench.texts_counted(getattr(one, each)) == on_bench.texts_counted(getattr(other, each))
    values = sum(result.blocks[0].distortions[0].values for result in together.values())
    assert values == together[5].blocks[0].distortions[0].values == 2 + 1 + 1400
    assert sum((result.tally for result in together.values()), Counter())["generalized", "b"] == 1 + 1 + 700


def test_a_batch_without_masked_records_has_a_block(bench):
    """It replaces earlier blocks of the same records."""
    on_bench = bench(TWO)
    (block,) = on_bench.result([InputRecord(1, None), InputRecord(2, b"x")]).blocks
    assert (block.original.records, block.masked.records) == (0, 0)
    assert (block.first_offset, block.last_offset) == (1, 2)
    assert on_bench.mechanism.seen == []


def test_counting_does_not_mask(bench):
    on_bench = bench(TWO, noise_key="patient")
    event, incomplete = b'{"a":"I10","b":["E11","E11.99"],"patient":7}', b'{"a":"I10","patient":7}'
    values = [event, None, b"", incomplete, b'{"a":"I10","b":["E11"]}'] * 4000
    parts = [*on_bench.masker.read(iter(values))]
    counts, causes = (
        on_bench.masker.count(parts),
        {("not_json", None), ("missing", "b[*]"), ("missing_noise_key", "patient")},
    )
    rejected = [(one.reason, one.field) for part in parts for one in part.rejected.values()]
    assert Counter(rejected) == dict.fromkeys(causes, 4000)
    assert counts.records == 4000
    assert sum((part.tally for part in parts), Counter()) == {("generalized", "b"): 4000}
    assert on_bench.texts_counted(counts) == [{"I10": 8000}, {"E11": 4000, "E11.9": 4000}]
    assert on_bench.mechanism.seen == []
    [empty] = on_bench.masker.read([])
    assert (on_bench.masker.count([empty]).records, empty.rejected) == (0, {})


def test_samples_and_blocks_have_the_number_of_different_noise_keys(bench):
    on_bench = bench(TWO, noise_key="patient")
    events = [{"a": "I10", "b": ["E11", "E03"], "patient": patient} for patient in (1, 1, 3)]
    values = [orjson.dumps(event) for event in (*events, *[{"a": "E11", "b": ["E03"], "patient": 1}] * 2)]
    (part,) = on_bench.masker.read(values)
    records = inputs([on_bench.record(number, value) for number, value in enumerate(values)])
    maskers = (RecordMasker(on_bench.plan, on_bench.mechanism, secret) for secret in (SECRET, b"x" * 16))
    block, other = (masker.mask("t", 0, records, statistics_version=1).blocks[0] for masker in maskers)
    for counts in (on_bench.masker.count([part]), count_batch(part.batch, [1 << 20, 1 << 20]), block.original):
        assert [column.units.tolist() for column in counts.values] == [[1, 2], [2, 2]]
        assert counts.pairs[0, 1].units.tolist() == [1, 2, 2]
    assert block.masked.values[0].key_bits is None
    bits = [one.original.values[0].key_bits.tolist() for one in (block, other)]
    assert bits[0] != bits[1], "the slots depend on the secret"


def test_without_statistics_nothing_is_emitted(bench):
    on_bench = bench(CODE)
    on_bench.mechanism.ready = False
    with pytest.raises(StatisticsError):
        on_bench.mask(EVENT)


def test_plan_and_mechanism_must_agree(bench):
    with pytest.raises(ParameterError, match="attributes are"):
        RecordMasker(bench(CODE).plan, bench({"z": {"path": "code"}}).mechanism, SECRET)


def faulty(on_bench, monkeypatch, fault):
    """Let the masker fail at the code E03: when it is read, masked, or not masked by a concept."""
    find, mask_batch = on_bench.plan.attributes[0].concepts.find, on_bench.mechanism.mask_batch

    def mask(batch, keys):
        masked, struck = mask_batch(batch, keys), batch.columns[0].codes == on_bench.taxonomy.position("E03")
        if struck.any():
            if fault == "masking":
                raise ZeroDivisionError("SECRET")
            masked.columns[0].codes[struck] = fault
        return masked

    if fault == "reading":
        concepts = on_bench.plan.attributes[0].concepts
        monkeypatch.setattr(concepts, "find", lambda text: find(text) if text != "E03" else 1 / 0)
    else:
        monkeypatch.setattr(on_bench.mechanism, "mask_batch", mask)


@pytest.mark.parametrize("fault", ["reading", "masking", -1, 1000])
def test_an_error_rejects_only_the_affected_record(bench, caplog, monkeypatch, fault):
    on_bench = bench(CODE)
    faulty(on_bench, monkeypatch, fault)
    with caplog.at_level(logging.DEBUG):
        result = on_bench.result([on_bench.record(k, {"code": code}) for k, code in enumerate(["I10", "E03", "I11"])])
    assert [getattr(o, "value", None) for o in outcomes(result)] == [b'{"code":"E11.9"}', None, b'{"code":"E03"}']
    assert outcomes(result)[1] == Refused(1, "internal_error")
    (block,) = result.blocks
    assert (block.first_offset, block.last_offset) == (0, 2)
    assert (block.original.records, block.distortions[0].values) == (2, 2)
    assert "offset 1 failed (" in caplog.text
    assert not any(text in caplog.text for text in ("SECRET", "E03"))
