"""HL7 v2 messages on topics: worker and calibrator read and write them by the configuration's ``records``."""

from __future__ import annotations

import secrets

import yaml
from support.hl7_messages import FOLDER, message

from stream_masker.pipeline.masker import RecordMasker
from stream_masker.pipeline.records import InputRecord
from stream_masker.service.configuration import parse_configuration
from stream_masker.service.configuration.build import build_mechanism, build_plan
from stream_masker.service.formats.wire_format import wire_format


def test_messages_of_a_topic_are_counted_and_masked():
    configuration = parse_configuration(yaml.safe_load((FOLDER / "stream-masker.yaml").read_text()))
    secret = secrets.token_bytes(32)
    mechanism = build_mechanism(configuration, secret)
    masker = RecordMasker(build_plan(configuration), mechanism, secret, record_format=wire_format(configuration))
    values = [message(k).encode() for k in range(40)]
    counted = masker.count([*values, b'{"diagnosis": "E11.9"}'])
    assert counted.counts.records == 40
    assert counted.causes == {("not_in_format", None): 1}
    mechanism.restore(mechanism.snapshot_of(mechanism.compute(counted.counts, version=1)))
    records = [InputRecord(k, value, b"key") for k, value in enumerate([*values, b"MSH", None])]
    result = masker.mask("adt", 0, records, statistics_version=1)
    assert {index: one.reason for index, one in result.rejected.items()} == {40: "not_in_format"}
    assert result.values[41] is None
    for before, after in zip(values, result.values, strict=False):
        assert after.startswith(b"MSH|^~\\&|||||")
        assert after.count(b"DG1|") == before.count(b"DG1|")
        assert b"Example" not in after
        assert b"5-470" not in after
