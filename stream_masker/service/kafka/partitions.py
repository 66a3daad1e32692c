"""The partitions of several topics."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from confluent_kafka import TopicPartition


class Partition(NamedTuple):
    """A partition of a topic."""

    topic: str
    number: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.number}"


def partitions_of(partitions: Iterable[TopicPartition]) -> set[Partition]:
    """Return the partitions that a client names."""
    return {Partition(one.topic, one.partition) for one in partitions}


def partitions_text(partitions: Iterable[Partition]) -> str:
    """Return the partitions in order, for a log."""
    return ", ".join(map(str, sorted(partitions))) or "none"
