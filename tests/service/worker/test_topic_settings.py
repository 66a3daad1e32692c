"""The checks of the settings of the worker's topics."""

from __future__ import annotations

import pytest
from support.small_configuration import small_configuration

from stream_masker.service.configuration import Configuration, parse_configuration
from stream_masker.service.worker.topic_checks import rejection_risks, setting_problems

OUTPUTS = {"discharges.masked"}


def configured(**sections: object) -> Configuration:
    flat = {"ontologies": {"small": {"values": ["x", "y"]}}, "mechanism": {"name": "pram"}}
    return parse_configuration(small_configuration("a", **{**flat, **sections}))


@pytest.mark.parametrize("policy", ["compact", "compact,delete"])
def test_a_compacted_output_needs_keys(policy: str) -> None:
    settings = {"discharges.masked": {"cleanup.policy": policy}}
    (problem,) = setting_problems(configured(message={"key": "drop"}), settings, OUTPUTS)
    assert f"cleanup.policy={policy}, which needs message keys, but message.key is drop: use pseudonymize" in problem
    assert list(setting_problems(configured(), settings, OUTPUTS)) == []


def test_a_topic_must_take_the_largest_message_of_the_producer() -> None:
    settings = {"discharges.masked": {"max.message.bytes": "100000"}, "discharges.rejected": {}}
    (problem,) = setting_problems(configured(), settings, OUTPUTS)
    assert "discharges.masked has max.message.bytes=100000, less than the 1000000 of the producer" in problem
    assert "--entity-name discharges.masked --add-config max.message.bytes=1000000" in problem
    smaller = configured(kafka={"properties": {"message.max.bytes": 100_000}})
    assert list(setting_problems(smaller, settings, OUTPUTS)) == []


def test_the_topic_of_provenance_must_not_be_compacted() -> None:
    settings = {"events": {"cleanup.policy": "compact"}}
    (problem,) = setting_problems(configured(topics={"provenance": "events"}), settings, OUTPUTS)
    assert "topic events has cleanup.policy=compact, which deletes all events of a partition but the last" in problem
    assert "--entity-name events --add-config cleanup.policy=delete" in problem
    kept = {"events": {"cleanup.policy": "delete"}}
    assert list(setting_problems(configured(topics={"provenance": "events"}), kept, OUTPUTS)) == []


def test_the_defaults_of_kafka_are_accepted() -> None:
    defaults = {"cleanup.policy": "delete", "max.message.bytes": "1048588"}
    settings = dict.fromkeys(("discharges.masked", "discharges.rejected", "stream-masker.calibration"), defaults)
    assert list(setting_problems(configured(message={"key": "drop"}), settings, OUTPUTS)) == []


def test_settings_that_refuse_single_records_are_named() -> None:
    compacted = {"discharges.masked": {"cleanup.policy": "compact"}}
    assert "records without a key will be rejected" in "".join(rejection_risks(compacted, OUTPUTS))
    week = {"message.timestamp.type": "CreateTime", "message.timestamp.before.max.ms": "604800000"}
    (risk,) = rejection_risks({"discharges.masked": week}, OUTPUTS)
    assert "message.timestamp.before.max.ms=604800000: older records will be rejected" in risk
    defaults = {**week, "message.timestamp.before.max.ms": str(2**63 - 1), "cleanup.policy": "delete"}
    for harmless in (defaults, {**week, "message.timestamp.type": "LogAppendTime"}):
        assert list(rejection_risks({"discharges.masked": harmless}, OUTPUTS)) == []
