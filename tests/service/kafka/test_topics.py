"""Required topics, and the checks of existing ones."""

from __future__ import annotations

import pytest
from support.small_configuration import small_configuration

from stream_masker.service.configuration import Configuration, parse_configuration
from stream_masker.service.kafka.clients import MAX_VERSION_BYTES, PRODUCER_BYTES
from stream_masker.service.kafka.topics import ExistingTopic, required_topics


def configured(**sections: object) -> Configuration:
    return parse_configuration(small_configuration("principal", **{"mechanism": {"reference": "mean"}, **sections}))


def existing(
    partitions: int = 1, cleanup: str = "delete", retention_ms: int = 604_800_000, **settings: str
) -> ExistingTopic:
    given = {name.replace("_", "."): value for name, value in settings.items()}
    defaults = {"max.message.bytes": "1048588", "compression.type": "uncompressed"}
    own = {"cleanup.policy": cleanup, "retention.ms": str(retention_ms)}
    return ExistingTopic(partitions, {**defaults, **own, **given})


def status(role: str, existing: ExistingTopic, configuration: Configuration | None = None) -> tuple[str, str]:
    configuration = configuration or configured()
    [line] = [topic.check(existing) for topic in required_topics(configuration, partitions=4) if topic.role == role]
    return line.status, line.detail


def test_every_topic_is_required_once_with_its_cleanup_policy_and_partitions() -> None:
    configuration = configured(topics={"output": "elsewhere"})
    required = {topic.role: topic for topic in required_topics(configuration, partitions=6)}
    assert {role: topic.name for role, topic in required.items()} == configuration.topics.model_dump()
    partitions = {"input": 6, "output": 6, "rejected": 6, "calibration": 1, "statistics": 1, "drift": 1}
    assert {role: topic.partitions for role, topic in required.items()} == partitions
    assert required["statistics"].settings == {"cleanup.policy": "compact", "max.message.bytes": str(MAX_VERSION_BYTES)}
    assert required["calibration"].settings["cleanup.policy"] == "delete"
    assert required["drift"].settings == {"cleanup.policy": "delete"}
    assert required["input"].settings == {"compression.type": "uncompressed"}


@pytest.mark.parametrize("compression", ["producer", "zstd"])
def test_an_input_that_may_be_compressed_is_named_with_the_reason_and_the_remedy(compression: str) -> None:
    kind, detail = status("input", existing(4, compression_type=compression))
    assert kind == "exists", "nothing else depends on it"
    assert f"compression.type={compression}: a producer can send some kilobytes that take more memory" in detail
    assert detail.endswith("--entity-name discharges --add-config compression.type=uncompressed")
    assert "compression" not in status("input", existing(4))[1]
    assert "compression" not in status("output", existing(4, compression_type=compression))[1]


@pytest.mark.parametrize(("age", "kept"), [("24h", 7 * 86_400_000), ("30d", 60 * 86_400_000)])
def test_blocks_are_retained_for_two_windows_and_a_week(age: str, kept: int) -> None:
    required = required_topics(configured(calibration={"window_age": age}))
    assert next(t for t in required if t.role == "calibration").settings["retention.ms"] == str(kept)


@pytest.mark.parametrize("properties", [{}, {"message.max.bytes": 200_000}, {"message.max.bytes": 5_000_000}])
@pytest.mark.parametrize("record_bytes", [1_000, 100_000, 2_000_000])
def test_the_topics_that_are_created_are_accepted(record_bytes: int, properties: dict[str, int]) -> None:
    """A new output takes masked records, which may be longer, and the largest batch of the worker's producer."""
    configuration = configured(limits={"record_bytes": record_bytes}, kafka={"properties": properties})
    required = {topic.role: topic for topic in required_topics(configuration)}
    for topic in required.values():
        assert topic.check(ExistingTopic(topic.partitions, topic.settings)).status == "exists"
    largest = int(required["output"].settings["max.message.bytes"])
    assert largest >= properties.get("message.max.bytes", PRODUCER_BYTES)
    assert largest > 2 * record_bytes


@pytest.mark.parametrize(
    ("role", "existing", "advice"),
    [
        ("input", existing(9, "compact"), None),
        ("output", existing(4), None),
        ("output", existing(9), None),
        ("output", existing(4, "compact"), None),
        ("calibration", existing(), None),
        ("calibration", existing(retention_ms=-1), None),
        ("calibration", existing(retention_ms=2 * 86_400_000), None),
        ("statistics", existing(3, "compact"), None),
        ("drift", existing(2), None),
        ("output", existing(3), "--partitions 4"),
        ("rejected", existing(3), "--partitions 4"),
        ("calibration", existing(4), "topics.calibration"),
        ("calibration", existing(cleanup="compact"), "cleanup.policy=delete"),
        ("calibration", existing(cleanup="compact,delete"), "cleanup.policy=delete"),
        ("calibration", existing(retention_ms=2 * 86_400_000 - 1), "retention.ms=172800000"),
        ("statistics", existing(), "cleanup.policy=compact"),
        ("rejected", existing(4, "compact"), "cleanup.policy=delete"),
        ("drift", existing(cleanup="compact"), "cleanup.policy=delete"),
        ("output", existing(4, max_message_bytes="265536"), "max.message.bytes=1000000"),
        ("rejected", existing(4, max_message_bytes="265536"), "max.message.bytes=1000000"),
    ],
)
def test_topics_are_accepted_or_have_a_remedy(role: str, existing: ExistingTopic, advice: str | None) -> None:
    kind, detail = status(role, existing)
    assert kind == ("exists" if advice is None else "wrong")
    assert (advice or "") in detail
