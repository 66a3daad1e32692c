"""The record masker: one outcome per record in order, keys and headers, and block counts."""

from __future__ import annotations

import logging

import numpy as np
import orjson
import pytest

from stream_masker.core.random import FieldKeys, PositionKeys
from stream_masker.core.statistics.counts import count_batch, merge
from stream_masker.errors import ParameterError, StatisticsError
from stream_masker.pipeline.blocks import MAX_COUNTED_ELEMENTS
from stream_masker.pipeline.masker import RecordMasker
from stream_masker.pipeline.records import InputRecord, Masked, Rejected
from stream_masker.pipeline.transforms import Pseudonyms

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
    assert bench(CODE).result(records).outcomes == [
        Masked(5, b'{"code":"E11.9"}', None, STAMP, 50),
        Rejected(7, "not_json"),
        Masked(8, None, None, STAMP, 60),
        Rejected(9, "unknown_code", "code"),
        Masked(12, b'{"code":"E11.65"}', None, STAMP, 30),
    ]


@pytest.mark.parametrize(
    ("policy", "given", "emitted"),
    [
        ("keep", b"p-1", b"p-1"),
        ("drop", b"p-1", None),
        ("pseudonymize", b"p-1", Pseudonyms(b"a secret of the tests").of_value("p-1").encode()),
        ("pseudonymize", b"", Pseudonyms(b"a secret of the tests").of_value("").encode()),
        ("pseudonymize", b"\xff\x00", Pseudonyms(b"a secret of the tests").of_bytes(b"\xff\x00").encode()),
        ("pseudonymize", None, None),
        ("keep", None, None),
    ],
)
@pytest.mark.parametrize("value", [b'{"code":"I10"}', None])
def test_the_message_key_follows_the_policy(bench, policy, given, emitted, value):
    (outcome,) = bench(CODE, message={"key": policy}).mask(value, key=given)
    assert outcome.key == emitted


def test_only_listed_headers_pass_and_stream_masker_headers_are_replaced(bench):
    headers = [
        ("trace", b"1"),
        ("stream-masker-version", b"99"),
        ("patient", b"p-1"),
        ("trace", None),
        ("stream-masker-mechanism", b"none"),
    ]
    for value in (b'{"code":"I10"}', None):
        (outcome,) = bench(CODE, message={"headers": ("trace",)}).mask(value, headers=headers)
        assert outcome.headers == [("trace", b"1"), ("trace", None), *STAMP]
        (outcome,) = bench(CODE).mask(value, headers=headers)
        assert outcome.headers == STAMP


def test_noise_is_keyed_by_position_or_by_a_field(bench):
    on_bench = bench(CODE)
    on_bench.mask({"code": "I10"}, {}, {"code": "I10"})
    ((_, keys),) = on_bench.mechanism.seen
    expected = PositionKeys(b"a secret of the tests", "discharges", 3, np.array([100, 102]))
    assert np.array_equal(keys.digests, expected.digests)
    on_bench = bench(CODE, noise_key="patient.id")
    patients = ["p", 7, 1.5, "ä"]
    on_bench.mask(*[{"code": "I10", "patient": {"id": patient}} for patient in patients])
    ((_, keys),) = on_bench.mechanism.seen
    expected = FieldKeys(b"a secret of the tests", [b"p", b"7", b"1.5", "ä".encode()])
    assert np.array_equal(keys.digests, expected.digests)


def test_a_record_with_very_many_codes_weighs_no_more_than_a_bounded_number_of_others(bench):
    """10,000 equal codes of one record would otherwise outweigh all other records of a window."""
    on_bench = bench({"code": {"path": "codes[*]"}})
    long = {"codes": ["I10"] * 10_000}
    sample = on_bench.masker.count([orjson.dumps(long), orjson.dumps({"codes": ["I10"]})])
    assert (sample.counts.records, sample.counts.values[0].rows) == (2, MAX_COUNTED_ELEMENTS + 1)
    (outcome,) = on_bench.mask(long)
    assert len(orjson.loads(outcome.value)["codes"]) == 10_000
    (block,) = on_bench.masker.mask("t", 0, [InputRecord(0, orjson.dumps(long))], statistics_version=1).blocks
    assert block.original.values[0].rows == block.masked.values[0].rows == MAX_COUNTED_ELEMENTS


@pytest.mark.parametrize(
    "patient", [{}, {"id": None}, {"id": True}, {"id": ""}, {"id": " "}, {"id": []}, "p", [], None]
)
def test_rejects_a_missing_noise_key(bench, patient):
    on_bench = bench(CODE, noise_key="patient.id")
    assert on_bench.mask_one({"code": "I10", "patient": patient}) == ("missing_noise_key", "patient.id")
    assert on_bench.mask_one({"code": "I10"}) == ("missing_noise_key", "patient.id")


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
    assert (block.timestamp, block.statistics_version) == (9, 7)
    assert block.rejected == {"not_an_object": 1, "unknown_code": 2}
    assert (block.original.records, block.masked.records) == (2, 2)
    assert (block.original.unknown, block.masked.unknown) == ((1, 2), (0, 0))
    assert block.original.given == (3, 4)
    assert on_bench.texts_counted(block.original) == [{"I10": 4}, {"E11": 1, "E11.9": 1, "E03": 1}]
    assert on_bench.texts_counted(block.masked) == [{"E11.9": 4}, {"E08-E13": 1, "I11.0": 1, "E03": 1}]
    assert [distortion.values for distortion in block.distortions] == [2, 3]


def test_a_block_holds_at_most_5000_records(bench):
    records = [InputRecord(i, b'{"code":"I10"}' if i % 3 else b"") for i in range(11_000)]
    on_bench = bench(CODE)
    result = on_bench.result(records)
    assert len(result.outcomes) == 11_000
    assert [(b.first_offset, b.last_offset) for b in result.blocks] == [(0, 3665), (3666, 7332), (7333, 10_999)]
    assert sum(b.original.records + b.rejected["not_json"] for b in result.blocks) == 11_000
    split = [on_bench.result(records[i : i + 100]) for i in range(0, 11_000, 100)]
    assert [o for part in split for o in part.outcomes] == result.outcomes


def test_a_batch_without_masked_records_has_a_block(bench):
    on_bench = bench(TWO)
    (block,) = on_bench.result([InputRecord(1, None), InputRecord(2, b"x")]).blocks
    assert (block.original.records, block.masked.records, block.rejected) == (0, 0, {"not_json": 1})
    assert on_bench.texts_counted(block.original) == [{}, {}]
    assert [distortion.values for distortion in block.distortions] == [0, 0]
    assert on_bench.mechanism.seen == []


def test_counting_does_not_mask(bench):
    on_bench = bench(TWO, noise_key="patient")
    event, incomplete = b'{"a":"I10","b":["E11","E11.99"],"patient":7}', b'{"a":"I10","patient":7}'
    values = [event, None, b"", incomplete, b'{"a":"I10","b":["E11"]}'] * 4000
    sample = on_bench.masker.count(iter(values))
    causes = {("not_json", None), ("missing", "b[*]"), ("missing_noise_key", "patient")}
    assert sample.causes == dict.fromkeys(causes, 4000)
    assert (sample.counts.records, sample.counts.unknown) == (4000, (0, 4000))
    assert on_bench.texts_counted(sample.counts) == [{"I10": 8000}, {"E11": 4000, "E11.9": 4000}]
    assert on_bench.mechanism.seen == []
    empty = on_bench.masker.count([])
    assert (empty.counts.records, empty.causes) == (0, {})


def test_counts_have_the_number_of_different_noise_keys(bench):
    """In a sample, in each block, and in blocks that are merged; the masked side has none."""
    on_bench = bench(TWO, noise_key="patient")
    events = [{"a": "I10", "b": ["E11", "E03"], "patient": patient} for patient in (1, 1, 3)]
    events += [{"a": "E11", "b": ["E03"], "patient": 1}] * 2
    values = [orjson.dumps(event) for event in events]
    (block,) = on_bench.result([InputRecord(i, value) for i, value in enumerate(values)]).blocks
    for counts in (block.original, on_bench.masker.count(values).counts, merge([block.original, block.original])):
        assert [column.units.tolist() for column in counts.values] == [[1, 2], [2, 2]]
        assert counts.pairs[0, 1].units.tolist() == [1, 2, 2]
    assert block.masked.values[0].key_bits is None
    (encoded,) = on_bench.masker.encode(values)
    assert count_batch(encoded, [1 << 20, 1 << 20]).pairs[0, 1].units.tolist() == [1, 2, 2]


def test_without_statistics_nothing_is_emitted(bench):
    on_bench = bench(CODE)
    on_bench.mechanism.ready = False
    with pytest.raises(StatisticsError):
        on_bench.mask({"code": "I10"})


def test_plan_and_mechanism_must_agree(bench):
    on_bench = bench(CODE)
    with pytest.raises(ParameterError, match="attributes are"):
        RecordMasker(on_bench.plan, bench({"z": {"path": "code"}}).mechanism, b"secret")
    with pytest.raises(ParameterError, match="secret"):
        RecordMasker(on_bench.plan, on_bench.mechanism, b"")


class FaultyMechanism:
    """Applies ``defect`` to the result of every batch that contains the code ``fault``."""

    name, attributes, needs_group = "faulty", ("a",), False

    def __init__(self, mechanism, fault, defect):
        self.mechanism, self.fault, self.defect = mechanism, fault, defect

    def mask_batch(self, batch, keys):
        masked = self.mechanism.mask_batch(batch, keys)
        struck = batch.columns[0].codes == self.fault
        return self.defect(masked, struck) if struck.any() else masked


def failing(masked, struck):
    raise ZeroDivisionError("SECRET")


def absent(masked, struck):
    masked.columns[0].codes[struck] = -1
    return masked


def outside(masked, struck):
    masked.columns[0].codes[struck] = 1000
    return masked


@pytest.mark.parametrize("defect", [failing, absent, outside])
def test_a_mechanism_error_rejects_only_the_affected_record(bench, caplog, defect):
    on_bench = bench(CODE)
    broken = FaultyMechanism(on_bench.mechanism, on_bench.taxonomy.position("E03"), defect)
    on_bench.masker = RecordMasker(on_bench.plan, broken, b"secret")
    with caplog.at_level(logging.DEBUG):
        result = on_bench.result(
            [InputRecord(i, orjson.dumps({"code": c})) for i, c in enumerate(["I10", "E03", "I11"])]
        )
    assert [getattr(o, "value", None) for o in result.outcomes] == [b'{"code":"E11.9"}', None, b'{"code":"E03"}']
    assert result.outcomes[1] == Rejected(1, "internal_error")
    (block,) = result.blocks
    assert (block.first_offset, block.last_offset, block.rejected) == (0, 2, {"internal_error": 1})
    assert (block.original.records, block.distortions[0].values) == (2, 2)
    assert "offset 1 failed (" in caplog.text
    assert "SECRET" not in caplog.text
    assert "E03" not in caplog.text


def test_a_decoding_error_rejects_only_its_record(bench, caplog, monkeypatch):
    on_bench = bench(CODE)
    find = on_bench.plan.attributes[0].concepts.find
    monkeypatch.setattr(
        on_bench.plan.attributes[0].concepts, "find", lambda text: find(text) if text != "E03" else 1 / 0
    )
    outcomes = on_bench.mask({"code": "I10"}, {"code": "E03"}, {"code": "I11.0"})
    assert [getattr(outcome, "reason", None) for outcome in outcomes] == [None, "internal_error", None]
    assert "offset 101 failed (ZeroDivisionError)" in caplog.text
    assert "E03" not in caplog.text
