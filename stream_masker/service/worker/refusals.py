"""Records that an output topic refuses: the search for them after a refused transaction, and their rejection.

A broker refuses a whole transaction because of one message: without a key in a compacted topic, with a timestamp out
of bounds, or too large. The worker repeats the transaction with a delivery report for each record and one request at a
time, so that the reports of a partition come from one request. They name the refused records of a request, or all its
records. In the second case the records are sent in smaller and smaller parts, until a part is one record. The worker
then repeats the transaction with a rejection for each refused record.

A record that is too large is found by the client's ``batch.size``, which is divided until the topic takes the requests:
a message of at least this size has a request of its own. The size stays, because the topic refuses larger requests.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from confluent_kafka import KafkaError

from stream_masker.errors import ParameterError
from stream_masker.pipeline.reasons import Reason
from stream_masker.pipeline.records import Rejected, Result
from stream_masker.service.kafka.messages import REFUSED_MESSAGE, DeliveryWatch, Partition

log = logging.getLogger(__name__)

BATCH_SIZE, IN_FLIGHT = "batch.size", "max.in.flight.requests.per.connection"

DEFAULT_BATCH_BYTES = 1_000_000
"""librdkafka's default of ``batch.size``: the maximum bytes of the messages of one request to a partition."""

PARTS = 8
"""``batch.size`` is divided by this, and suspected records are divided into as many parts."""

TOO_LARGE = frozenset({KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE})


@dataclass(slots=True)
class _Reports:
    """The refused records of one partition: reason by offset. ``named``: whether the broker named them one by one."""

    reasons: dict[int, Reason] = field(default_factory=dict)
    named: bool = False


@dataclass(slots=True)
class RefusedRecords:
    """The records of the current batch that their outputs refuse. ``batch_size``: of the client, in bytes (≥ 1).

    ``version``: of ``properties``. ``on_refused`` and delivery reports arrive on the thread that commits; the other
    methods are called while nothing commits.
    """

    batch_size: int = DEFAULT_BATCH_BYTES
    version: int = 0
    _properties: dict[str, int] = field(default_factory=dict)
    _cause: int | None = None
    _searching: bool = False
    _too_large: bool = False
    _reports: dict[Partition, _Reports] = field(default_factory=dict)
    _suspects: dict[Partition, Sequence[int]] = field(default_factory=dict)
    _rejected: dict[Partition, dict[int, Reason]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.batch_size < 1:
            raise ParameterError(f"{BATCH_SIZE} must be at least 1, not {self.batch_size}")

    @classmethod
    def of(cls, properties: Mapping[str, Any]) -> RefusedRecords:
        """Return the search of a producer with these properties."""
        return cls(int(properties.get(BATCH_SIZE, DEFAULT_BATCH_BYTES)))

    @property
    def properties(self) -> Mapping[str, int]:
        """The properties that the producer needs at present, beside its own."""
        return {**self._properties, **({IN_FLIGHT: 1} if self._searching else {})}

    def on_refused(self, code: int) -> None:
        """Note the error for which a broker has refused a transaction."""
        self._cause = code

    def next_attempt(self) -> bool:
        """Prepare the repetition of failed transactions; return whether it will differ from the last attempt."""
        refused, changed = self._cause is not None, self._evaluate() or self._divide() or not self._searching
        self._cause, self._too_large, self._searching = None, False, self._searching or refused
        self._reports.clear()
        self.version += refused
        return refused and changed

    def without(self, partition: Partition, result: Result) -> Result:
        """Return a result with the refused records of its partition rejected."""
        reasons = self._rejected.get(partition)
        if not reasons:
            return result
        refused = {
            index: Rejected(offset, reasons[offset]) for index, offset in enumerate(result.offsets) if offset in reasons
        }
        return replace(result, rejected={**refused, **result.rejected})

    def watch(self, partition: Partition, offsets: Sequence[int]) -> DeliveryWatch | None:
        """Return the watch over the records with these offsets; None if nothing is searched."""
        if not self._searching:
            return None
        on_delivered = partial(self._on_delivered, self._reports.setdefault(partition, _Reports()), offsets)
        return DeliveryWatch(on_delivered, _cuts(offsets, self._suspects.get(partition, ())))

    def forget(self) -> None:
        """End the search: the transaction is committed."""
        self.version += self._searching
        self._cause, self._searching, self._too_large = None, False, False
        for searched in (self._reports, self._suspects, self._rejected):
            searched.clear()

    def _evaluate(self) -> bool:
        """Evaluate the reports by partition; return whether there are any."""
        refused = {partition: reports for partition, reports in self._reports.items() if reports.reasons}
        for partition, reports in refused.items():
            if reports.named or len(reports.reasons) == 1:
                self._rejected.setdefault(partition, {}).update(self._named(reports))
            else:
                self._suspects[partition] = sorted(reports.reasons)
        return bool(refused)

    def _named(self, reports: _Reports) -> Mapping[int, Reason]:
        """Return the reasons of refused records. A report that names a record does not say that it is for its time."""
        if self._cause == KafkaError.INVALID_TIMESTAMP and reports.named:
            return dict.fromkeys(reports.reasons, Reason.TIMESTAMP_OUT_OF_RANGE)
        return reports.reasons

    def _divide(self) -> bool:
        """Divide the client's batch size if a topic refuses requests as too large."""
        if not self._too_large or self.batch_size == 1:
            return False
        self.batch_size = max(1, self.batch_size // PARTS)
        self._properties = {BATCH_SIZE: self.batch_size}
        log.warning("a topic refuses large messages: %s is now %d bytes", BATCH_SIZE, self.batch_size)
        return True

    def _on_delivered(
        self, reports: _Reports, offsets: Sequence[int], index: int, error: KafkaError | None, message: Any
    ) -> None:
        if error is None:
            return
        if error.code() == KafkaError._INVALID_DIFFERENT_RECORD:
            reports.named = True
        elif error.code() in TOO_LARGE and len(message) < self.batch_size:
            self._too_large = True
        elif error.code() in REFUSED_MESSAGE:
            reports.reasons[offsets[index]] = _reason(error.code(), message)


def _reason(code: int, message: Any) -> Reason:
    if code in TOO_LARGE:
        return Reason.TOO_LARGE
    if code == KafkaError.INVALID_TIMESTAMP:
        return Reason.TIMESTAMP_OUT_OF_RANGE
    return Reason.MISSING_KEY if message.key() is None else Reason.REFUSED_BY_OUTPUT


def _cuts(offsets: Sequence[int], suspects: Sequence[int]) -> Collection[int]:
    """Return the indices at which the suspects, a sorted part of the offsets, are divided into ``PARTS``."""
    if not suspects:
        return ()
    size = -(-len(suspects) // PARTS)
    index_of = {offset: index for index, offset in enumerate(offsets)}
    ends = [suspects[start] for start in range(0, len(suspects), size)]
    last = index_of.get(suspects[-1])
    return {*(index_of[offset] for offset in ends if offset in index_of), *(() if last is None else (last + 1,))}
