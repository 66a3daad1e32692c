"""Messages for a transactional producer, the reports about their delivery, and the client that sends them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from itertools import compress
from typing import Any, NamedTuple, Protocol, TypeAlias

from confluent_kafka import KafkaError, TopicPartition

from stream_masker.pipeline.records import Result

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


class ProducerClient(Protocol):
    """The methods of ``confluent_kafka.Producer`` that the worker calls."""

    def init_transactions(self, timeout: float) -> None: ...
    def begin_transaction(self) -> None: ...
    def produce(self, *args: Any, **named: Any) -> None: ...
    def poll(self, timeout: float) -> int: ...
    def send_offsets_to_transaction(self, positions: list[TopicPartition], group: object, timeout: float) -> None: ...
    def flush(self, timeout: float) -> int: ...
    def commit_transaction(self, timeout: float) -> None: ...
    def abort_transaction(self, timeout: float) -> None: ...
