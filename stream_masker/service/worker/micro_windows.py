"""Groups of records: consecutive ones of a partition, gathered until there are enough, and masked together."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from stream_masker.errors import ParameterError
from stream_masker.service.worker.batch import BatchLimits, GroupShortfall, KafkaMessage, MessageBatch

MAX_GROWTH = 10
"""A group that has so many times its records, or a batch's bytes, and is still too small is not held any longer."""

ShortGroupPolicy = Literal["hold", "suppress", "merge"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MicroWindowLimits:
    """When a group is complete: at ``records`` (≥ 1) or ``size`` bytes (≥ 1) of a partition, after ``delay`` seconds.

    ``short``: what becomes of one that then has too few records to be masked. ``hold``: it waits, and is released as
    soon as it has enough; ``suppress``: its records are rejected; ``merge``: it is the beginning of the next group,
    whose delay begins anew. ``batch``: records to ask for at a time, for as many groups as there are in them.
    """

    records: int = 1_000
    size: int = 16_777_216
    delay: float = 10.0
    short: ShortGroupPolicy = "hold"
    batch: int = 10_000

    def __post_init__(self) -> None:
        if self.records < 1 or self.size < 1 or self.delay <= 0:
            raise ParameterError("a group holds at least 1 record and 1 byte, and waits longer than 0 s")

    def may_hold(self, messages: Sequence[KafkaMessage]) -> bool:
        """Whether a group that is too small may wait for more."""
        few = len(messages) < MAX_GROWTH * self.records and sum(map(len, messages)) < self.size
        return self.short != "suppress" and few


@dataclass(slots=True)
class _Window:
    """What has come of one partition and is not released. ``since``: when its delay began; ``least``: messages that
    it needs before it can be released."""

    since: float
    least: int
    messages: list[KafkaMessage] = field(default_factory=list)
    size: int = 0

    def add(self, message: KafkaMessage) -> None:
        self.messages.append(message)
        self.size += len(message)


class MicroWindowBatcher:
    """Gathers each partition's records into groups; a batch is all groups that are complete.

    What is not released is not committed either, so that after a crash it is read again. ``minimum``: the fewest
    records that can be masked together.
    """

    def __init__(self, limits: MicroWindowLimits, *, minimum: Callable[[], int]) -> None:
        self._limits = limits
        self._minimum = minimum
        self._windows: dict[int, _Window] = {}

    def add(self, messages: Iterable[KafkaMessage], *, partitions: Collection[int], now: float) -> None:
        for message in messages:
            if (partition := message.partition()) in partitions:
                self._window(partition, now).add(message)

    def drop(self, partitions: Iterable[int]) -> None:
        for partition in partitions:
            self._windows.pop(partition, None)

    def room(self) -> int:
        """As many as a batch takes; 0 when a group is full."""
        return 0 if any(map(self._is_full, self._windows.values())) else self._limits.batch

    def left(self, now: float) -> float | None:
        """Seconds until the first group's delay ends; of those held without enough records, none does."""
        ends = [end for window in self._windows.values() if (end := self._end(window)) is not None]
        return min(ends) - now if ends else None

    def take(self, now: float) -> MessageBatch:
        """The groups that are complete; what came after a full one begins the next."""
        batch = MessageBatch(BatchLimits(records=self._limits.batch, size=self._limits.size))
        for partition in list(self._windows):
            while (window := self._windows.get(partition)) and (self._is_full(window) or self._is_due(window, now)):
                batch.add_group(self._released(partition, window, now), partition=partition)
        return batch

    def put_back(self, partition: int, messages: Sequence[KafkaMessage], short: GroupShortfall, now: float) -> None:
        """Takes back a group that was taken and is too small, with what came behind it.

        It is complete again when it has grown by what it lacks, and not by less than a tenth, for each attempt costs.
        """
        later = self._windows.pop(partition, None)
        growth = max(1, short.lacking, short.size // MAX_GROWTH)
        window = self._windows[partition] = _Window(self._begun(now), short.size + growth)
        for message in [*messages, *(later.messages if later else ())]:
            window.add(message)

    def _begun(self, now: float) -> float:
        """A merged group's delay begins anew; one that is held has waited long enough."""
        return now if self._limits.short == "merge" else now - self._limits.delay

    def _window(self, partition: int, now: float) -> _Window:
        return self._windows.setdefault(partition, _Window(now, self._minimum()))

    def _is_full(self, window: _Window) -> bool:
        limits, count = self._limits, len(window.messages)
        if count >= MAX_GROWTH * limits.records or window.size >= limits.size:
            return True
        return count >= max(limits.records, window.least)

    def _is_due(self, window: _Window, now: float) -> bool:
        """Whether the delay is over and the group can be released; a short one that is merged begins anew."""
        if now < window.since + self._limits.delay:
            return False
        if len(window.messages) >= window.least or self._limits.short == "suppress":
            return True
        if self._limits.short == "merge":
            window.since = now
        return False

    def _end(self, window: _Window) -> float | None:
        held = self._limits.short == "hold" and len(window.messages) < window.least
        return None if held else window.since + self._limits.delay

    def _released(self, partition: int, window: _Window, now: float) -> list[KafkaMessage]:
        del self._windows[partition]
        count = max(self._limits.records, window.least) if window.size < self._limits.size else len(window.messages)
        for message in window.messages[count:]:
            self._window(partition, now).add(message)
        return window.messages[:count]
