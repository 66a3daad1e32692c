"""Messages as Kafka's client returns and sends them, their partitions, and the opening of sealed ones."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import chain, compress
from operator import methodcaller
from typing import Any, NamedTuple, Protocol, TypeAlias

from confluent_kafka import KafkaError, TopicPartition

from stream_masker.pipeline.records import Header, Result
from stream_masker.pipeline.seal import RefusalCause, SealError, TopicSeal


class Partition(NamedTuple):
    """A partition of a topic."""

    topic: str
    number: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.number}"


def partitions_of(partitions: Iterable[TopicPartition]) -> set[Partition]:
    """Return the partitions that a client names."""
    return {Partition(p.topic, p.partition) for p in partitions}


def partitions_text(partitions: Iterable[Partition]) -> str:
    """Return the partitions in order, for a log."""
    return ", ".join(map(str, sorted(partitions))) or "none"


class KafkaMessage(Protocol):
    """The methods of ``confluent_kafka.Message`` that the service calls. Its length is that of the value in bytes."""

    def topic(self) -> str | None: ...
    def partition(self) -> int | None: ...
    def offset(self) -> int: ...
    def key(self) -> bytes | None: ...
    def value(self) -> bytes | None: ...
    def headers(self) -> list[Header] | None: ...
    def set_value(self, value: bytes) -> None: ...
    def set_headers(self, headers: list[Header]) -> None: ...
    def timestamp(self) -> tuple[int, int]: ...
    def __len__(self) -> int: ...


UNREADABLE = b"\xff"
"""Replaces the value of a message whose headers cannot be read, so that it is rejected as not UTF-8."""


def headers_of(message: KafkaMessage) -> Sequence[Header]:
    """Return a message's headers. If a header name is not UTF-8, remove the headers and replace the value.

    confluent-kafka raises an error for such headers at the first call; later calls return a list that crashes its
    reader. With ``methodcaller`` the interpreter detects the error at once; with a specialised method call it does not.
    """
    try:
        return _read_headers(message) or ()
    except (SystemError, UnicodeDecodeError):
        message.set_headers([])
        if message.value() is not None:
            message.set_value(UNREADABLE)
        return ()


def bytes_of(messages: Sequence[KafkaMessage]) -> int:
    """Return the bytes of the keys, values and headers of messages.

    Each of the three can be as large as the topic allows, whatever the configuration reads of them.
    """
    keys = filter(None, map(_read_key, messages))
    headers = chain.from_iterable(map(headers_of, messages))
    return (
        sum(map(len, messages))
        + sum(map(len, keys))
        + sum(len(name) + len(content or b"") for name, content in headers)
    )


_read_headers: Callable[[KafkaMessage], list[Header] | None] = methodcaller("headers")
_read_key: Callable[[KafkaMessage], bytes | None] = methodcaller("key")


log = logging.getLogger(__name__)


class MessageOpener:
    """Opens the messages of one topic. It logs the first refusal of each cause; callers count all of them."""

    def __init__(self, seal: TopicSeal) -> None:
        self._seal = seal
        self._logged: set[RefusalCause] = set()

    def open(self, key: bytes | None, sealed: bytes) -> bytes:
        """Return the message. Raises SealError if it is not authentic."""
        try:
            return self._seal.open(key, sealed)
        except SealError as error:
            self._log_once(error)
            raise

    def _log_once(self, error: SealError) -> None:
        if error.cause not in self._logged:
            self._logged.add(error.cause)
            log.error("refused a message on %s: %s; further ones are only counted", self._seal.topic, error)


MessageHeaders = list[tuple[str, bytes | None]]

OutgoingMessage: TypeAlias = tuple[bytes | None, bytes | None, int, MessageHeaders]
"""A message: value, key, timestamp in milliseconds (0: now), headers."""


class DeliveryWatch(NamedTuple):
    """``on_delivered(index, error, message)`` is called when the broker has accepted or refused a message.

    ``cuts``: the indices of messages that are sent when all messages before them have been delivered or refused.
    """

    on_delivered: Callable[[int, KafkaError | None, Any], None]
    cuts: Collection[int] = ()


class SendMessages(Protocol):
    """Sends messages to a partition of a topic and returns the indices of those too large to be sent.

    ``watch``: None if the results of single messages are not needed.
    """

    def __call__(
        self,
        topic: str,
        partition: int,
        messages: Iterable[OutgoingMessage],
        watch: DeliveryWatch | None = None,
        /,
    ) -> list[int]: ...


REFUSED_MESSAGE = frozenset(
    {
        KafkaError.INVALID_RECORD,
        KafkaError.INVALID_TIMESTAMP,
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.RECORD_LIST_TOO_LARGE,
    }
)
"""Errors of a broker that refuses a message, or its batch because of the message. They do not pass by themselves."""


def outgoing_messages(result: Result) -> Iterable[OutgoingMessage]:
    """Return a result's records as messages, without the rejected ones. A missing timestamp becomes 0 (now)."""
    times = result.timestamps
    if min(times, default=0) < 0:
        times = [max(0, time) for time in times]
    messages = zip(result.values, result.keys, times, result.headers, strict=True)
    rejected = result.rejected
    return compress(messages, (index not in rejected for index in range(len(times)))) if rejected else messages
