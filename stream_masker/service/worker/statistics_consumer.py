"""The workers' view of the statistics topic: read to its end, followed, and the newest usable version put in force."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from confluent_kafka import OFFSET_BEGINNING, KafkaError, TopicPartition

from stream_masker.errors import ConfigurationError, StatisticsError, StreamMaskerError
from stream_masker.pipeline.wire.chunks import ChunkAssembler, Versions, chunk_position
from stream_masker.pipeline.wire.messages import StatisticsMessage, decode_statistics, fingerprints
from stream_masker.service.masking import Masking

log = logging.getLogger(__name__)

BUFFERED_VERSIONS = 16
"""Versions remembered at most while reading to the topic's end: there are many, and the newest ones decide."""

BUFFERED_BYTES = 256 * 1024 * 1024
"""And bytes of them, unless there is only one."""

READ_MESSAGES = 100


class StatisticsClient(Protocol):
    """What is used of ``confluent_kafka.Consumer``."""

    def assign(self, partitions: list[TopicPartition]) -> None: ...
    def consume(self, num_messages: int, timeout: float) -> list[Any]: ...
    def close(self) -> None: ...


@dataclass(frozen=True, slots=True, order=True)
class PublishedVersion:
    """A version as it stands on the topic."""

    version: int
    value: bytes


class VersionBuffer:
    """The newest versions offered and not yet taken, each as a whole or not at all. A tombstone takes a version back.

    Of more than ``BUFFERED_VERSIONS`` versions, or of more than one and ``BUFFERED_BYTES``, the oldest are forgotten.
    """

    def __init__(self) -> None:
        self._versions = Versions()
        self._told: set[int] = set()

    def offer(self, key: bytes | None, value: bytes | None) -> None:
        """Takes a message; one whose key is no version is no statistics message, and is logged."""
        found = chunk_position(key)
        if found is None:
            log.warning("statistics topic: a message without a version as its key is left out")
            return
        self._versions.take(*found, value)
        self._forget_oldest()

    def take(self) -> list[PublishedVersion]:
        """What has been offered since the last time, newest first; what is not complete yet waits for the rest."""
        complete = [version for version in sorted(self._versions, reverse=True) if self._is_complete(version)]
        taken = [(version, self._whole(version, self._versions.pop(version))) for version in complete]
        return [PublishedVersion(version, value) for version, value in taken if value is not None]

    def _is_complete(self, version: int) -> bool:
        pieces = self._versions[version]
        complete = pieces.complete
        if not complete and pieces.head is not None and version not in self._told:
            self._told.add(version)
            log.warning("statistics version %d is not complete: it is left out until its other parts come", version)
        return complete

    def _whole(self, version: int, pieces: ChunkAssembler) -> bytes | None:
        try:
            return pieces.message()
        except StatisticsError as error:
            log.warning("statistics version %d is left out: %s", version, error)
            return None

    def _forget_oldest(self) -> None:
        while len(self._versions) > BUFFERED_VERSIONS or (len(self._versions) > 1 and self._size > BUFFERED_BYTES):
            del self._versions[min(self._versions)]

    @property
    def _size(self) -> int:
        return sum(pieces.size for pieces in self._versions.values())


class StatisticsConsumer:
    """Follows a topic from its beginning without being in any group. ``partitions``: how many the topic has."""

    def __init__(self, *, client: StatisticsClient, topic: str, partitions: int) -> None:
        self._client = client
        self._topic = topic
        self._unread = set(range(partitions))
        self._newest = VersionBuffer()
        client.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in range(partitions)])

    @property
    def at_end(self) -> bool:
        """Whether every partition has been read to its end at least once."""
        return not self._unread

    def poll(self) -> list[PublishedVersion]:
        """New versions, newest first; none before the end has been reached for the first time. Never waits."""
        while messages := self._client.consume(READ_MESSAGES, 0):
            for message in messages:
                self._take(message)
        return self._newest.take() if self.at_end else []

    def close(self) -> None:
        """Lets the client go."""
        self._client.close()

    def _take(self, message: Any) -> None:
        error = message.error()
        if error is None:
            self._newest.offer(message.key(), message.value())
        elif error.code() == KafkaError._PARTITION_EOF:
            self._unread.discard(message.partition())
        else:
            log.warning("reading %s: %s", self._topic, error.str())


class ActiveStatistics:
    """What masks, by the newest published version that fits, never an older one.

    A version that does not fit is refused and the earlier one stays in force; with none, nothing can be masked. A
    version may bring other settings: then ``masking`` is another object, made before anything changes.
    """

    def __init__(self, masking: Masking) -> None:
        """``masking``: that of this process's own configuration, without statistics."""
        self._own = masking
        self.masking = masking
        self.version = 0
        self.published = 0
        self.refused: str | None = None
        self.refusals = 0

    def consider(self, published: Iterable[PublishedVersion]) -> bool:
        """Puts the newest version that fits in force; ``published``: newest first. Says whether that was any."""
        for candidate in published:
            if candidate.version <= self.version:
                return False
            if self._accepted(candidate):
                return True
        return False

    def _accepted(self, candidate: PublishedVersion) -> bool:
        try:
            message = decode_statistics(candidate.value)
            self._check(candidate, message)
            masking = self._under(message.settings)
            masking.mechanism.restore(message.snapshot)
        except (ConfigurationError, StatisticsError) as error:
            return self._refuse(candidate, error)
        self.version, self.published, self.refused = message.version, message.published, None
        self.masking = masking
        log.info("statistics version %d in force%s", message.version, self._remark(message))
        return True

    def _under(self, settings: Mapping[str, Any] | None) -> Masking:
        """What masks under a version's settings: the present object as long as they are the same."""
        return self.masking.under(settings) if settings is not None else self._own

    def _refuse(self, candidate: PublishedVersion, error: StreamMaskerError) -> bool:
        self.refused = f"version {candidate.version} was refused: {error}"
        self.refusals += 1
        log.error("statistics %s", self.refused)
        return False

    def _check(self, candidate: PublishedVersion, message: StatisticsMessage) -> None:
        if candidate.version != message.version or message.statistics.version != message.version:
            raise StatisticsError("the message's key, its version and its snapshot's version are not the same")
        name = self._own.mechanism.name
        if message.mechanism != name:
            raise StatisticsError(f"it is of the mechanism {message.mechanism}, not {name}")
        if other := _differing(message.taxonomies, fingerprints(self._own.taxonomies)):
            raise StatisticsError(f"it was computed over another taxonomy of {', '.join(other)}")

    def _remark(self, message: StatisticsMessage) -> str:
        hashed = self.masking.configuration.hash
        if message.configuration != hashed:
            return f", computed under another configuration ({message.configuration})"
        return "" if hashed == self._own.configuration.hash else f", with its settings (configuration {hashed})"


def _differing(these: Mapping[str, str], those: Mapping[str, str]) -> list[str]:
    """The names that the two do not hold with the same value."""
    return sorted(name for name in these.keys() | those.keys() if these.get(name) != those.get(name))
