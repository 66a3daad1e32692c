"""A fake consumer of the worker's input, fake messages, and a source that reads them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from stream_masker.service.worker.source import Limits, Source

TOPIC = "in"


class FakeMessage:
    """A message of ``size`` bytes; with ``error``, the end of a partition or a failure."""

    def __init__(
        self, partition: int, offset: int, size: int = 10, *, error: KafkaError | None = None, topic: str | None = TOPIC
    ) -> None:
        self.location, self.size, self.failure, self.of = (partition, offset), size, error, topic

    def error(self) -> KafkaError | None:
        return self.failure

    def topic(self) -> str | None:
        return self.of

    def partition(self) -> int:
        return self.location[0]

    def offset(self) -> int:
        return self.location[1]

    def key(self) -> None:
        return None

    value = headers = key

    def timestamp(self) -> tuple[int, int]:
        return 1, 1

    def __len__(self) -> int:
        return self.size


def at(*numbers: int) -> list[TopicPartition]:
    return [TopicPartition(TOPIC, number) for number in numbers]


class FakeClient:
    """A consumer that delivers scripted messages; the test rebalances it."""

    def __init__(self) -> None:
        self.now = 0.0
        self.events: list[FakeMessage] = []
        self.callbacks: dict[str, Callable[..., None]] = {}
        self.committed_offsets: dict[int, int] = {}
        self.watermarks: dict[int, tuple[int, int]] = {}
        self.refuses_seeks = False

    def subscribe(self, topics, **callbacks) -> None:
        self.callbacks = callbacks

    def assign(self, *numbers: int) -> None:
        self.callbacks["on_assign"](self, at(*numbers))

    def revoke(self, *numbers: int) -> None:
        self.callbacks["on_revoke"](self, at(*numbers))

    def consume(self, num_messages: int, timeout: float) -> list[FakeMessage]:
        self.now += 0.05
        delivered, self.events = self.events[:num_messages], self.events[num_messages:]
        return delivered

    def incremental_assign(self, partitions) -> None:
        self.starts = {p.partition: p.offset for p in partitions}

    def incremental_unassign(self, partitions) -> None:
        """Nothing is kept of an assignment."""

    def seek(self, partition) -> None:
        if self.refuses_seeks:
            raise KafkaException(KafkaError(KafkaError._STATE, "erroneous state"))

    def committed(self, partitions, timeout: float) -> list[TopicPartition]:
        return [TopicPartition(TOPIC, p.partition, self.committed_offsets.get(p.partition, -1001)) for p in partitions]

    def get_watermark_offsets(self, partition, timeout: float = 0.0, cached: bool = False) -> tuple[int, int]:
        return self.watermarks.get(partition.partition, (0, 0))

    def consumer_group_metadata(self) -> object:
        return "metadata"

    def memberid(self) -> str:
        return "one"


def source_of(client: FakeClient, **more: Any) -> Source:
    """Return a source that reads from the client, with the client's clock, and has joined the group."""
    hooks = {"running": lambda: True, "revoke": lambda _: None}
    limits = more.pop("limits", Limits(records=4, size=10_000, delay=1.0))
    source = Source(client, TOPIC, limits, clock=lambda: client.now, **{**hooks, **more})
    source.read(lambda: False)
    client.now = 0.0
    return source
