"""Messages as Kafka's client returns them, and their partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, groupby
from operator import methodcaller
from typing import NamedTuple, Protocol

from confluent_kafka import TopicPartition

from stream_masker.pipeline.records import Header


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


def runs_by_partition(messages: Sequence[KafkaMessage]) -> Iterator[tuple[Partition, Sequence[KafkaMessage]]]:
    """Yield consecutive messages of one partition, with the partition."""
    start, partitions = 0, zip(map(_read_topic, messages), map(_read_partition, messages), strict=True)
    for (topic, number), run in groupby(partitions):
        end = start + len(list(run))
        yield Partition(topic, number), messages[start:end]
        start = end


_read_topic: Callable[[KafkaMessage], str] = methodcaller("topic")
_read_partition: Callable[[KafkaMessage], int] = methodcaller("partition")


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
