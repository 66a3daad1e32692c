"""Records in another format than JSON: decoding, encoding, and records that do not fit once they are masked."""

from __future__ import annotations

from dataclasses import replace

import orjson
import pytest

from stream_masker.pipeline.formats import FormatUnavailableError, RecordFormat
from stream_masker.pipeline.masker import GroupTooSmallError, RecordMasker
from stream_masker.pipeline.plan import MessagePolicy
from stream_masker.pipeline.reasons import Reason, RecordRejectedError
from stream_masker.pipeline.records import InputRecord
from stream_masker.pipeline.transforms import Pseudonyms
from tests.pipeline.conftest import SECRET, GroupMechanism

CODE = {"code": {"path": "code"}}


class MarkedFormat(RecordFormat):
    """JSON after a mark. A masked record does not fit if its code is ``unfit``.

    available: whether records can be decoded; keys: whether keys are in the format too.
    """

    def __init__(self, unfit: str = "", *, keys: bool = False) -> None:
        self.unfit = unfit
        self.decodes_keys = keys
        self.available = True

    def prepare(self, messages):
        """Check that the records can be decoded."""
        if any(messages) and not self.available:
            raise FormatUnavailableError("no registry")

    def decode_key(self, key: bytes):
        mark, equals, document = key.partition(b"=")
        if not equals:
            raise RecordRejectedError(Reason.NOT_IN_FORMAT)
        return document, lambda masked: mark + b"=" + orjson.dumps(masked)

    def decode(self, value: bytes):
        mark, equals, document = value.partition(b"=")
        if not equals:
            raise RecordRejectedError(Reason.NOT_IN_FORMAT)

        def encode(masked: object) -> bytes:
            if masked.get("code") == self.unfit:
                raise RecordRejectedError(Reason.SCHEMA_MISMATCH, "code")
            return mark + b"=" + orjson.dumps(masked)

        return document, encode


def formatted(bench, unfit: str = "", **plan):
    on_bench = bench(CODE)
    on_bench.masker = RecordMasker(
        replace(on_bench.plan, **plan),
        on_bench.mechanism,
        SECRET,
        record_format=MarkedFormat(unfit),
    )
    return on_bench


def marked(code: str, mark: bytes = b"x", **fields) -> bytes:
    return mark + b"=" + orjson.dumps({"code": code, **fields})


def test_each_record_is_encoded_as_it_was_decoded(bench):
    first, second, tombstone = formatted(bench).mask(marked("I10", b"x"), marked("E11", b"y"), None)
    assert first.value == marked("E11.9", b"x")
    assert second.value == marked("E08-E13", b"y")
    assert tombstone.value is None


def test_a_record_in_another_format_is_rejected_and_its_neighbours_are_not(bench):
    values = [marked("I10"), b'{"code": "I10"}', b"", marked("no code"), b"x=[]", marked("I10")]
    outcomes = formatted(bench).mask(*values)
    reasons = [getattr(outcome, "reason", None) for outcome in outcomes]
    assert reasons == [None, "not_in_format", "not_in_format", "unknown_code", "not_an_object", None]
    assert [outcome.offset for outcome in outcomes] == list(range(100, 106))


def test_a_masked_record_that_does_not_fit_is_rejected_with_its_place_and_is_not_counted(bench):
    on_bench = formatted(bench, "E11.9")
    result = on_bench.result([InputRecord(7, marked("E11")), InputRecord(8, marked("I10")), InputRecord(9, None)])
    fits, unfit, tombstone = result.outcomes
    assert fits.value == marked("E08-E13")
    assert unfit == (8, "schema_mismatch", "code")
    assert tombstone.value is None
    (block,) = result.blocks
    assert block.original.records == block.masked.records == 1
    assert block.rejected == {"schema_mismatch": 1}
    assert [distortion.values for distortion in block.distortions] == [1]


def test_samples_are_decoded_too(bench):
    counted = formatted(bench).masker.count([marked("I10"), b"no mark", None, marked("E11")])
    assert counted.counts.records == 2
    assert counted.causes == {("not_in_format", None): 1}


def grouped(bench, unfit: str):
    on_bench = bench(CODE)
    on_bench.mechanism = GroupMechanism(on_bench.mechanism)
    on_bench.masker = RecordMasker(on_bench.plan, on_bench.mechanism, SECRET, record_format=MarkedFormat(unfit))
    return on_bench


def test_a_group_is_masked_again_without_the_records_that_do_not_fit(bench):
    on_bench = grouped(bench, "E11.9")
    outcomes = on_bench.mask(marked("I10"), *[marked("E11")] * 3)
    assert on_bench.mechanism.sizes == [4, 3]
    assert [getattr(outcome, "reason", None) for outcome in outcomes] == ["schema_mismatch", None, None, None]


def test_a_group_that_becomes_too_small_is_held_or_rejected(bench):
    on_bench = grouped(bench, "E11.9")
    records = [InputRecord(k, marked(code)) for k, code in enumerate(["I10", "E11", "E11"])]
    with pytest.raises(GroupTooSmallError):
        on_bench.masker.mask("t", 0, [*records, records[0]], statistics_version=1, hold=True)
    reasons = [outcome.reason for outcome in on_bench.result([*records, records[0]]).outcomes]
    assert sorted(reasons) == ["group_too_small"] * 2 + ["schema_mismatch"] * 2


def keyed(bench, key="pseudonymize"):
    on_bench = formatted(bench, message=MessagePolicy(key=key))
    on_bench.masker = RecordMasker(
        replace(on_bench.plan, message=MessagePolicy(key=key)),
        on_bench.mechanism,
        SECRET,
        record_format=MarkedFormat(keys=True),
    )
    return on_bench


def test_texts_in_a_key_are_replaced_by_their_pseudonyms(bench):
    keys = [b'k="p7"', b'k={"id": "p7", "none": null, "n": [5]}', None]
    records = [InputRecord(k, marked("I10"), key) for k, key in enumerate(keys)]
    of = Pseudonyms(SECRET).of_bytes
    text, whole, none = (outcome.key for outcome in keyed(bench).result(records).outcomes)
    assert text == b"k=" + orjson.dumps(of(b"p7"))
    assert whole == b"k=" + orjson.dumps({"id": of(b"p7"), "none": None, "n": [of(b"5")]})
    assert none is None


@pytest.mark.parametrize("key", ["keep", "drop"])
def test_other_treatments_do_not_decode_keys(bench, key):
    (outcome,) = keyed(bench, key=key).result([InputRecord(0, marked("I10"), b"no mark")]).outcomes
    assert outcome.key == (b"no mark" if key == "keep" else None)


@pytest.mark.parametrize("key", [b"no mark", b"k=no json"])
def test_a_record_or_tombstone_with_a_malformed_key_is_rejected(bench, key):
    records = [InputRecord(0, marked("I10"), key), InputRecord(1, None, key), InputRecord(2, marked("I10"), b'k="a"')]
    first, second, third = keyed(bench).result(records).outcomes
    assert first == (0, "not_in_format", "message.key")
    assert second == (1, "not_in_format", "message.key")
    assert third.value is not None


def test_an_unavailable_format_rejects_nothing_and_masks_later(bench):
    on_bench, marks = bench(CODE), MarkedFormat()
    on_bench.masker = RecordMasker(on_bench.plan, on_bench.mechanism, SECRET, record_format=marks)
    marks.available = False
    records = [InputRecord(0, marked("I10")), InputRecord(1, marked("E11"))]
    with pytest.raises(FormatUnavailableError):
        on_bench.result(records)
    with pytest.raises(FormatUnavailableError):
        on_bench.masker.count([marked("I10")])
    marks.available = True
    assert not on_bench.result(records).rejected
