"""The statistics that the worker masks with: the newest published version that fits its configuration."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

from stream_masker.errors import StatisticsError
from stream_masker.pipeline.messages import SealError, StatisticsMessage, TopicSeal, decode_statistics, number_of
from stream_masker.pipeline.versions import put_in_force
from stream_masker.service.kafka.reader import READ_MESSAGES, SINGLE_PARTITION
from stream_masker.service.masking import Masking
from stream_masker.service.observability.logs import describe
from stream_masker.summary import guessed_line

log = logging.getLogger(__name__)

KEPT_VERSIONS = 4
"""The number of newest versions that are kept until the end of the topic is reached: an earlier one is used if the
newest one does not fit."""


class Versions:
    """The authentic versions among messages of the statistics topic, by number. A tombstone removes one.

    ``on_refused`` is called with the cause of each message that is not authentic, which changes nothing: even its
    number cannot be trusted. ``most``: the number of newest versions that are kept.
    """

    def __init__(
        self, seal: TopicSeal, on_refused: Callable[[str], None] = lambda _: None, most: float = math.inf
    ) -> None:
        self._seal, self._on_refused, self._most = seal, on_refused, most
        self.found: dict[int, bytes] = {}

    def add(self, key: bytes | None, value: bytes | None) -> None:
        """Add a message. One whose key is not a version is ignored."""
        if (version := number_of(key)) is None:
            return
        if value is None:
            self.found.pop(version, None)
            return
        try:
            self.found[version] = self._seal.open(key, value)
        except SealError as error:
            log.warning("refused a message on %s: %s", self._seal.topic, error)
            self._on_refused(error.cause)
        if len(self.found) > self._most:
            del self.found[min(self.found)]

    def take(self) -> list[tuple[int, bytes]]:
        """Remove and return the versions with their messages, newest first."""
        found, self.found = self.found, {}
        return sorted(found.items(), reverse=True)


class ActiveStatistics:
    """The version that the worker masks with, which it reads from the statistics topic without a consumer group.

    ``version`` is 0 while there is none. A version that does not fit is refused, and the earlier one stays active. A
    version for another masking secret ends the earlier one too: two workers with different secrets would give a person
    two pseudonyms. A message that is not authentic changes nothing; ``on_refused`` is called with its cause.
    """

    def __init__(
        self,
        connect: Callable[[Callable[[], object]], Consumer],
        masking: Masking,
        seal: TopicSeal,
        *,
        secret_id: str,
        on_refused: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Read the topic of ``seal``. ``connect``: makes a consumer from what it calls if it has lost the brokers."""
        self._connect, self.masking, self._secret_id, self._on_refused = connect, masking, secret_id, on_refused
        self._is_lost = threading.Event()
        self.version = self._newest = self._published = self.refusals = 0
        self.refused: str | None = None
        self._unauthentic: str | None = None
        self._told = self._is_read = False
        self._topic, self._versions = seal.topic, Versions(seal, self._refuse, most=KEPT_VERSIONS)
        self._open()

    def _open(self) -> None:
        """Read the topic from its beginning with a new consumer. The version in force stays so meanwhile."""
        self._is_lost.clear()
        self._client = self._connect(self._is_lost.set)
        self._client.assign([TopicPartition(self._topic, SINGLE_PARTITION, OFFSET_BEGINNING)])

    def poll(self) -> None:
        """Activate a new version if one has come. Never waits, and reads few messages: a topic may be full of them."""
        if self._is_lost.is_set():
            self.close()
            self._open()
        for message in self._client.consume(READ_MESSAGES, 0):
            error = message.error()
            if error is None:
                self._versions.add(message.key(), message.value())
            elif error.code() == KafkaError._PARTITION_EOF:
                self._is_read = True
            else:
                log.warning("reading the statistics: %s", describe(KafkaException(error)))
        if self._is_read and self._versions.found:
            self.consider(self._versions.take())

    @property
    def age(self) -> float:
        """The seconds since the version in use was published; 0 if there is none."""
        return max(0.0, time.time() - self._published / 1000) if self.version else 0.0

    @property
    def problem(self) -> str | None:
        """Why the newest version is not in use; None if it is, or if none is published."""
        if not self._is_read:
            return "reading the statistics topic"
        if self.refused is None and self._unauthentic is not None and not self.version:
            return f"messages were refused as {SealError(self._unauthentic)}"
        return self.refused

    def close(self) -> None:
        """Close the consumer."""
        self._client.close()

    def consider(self, found: list[tuple[int, bytes]]) -> None:
        """Activate the newest version that fits; ``found``: versions with their messages, newest first."""
        for version, value in found:
            if version <= self._newest:
                return
            try:
                message = decode_statistics(value)
                self._check_secret(message)
                put_in_force(message, self.masking.mechanism)
            except Exception as error:  # noqa: BLE001 - a defective version must not end every worker
                self.refused, self.refusals = f"version {version} was refused: {describe(error)}", self.refusals + 1
                log.warning("statistics %s", self.refused)
            else:
                self._tell(message)
                self.version = self._newest = version
                self._published, self.refused = message.published, None
                return

    def _check_secret(self, message: StatisticsMessage) -> None:
        """Raise StatisticsError for a version for another masking secret: it ends the one in force, and older ones."""
        given, own = message.secret_id, self._secret_id
        if given != own:
            self.version, self._newest = 0, message.version
            raise StatisticsError(f"it is for the masking secret with the id {given}, and this process has {own}")

    def _tell(self, message: StatisticsMessage) -> None:
        """Log a version that comes into force. The first one also logs how often codes are guessed; if it was published
        without the counts of its window, which tell it, so does the first one that has them.
        """
        other = message.configuration != self.masking.plan.configuration
        remark = f", computed under another configuration ({message.configuration})" if other else ""
        log.info("statistics version %d in force%s", message.version, remark)
        if not self._told and (message.guessed is not None or not self.version):
            self._told = message.guessed is not None
            log.info(guessed_line(message.guessed or {}, unknown="not known yet, a later version states it"))

    def _refuse(self, cause: str) -> None:
        self._unauthentic = cause
        self._on_refused(cause)
