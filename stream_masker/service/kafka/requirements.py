"""What each topic must be: the settings of new ones, and the problems of existing ones with their remedies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from stream_masker.errors import ParameterError
from stream_masker.service.configuration.model import Configuration
from stream_masker.service.kafka.clients import MAX_VERSION_BYTES, PRODUCER_BYTES

DEFAULT_PARTITIONS: Final = 4
WEEK_MS: Final = 7 * 24 * 3600 * 1000
MAX_BLOCK_BYTES: Final = 8 * 1024 * 1024
"""The size that a new calibration topic allows for a block."""

CLEANUP, RETENTION, MESSAGE_BYTES, COMPRESSION = (
    "cleanup.policy",
    "retention.ms",
    "max.message.bytes",
    "compression.type",
)
SETTINGS: Final = dict.fromkeys((CLEANUP, RETENTION, MESSAGE_BYTES, COMPRESSION))
"""The settings that are looked at."""

NO_TOPICS: Mapping[str, int] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class ExistingTopic:
    """A topic on the broker: its number of partitions, and its settings by name."""

    partitions: int
    settings: Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class RequiredTopic:
    """A topic that the configuration needs.

    ``partitions``: of a new topic; an existing one has as many or more, and exactly one if it is the calibration topic.
    ``settings``: of a new topic. An existing one needs its ``cleanup.policy`` if that is given here, and keeps and
    takes at least ``kept_ms`` and ``message_bytes``.
    """

    role: str
    name: str
    partitions: int
    settings: Mapping[str, str]
    kept_ms: int = 0
    message_bytes: int = 0

    def problems(self, existing: ExistingTopic) -> Iterator[str]:
        """Yield the problems of an existing topic of this name, each with its remedy."""
        found, settings = existing.partitions, existing.settings
        if self.role == "calibration" and found != 1:
            yield f"{found} partitions instead of 1: delete the topic, or use another name in topics.calibration"
        if self.role == "output" and found < self.partitions:
            remedy = f"kafka-topics.sh --alter --topic {self.name} --partitions {self.partitions}"
            yield f"{found} partitions, fewer than the {self.partitions} of the input: {remedy}"
        if (policy := settings.get(CLEANUP)) and self.settings.get(CLEANUP, policy) != policy:
            yield self._change(CLEANUP, policy, self.settings[CLEANUP])
        if 0 <= int(settings.get(RETENTION) or -1) < self.kept_ms:
            yield self._change(RETENTION, settings[RETENTION], self.kept_ms)
        if int(settings.get(MESSAGE_BYTES) or self.message_bytes) < self.message_bytes:
            yield self._change(MESSAGE_BYTES, settings[MESSAGE_BYTES], self.message_bytes)

    def advice(self, existing: ExistingTopic) -> str:
        """Return what should be changed in a topic without problems; empty if nothing should.

        An input is stored uncompressed, so that the broker refuses a batch of some kilobytes that would take gigabytes
        when a worker decompresses it.
        """
        given = existing.settings.get(COMPRESSION)
        if given is None or self.settings.get(COMPRESSION, given) == given:
            return ""
        reason = "a producer can send some kilobytes that take more memory than the worker has when decompressed: "
        return self._change(COMPRESSION, given, self.settings[COMPRESSION], reason)

    def _change(self, name: str, found: str | None, needed: object, reason: str = "") -> str:
        command = f"kafka-configs.sh --alter --entity-type topics --entity-name {self.name}"
        return f"{name}={found}: {reason}{command} --add-config {name}={needed}"


def required_topics(
    configuration: Configuration, *, partitions: int = DEFAULT_PARTITIONS, existing: Mapping[str, int] = NO_TOPICS
) -> tuple[RequiredTopic, ...]:
    """Return the topics of a configuration.

    ``existing``: the numbers of partitions of existing topics. ``partitions``: that of a new input. The output
    may be compacted unless its records have no keys; rejections have none. The calibration topic keeps blocks at least
    twice as long as the window.
    """
    if partitions < 1:
        raise ParameterError(f"partitions must be at least 1, not {partitions}")
    names, kept = configuration.topics, round(2_000 * configuration.calibration.window_age)
    written = int(configuration.kafka.properties.get("message.max.bytes", PRODUCER_BYTES))
    output = {MESSAGE_BYTES: str(max(masked_bytes(configuration), written))}
    delete, compact = {CLEANUP: "delete"}, {CLEANUP: "compact", MESSAGE_BYTES: str(MAX_VERSION_BYTES)}
    output |= delete if configuration.message.key == "drop" else {}
    rejected = {**delete, MESSAGE_BYTES: str(written)}
    blocks = {**delete, RETENTION: str(max(kept, WEEK_MS)), MESSAGE_BYTES: str(max(MAX_BLOCK_BYTES, written))}
    count = existing.get(names.input, partitions)
    return (
        RequiredTopic("input", names.input, count, {COMPRESSION: "uncompressed"}),
        RequiredTopic("output", names.output, count, output, message_bytes=written),
        RequiredTopic("rejected", names.rejected, count, rejected, message_bytes=written),
        RequiredTopic("calibration", names.calibration, 1, blocks, kept, written),
        RequiredTopic("statistics", names.statistics, 1, compact),
        RequiredTopic("drift", names.drift, 1, delete),
    )


def masked_bytes(configuration: Configuration) -> int:
    """Return the maximum size of a masked record in bytes: labels may double its length, plus headers."""
    return 2 * configuration.limits.record_bytes + 65_536
