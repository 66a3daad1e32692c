"""What each topic must be: the rules for existing topics, and the settings of new ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from stream_masker.service.configuration.model import Configuration
from stream_masker.service.kafka.failures import COMPRESSION_TYPE, UNCOMPRESSED, alter_command, compression_advice

CLEANUP, RETENTION, MESSAGE_BYTES = "cleanup.policy", "retention.ms", "max.message.bytes"
IN_SYNC: Final = "min.insync.replicas"
SETTINGS: Final = (CLEANUP, RETENTION, MESSAGE_BYTES, IN_SYNC, COMPRESSION_TYPE)
"""The settings that rules are about."""

WEEK_MS: Final = 7 * 24 * 3600 * 1000
MAX_BLOCK_BYTES: Final = 8 * 1024 * 1024
"""The size that a new calibration topic allows for a block."""

MAX_VERSION_BYTES: Final = 64 * 1024 * 1024
"""The size that a new statistics topic allows for a version, which is one message."""

PRODUCER_BYTES: Final = 1_000_000
"""librdkafka's default of ``message.max.bytes``: the maximum size of a message, and of a batch of messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRule:
    """The rule of a role.

    partitions: of the topic, None for any number from that of the input on, if follows_input, or from 1 on; cleanup:
    the policy, None for any; retention_ms: the least time that records are kept; message_bytes: the least size of a
    message that the topic must allow; settings: of a new topic.
    """

    partitions: int | None = None
    follows_input: bool = False
    cleanup: str | None = None
    retention_ms: int = 0
    message_bytes: int = 0
    settings: Mapping[str, str] = field(default_factory=dict)

    def problems(self, name: str, settings: Mapping[str, str | None], replicas: int | None = None) -> list[str]:
        """Return what is wrong with the settings of a topic of this name, each with its remedy.

        settings: those that are known, by name; replicas: the topic's replication factor, None if it is not known.
        """
        found = []
        if self.cleanup not in (None, policy := settings.get(CLEANUP) or self.cleanup):
            found.append(f"{CLEANUP}={policy}: {alter_command(name, CLEANUP, self.cleanup)}")
        kept = int(settings.get(RETENTION) or -1)
        if 0 <= kept < self.retention_ms:
            found.append(f"{RETENTION}={kept}: {alter_command(name, RETENTION, self.retention_ms)}")
        largest = int(settings.get(MESSAGE_BYTES) or self.message_bytes)
        if largest < self.message_bytes:
            remedy = alter_command(name, MESSAGE_BYTES, self.message_bytes)
            found.append(
                f"{MESSAGE_BYTES}={largest}, less than the {self.message_bytes} of the producer: {remedy}, or set "
                "message.max.bytes in kafka.properties"
            )
        in_sync = int(settings.get(IN_SYNC) or 1)
        if replicas is not None and in_sync > replicas:
            found.append(
                f"{IN_SYNC}={in_sync}, more than its {replicas} replicas, so that nothing can be written: "
                f"{alter_command(name, IN_SYNC, replicas)}"
            )
        return found

    def partition_problem(self, role: str, name: str, partitions: int, inputs: int) -> str:
        """Return what is wrong with the number of partitions; empty if nothing is. inputs: the partitions of the
        input."""
        if self.partitions is not None and partitions != self.partitions:
            return (
                f"{partitions} partitions instead of exactly {self.partitions}: "
                f"delete the topic, or use another name in topics.{role}"
            )
        if self.follows_input and partitions < inputs:
            return (
                f"{partitions} partitions, fewer than the {inputs} of the input: "
                f"kafka-topics.sh --alter --topic {name} --partitions {inputs}"
            )
        return ""

    def advice(self, name: str, settings: Mapping[str, str | None]) -> str:
        """Return what should be changed in a topic that meets the rule; empty if nothing should."""
        compression = settings.get(COMPRESSION_TYPE)
        if compression is None or self.settings.get(COMPRESSION_TYPE, compression) == compression:
            return ""
        return compression_advice(name, compression)


def topic_rules(configuration: Configuration) -> dict[str, TopicRule]:
    """Return the rules of a configuration's topics by role.

    A masked record keeps its partition and may be twice as long as the input, because of labels. The output may be
    compacted unless its records have no keys; rejections have none. The calibration topic has one partition, whose
    order is the order of the window, and keeps blocks at least twice as long as the window. A new input is not
    compressed.
    """
    kept = round(2_000 * configuration.calibration.window_age)
    written = int(configuration.kafka.properties.get("message.max.bytes", PRODUCER_BYTES))
    output_bytes = max(masked_bytes(configuration), written)
    blocks = {CLEANUP: "delete", RETENTION: str(max(kept, WEEK_MS)), MESSAGE_BYTES: str(max(MAX_BLOCK_BYTES, written))}
    versions = {CLEANUP: "compact", MESSAGE_BYTES: str(MAX_VERSION_BYTES)}
    return {
        "input": TopicRule(settings={COMPRESSION_TYPE: UNCOMPRESSED}),
        "output": TopicRule(
            follows_input=True,
            cleanup="delete" if configuration.message.key == "drop" else None,
            message_bytes=written,
            settings={MESSAGE_BYTES: str(output_bytes)},
        ),
        "rejected": TopicRule(cleanup="delete", message_bytes=written, settings={MESSAGE_BYTES: str(written)}),
        "calibration": TopicRule(
            partitions=1, cleanup="delete", retention_ms=kept, message_bytes=written, settings=blocks
        ),
        "statistics": TopicRule(cleanup="compact", settings=versions),
        "drift": TopicRule(cleanup="delete", settings={CLEANUP: "delete"}),
    }


def masked_bytes(configuration: Configuration) -> int:
    """Return the maximum size of a masked record in bytes: labels may double its length, plus headers."""
    return 2 * configuration.limits.record_bytes + 65_536
