"""The consumer of the statistics topic, and the statistics that the worker masks with.

``StatisticsConsumer`` reads the topic and collects versions in a ``VersionBuffer``; ``ActiveStatistics`` activates the
newest version that fits the worker's configuration.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

from stream_masker.errors import StatisticsError
from stream_masker.pipeline.messages import StatisticsMessage, decode_statistics, fingerprints
from stream_masker.pipeline.seal import RefusalCause, SealError
from stream_masker.pipeline.versions import MAX_VERSION_JUMP, is_jump
from stream_masker.service.kafka.messages import MessageOpener, bytes_of
from stream_masker.service.kafka.topic_reader import READ_MESSAGES
from stream_masker.service.masking import Masking
from stream_masker.service.observability.logs import describe
from stream_masker.summary import three_sentences

log = logging.getLogger(__name__)

BUFFERED_VERSIONS = 16
"""The maximum number of buffered versions: a topic may hold many, and only the newest ones matter."""

BUFFERED_BYTES = 256 * 1024 * 1024
"""The maximum size of the buffered versions in bytes. A single version may exceed it."""

TURN_MESSAGES = 20_000
"""The number of messages that are read in one turn of the worker, about: a topic may be full of messages of others."""

TURN_BYTES = 64 * 1024 * 1024
"""The size of the messages that are read in one turn, about."""


@dataclass(frozen=True, slots=True, order=True)
class PublishedVersion:
    """A version number and the encoded statistics message, in one piece."""

    version: int
    value: bytes


class VersionBuffer:
    """Keeps the newest versions from the messages of the topic. A tombstone removes a version.

    A message that is not authentic changes nothing; ``on_refused`` is called with the cause.
    The oldest versions are dropped when there are more than ``BUFFERED_VERSIONS``, or when two or more exceed
    ``BUFFERED_BYTES``.
    """

    def __init__(self, opener: MessageOpener, on_refused: Callable[[RefusalCause], None] = lambda _: None) -> None:
        self._opener = opener
        self._on_refused = on_refused
        self._versions: dict[int, bytes] = {}
        self._ignored = 0

    def add(self, key: bytes | None, value: bytes | None) -> None:
        """Add a message. Messages whose key is not a version are ignored, and the first one is logged."""
        if not (key or b"").isdigit():
            self._ignore()
            return
        version = int(key or b"")
        try:
            if value is None:
                self._versions.pop(version, None)
            else:
                self._versions[version] = self._opener.open(key, value)
        except SealError as error:
            self._on_refused(error.cause)
        self._drop_oldest()

    def _ignore(self) -> None:
        self._ignored += 1
        if self._ignored == 1:
            log.warning("statistics topic: ignoring messages without a version as their key")

    def take(self) -> list[PublishedVersion]:
        """Remove and return the versions, newest first."""
        taken, self._versions = self._versions, {}
        return [PublishedVersion(version, taken[version]) for version in sorted(taken, reverse=True)]

    def _drop_oldest(self) -> None:
        while len(self._versions) > BUFFERED_VERSIONS or (len(self._versions) > 1 and self._size > BUFFERED_BYTES):
            del self._versions[min(self._versions)]

    @property
    def _size(self) -> int:
        return sum(map(len, self._versions.values()))


class StatisticsConsumer:
    """Reads a topic from its beginning, without a consumer group. ``partitions``: the topic's number of partitions.

    ``on_refused`` is called with the cause of each message that is not authentic.
    """

    def __init__(
        self,
        *,
        client: Consumer,
        topic: str,
        partitions: int,
        opener: MessageOpener,
        on_refused: Callable[[RefusalCause], None] = lambda _: None,
    ) -> None:
        self._client = client
        self._topic = topic
        self._partitions = partitions
        self._new_buffer = partial(VersionBuffer, opener, on_refused)
        self.start_again()

    def start_again(self) -> None:
        """Read the topic from its beginning, and forget what has been read of an earlier topic of the same name."""
        self._unread = set(range(self._partitions))
        self._buffer = self._new_buffer()
        self._client.assign([TopicPartition(self._topic, p, OFFSET_BEGINNING) for p in range(self._partitions)])

    @property
    def at_end(self) -> bool:
        """Whether every partition has been read to its end at least once."""
        return not self._unread

    def poll(self) -> list[PublishedVersion]:
        """Return new versions, newest first; none until the end of the topic has been reached once. Never waits.

        A turn reads at most about ``TURN_MESSAGES`` messages and ``TURN_BYTES``; the next one reads on.
        """
        read = size = 0
        while read < TURN_MESSAGES and size < TURN_BYTES and (messages := self._client.consume(READ_MESSAGES, 0)):
            read += len(messages)
            size += bytes_of(messages)
            for message in messages:
                self._handle(message)
        return self._buffer.take() if self.at_end else []

    def close(self) -> None:
        self._client.close()

    def _handle(self, message: Any) -> None:
        error = message.error()
        if error is None:
            self._buffer.add(message.key(), message.value())
        elif error.code() == KafkaError._PARTITION_EOF:
            self._unread.discard(message.partition())
        else:
            log.warning("reading %s: %s", self._topic, error.str())


class ActiveStatistics:
    """The statistics that the worker masks with: the newest published version that fits its configuration.

    A version that does not fit is refused, and the earlier one stays active. ``version`` is 0 while there is none. A
    version for another masking secret (``other_secret``) ends the earlier one too: two workers with different secrets
    would give a person two pseudonyms.
    """

    def __init__(self, masking: Masking, secret_id: str | None = None) -> None:
        """``masking``: built from the configuration of this process, without statistics. ``secret_id``: of its secret,
        None if versions for other secrets are accepted too."""
        self._own = masking
        self._secret_id = secret_id
        self.other_secret = False
        self.masking = masking
        self.version = 0
        self._least = 0
        self.published = 0
        self.refused: str | None = None
        self.refusals = 0

    def identify(self, identities: Mapping[str, str]) -> None:
        """Set the ids of input topics (``Masking.identify``)."""
        for topic, identity in identities.items():
            self._own.identify(topic, identity)
            self.masking.identify(topic, identity)

    def begin_again(self) -> None:
        """Accept any version of a topic that was created anew; until then, the one in force stays."""
        self._least = 0

    def consider(self, published: Iterable[PublishedVersion]) -> bool:
        """Activate the newest version that fits; ``published``: newest first. Return whether one was activated."""
        candidates = list(published)
        older = [candidate.version for candidate in candidates[1:]] + [0]
        for candidate, next_older in zip(candidates, older, strict=False):
            if candidate.version <= self._least:
                return False
            if self._accept(candidate, self._least or next_older):
                return True
            if self.other_secret:
                return False
        return False

    def _accept(self, candidate: PublishedVersion, newest: int) -> bool:
        """Activate a version if it fits; ``newest``: the newest version before it, 0 if none is known."""
        try:
            message = decode_statistics(candidate.value)
            self._check(candidate, message, newest)
            self._own.restore(message)
        except Exception as error:  # noqa: BLE001 - a defective version must not end every worker
            return self._refuse(candidate, error)
        first = not self._least
        self.version = self._least = message.version
        self.published, self.refused = message.published, None
        log.info("statistics version %d in force%s", message.version, self._remark(message))
        if first:
            log.info("statistics version %d: %s", message.version, " ".join(self._sentences()))
        return True

    def _sentences(self) -> tuple[str, str, str]:
        """Return what is known of the masks in a process that does not have the counts of the window."""
        mechanism, configuration = self.masking.mechanism, self.masking.configuration
        return three_sentences(
            mechanism.expected_risk(),
            promise=mechanism.promise,
            preserves=mechanism.method_card.preserves,
            incomplete=configuration.may_lack_codes,
        )

    def _refuse(self, candidate: PublishedVersion, error: Exception) -> bool:
        self.refused = f"version {candidate.version} was refused: {describe(error)}"
        self.refusals += 1
        log.error("statistics %s", self.refused)
        return False

    def _check(self, candidate: PublishedVersion, message: StatisticsMessage, newest: int) -> None:
        if candidate.version != message.version or message.statistics.version != message.version:
            raise StatisticsError("the versions of the key, of the message and of its snapshot differ")
        if is_jump(message.version, newest, message.baseline):
            raise StatisticsError(f"it is more than {MAX_VERSION_JUMP:,} versions above version {newest}")
        self._check_secret(message)
        name = self._own.mechanism.name
        if message.mechanism != name:
            raise StatisticsError(f"it is of the mechanism {message.mechanism}, not {name}")
        if names := _differing(message.taxonomies, fingerprints(self._own.taxonomies)):
            raise StatisticsError(f"it was computed over another taxonomy of {', '.join(names)}")

    def _check_secret(self, message: StatisticsMessage) -> None:
        """End the version in force if this one is for another masking secret. Raises StatisticsError then."""
        expected, given = self._secret_id, message.secret_id
        self.other_secret = None not in (expected, given) and expected != given
        if self.other_secret:
            self.version = 0
            raise StatisticsError(f"it is for the masking secret with the id {given}, and this process has {expected}")

    def _remark(self, message: StatisticsMessage) -> str:
        """Return a remark for the log if the version was computed under another configuration."""
        same = message.configuration == self.masking.configuration.hash
        return "" if same else f", computed under another configuration ({message.configuration})"


def _differing(first: Mapping[str, str], second: Mapping[str, str]) -> list[str]:
    """Return the names whose values differ, or that only one of the two has."""
    return sorted(name for name in first.keys() | second.keys() if first.get(name) != second.get(name))
