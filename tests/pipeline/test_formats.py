"""Records in another format than JSON: decoding, encoding, and records that do not fit once they are masked."""

from __future__ import annotations

import orjson
import pytest
from support.results import InputRecord, inputs, outcomes

from stream_masker.pipeline.formats import FormatUnavailableError, RecordFormat
from stream_masker.pipeline.masker import GroupTooSmallError, RecordMasker
from stream_masker.pipeline.records import Reason, RecordRejectedError
from tests.pipeline.conftest import SECRET, GroupMechanism

CODE = {"code": {"path": "code"}}


class MarkedFormat(RecordFormat):
    """JSON after a mark. A masked record does not fit if its code is ``unfit``."""

    def __init__(self, unfit: str = "") -> None:
        self.unfit = unfit

    def decode(self, value: bytes):
        mark, equals, document = value.partition(b"=")
        if not equals:
            raise RecordRejectedError(Reason.NOT_IN_FORMAT)

        def encode(masked: object) -> bytes:
            if masked.get("code") == self.unfit:
                raise RecordRejectedError(Reason.SCHEMA_MISMATCH, "code")
            return mark + b"=" + orjson.dumps(masked)

        return document, encode


def formatted(bench, unfit: str = "", *, grouped: bool = False):
    """A bench of marked records."""
    made = bench(CODE)
    made.mechanism = GroupMechanism(made.mechanism) if grouped else made.mechanism
    made.masker = RecordMasker(made.plan, made.mechanism, SECRET, record_format=MarkedFormat(unfit))
    return made


def marked(code: str, mark: bytes = b"x", **fields) -> bytes:
    return mark + b"=" + orjson.dumps({"code": code, **fields})


def test_each_record_is_encoded_as_it_was_decoded(bench):
    first, second, tombstone = formatted(bench).mask(marked("I10", b"x"), marked("E11", b"y"), None)
    assert first.value == marked("E11.9", b"x")
    assert second.value == marked("E08-E13", b"y")
    assert tombstone.value is None


def test_a_record_in_another_format_is_rejected_and_its_neighbours_are_not(bench):
    values = [marked("I10"), b'{"code": "I10"}', b"", marked("no code"), b"x=[]", marked("I10")]
    found = formatted(bench).mask(*values)
    reasons = [getattr(outcome, "reason", None) for outcome in found]
    assert reasons == [None, "not_in_format", "not_in_format", "unknown_code", "not_an_object", None]
    assert [outcome.offset for outcome in found] == list(range(100, 106))


def test_a_masked_record_that_does_not_fit_is_rejected_with_its_place_and_is_not_counted(bench):
    on_bench = formatted(bench, "E11.9")
    result = on_bench.result([InputRecord(7, marked("E11")), InputRecord(8, marked("I10")), InputRecord(9, None)])
    fits, unfit, tombstone = outcomes(result)
    assert fits.value == marked("E08-E13")
    assert unfit == (8, "schema_mismatch", "code")
    assert tombstone.value is None
    (block,) = result.blocks
    assert block.original.records == block.masked.records == 1
    assert [distortion.values for distortion in block.distortions] == [1]


def test_samples_are_decoded_too(bench):
    (part,) = formatted(bench).masker.read([marked("I10"), b"no mark", None, marked("E11")])
    assert part.batch.size == 2
    assert part.rejected == {1: ("not_in_format", None)}


def test_a_group_is_masked_again_without_the_records_that_do_not_fit(bench):
    on_bench = formatted(bench, "E11.9", grouped=True)
    found = on_bench.mask(marked("I10"), *[marked("E11")] * 3)
    assert on_bench.mechanism.sizes == [4, 3]
    assert [getattr(outcome, "reason", None) for outcome in found] == ["schema_mismatch", None, None, None]


def test_a_group_that_becomes_too_small_is_held_or_rejected(bench):
    on_bench = formatted(bench, "E11.9", grouped=True)
    records = [InputRecord(k, marked(code)) for k, code in enumerate(["I10", "E11", "E11"])]
    with pytest.raises(GroupTooSmallError):
        on_bench.masker.mask("t", 0, inputs([*records, records[0]]), statistics_version=1, hold=True)
    reasons = [outcome.reason for outcome in outcomes(on_bench.result([*records, records[0]]))]
    assert sorted(reasons) == ["group_too_small"] * 2 + ["schema_mismatch"] * 2


class UnavailableFormat(MarkedFormat):
    """Its records cannot be decoded now."""

    def prepare(self, messages):
        raise FormatUnavailableError("no registry")


def test_an_unavailable_format_rejects_nothing(bench):
    made, records = bench(CODE), [InputRecord(0, marked("I10")), InputRecord(1, marked("E11"))]
    masker = RecordMasker(made.plan, made.mechanism, SECRET, record_format=UnavailableFormat())
    for attempt in (
        lambda: masker.mask("t", 0, inputs(records), statistics_version=1),
        lambda: [*masker.read([marked("I10")])],
    ):
        with pytest.raises(FormatUnavailableError):
            attempt()
