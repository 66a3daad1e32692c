"""One transactional producer: it writes the outcomes of a batch, their counts and the input's offsets, or nothing.

A transaction runs on a thread of its own while the next batch is read and masked. It ends in one of three ways:

* It is committed.
* It is aborted (AbortedError): the input is read again from the committed offsets.
* Its end is not known, or the producer cannot be used any more (SessionLostError): new clients take over. Their
  ``init_transactions`` makes the coordinator complete or abort the old transaction, and fences the old producer.

librdkafka does not implement KIP-890: all transactions of a client have one epoch. If a connection breaks after a
request and the client sends the request again, the first one may reach the broker later, in the next transaction, and
end it early or replace its offsets. A producer that may have sent such a request twice is therefore replaced before its
next transaction; the new epoch makes the brokers refuse the late request. Such a request is recognised by its time:
librdkafka waits before it sends a request again, so a step that succeeds within ``SENT_ONCE_SECONDS`` at its first
attempt has sent each request once. Produce requests need no such care: sequence numbers identify them.

The output refuses a whole request because of one message: without a key in a compacted topic, with a timestamp out of
bounds, or too large. The batch is then written in two halves, each in a transaction of its own, and so on until one
record is left, which is rejected.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, replace
from itertools import compress, repeat
from typing import Any, Final, TypeAlias

from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition

from stream_masker.core.mechanisms.base import Mechanism
from stream_masker.errors import ServiceError
from stream_masker.pipeline.masker import cut_columns
from stream_masker.pipeline.messages import TopicSeal, block_key, encode_block, encode_rejection
from stream_masker.pipeline.records import Reason, Rejected, Result, Tally
from stream_masker.service.configuration.service import TopicsSection
from stream_masker.service.kafka.clients import SENT_ONCE_SECONDS, fatal_error
from stream_masker.service.kafka.errors import ALLOW, explained, is_refusal
from stream_masker.service.kafka.reader import SINGLE_PARTITION
from stream_masker.service.process import in_background

log = logging.getLogger(__name__)

ATTEMPT_SECONDS = 2.0
"""Timeout of one attempt at a step, in seconds."""

PATIENCE_SECONDS = 10.0
"""Seconds after which a step that is retried has failed. The worker's default of ``transaction.timeout.ms`` is longer,
and so is the time that a process has to stop."""

STUCK_SECONDS = 20.0
"""Seconds without a new attempt at a step after which the thread is given up. A call to librdkafka may never return,
despite its timeout, when brokers restart: ``send_offsets_to_transaction`` has done so."""

REFUSALS: Final[Mapping[int, Reason]] = {
    KafkaError.INVALID_RECORD: Reason.REFUSED_BY_OUTPUT,
    KafkaError.INVALID_TIMESTAMP: Reason.TIMESTAMP_OUT_OF_RANGE,
    KafkaError.MSG_SIZE_TOO_LARGE: Reason.TOO_LARGE,
    KafkaError.RECORD_LIST_TOO_LARGE: Reason.TOO_LARGE,
}
"""Errors of a message, or of a request because of one message. They do not pass by themselves."""

Produced: TypeAlias = tuple[str, bytes | None, bytes | None, int, None, None, int, Any]
"""The positional arguments of ``Producer.produce``, which takes a quarter less time with them than with names: topic,
value, key, partition, two callbacks, timestamp in milliseconds (0: now), headers."""


class AbortedError(Exception):
    """A transaction has been aborted."""


class SessionLostError(Exception):
    """The session's clients must be replaced."""


class _StepError(Exception):
    """A step of a transaction has failed, and the transaction can only be aborted. ``code``: librdkafka's."""

    def __init__(self, failure: str, code: int) -> None:
        super().__init__(failure)
        self.code = code


@dataclass(frozen=True, slots=True)
class Outputs:
    """Where the outcomes of the input go: to the partitions of their records.

    ``seal``: of the calibration topic. ``mechanism``: the one that has masked the records.
    """

    topics: TopicsSection
    seal: TopicSeal
    mechanism: Mechanism

    def messages(self, partition: int, result: Result) -> Iterator[Produced]:
        """Yield the outcomes of a partition's records in order, and their blocks. A missing timestamp becomes now."""
        times = map(max, result.timestamps, repeat(0))
        topic, place, none = repeat(self.topics.output), repeat(partition), repeat(None)
        masked = zip(topic, result.values, result.keys, place, none, none, times, result.headers, strict=False)
        rejected = result.rejected
        yield from compress(masked, (offset not in rejected for offset in result.offsets)) if rejected else masked
        for offset, one in sorted(rejected.items()):
            key = f"{self.topics.input}:{partition}:{offset}".encode()
            value = encode_rejection(one, topic=self.topics.input, partition=partition, offset=offset)
            yield self.topics.rejected, value, key, partition, None, None, 0, []
        for block in result.blocks:
            key, raw = block_key(block), encode_block(block, self.mechanism.taxonomies, self.mechanism.context)
            value = self.seal.seal(key, raw)
            yield self.topics.calibration, value, key, SINGLE_PARTITION, None, None, 0, []


class Transactions:
    """Writes one batch after the other under one transactional id.

    ``connect`` makes a producer. ``running`` returns False when the process stops.
    """

    def __init__(self, connect: Callable[[], Producer], outputs: Outputs, *, running: Callable[[], bool]) -> None:
        self._connect, self._outputs, self._running = connect, outputs, running
        self._producer: Producer
        self._in_doubt = False
        self._attempted = 0.0

    def open(self) -> None:
        """Connect a producer, and initialise its transactions.

        Raises ServiceError if Kafka refuses the transactional id, and SessionLostError if no broker answers in time.
        """
        self._producer = self._connect()
        self._step("the transactional id cannot be used", self._producer.init_transactions, abortable=False)
        self._in_doubt = False

    def write(self, results: Mapping[int, Result], group: object) -> Future[list[Result]]:
        """Start to write a batch, and to commit the offsets after its records. Call it when the one before is done.

        ``results``: by partition. ``group``: the consumer group's metadata, which fences former members. The future has
        what was committed: the batch in parts, without the blocks that the output refuses; or AbortedError or
        SessionLostError.
        """
        self._attempted = time.monotonic()
        return in_background(lambda: self._write(results, group), name="transactions")

    def is_stuck(self) -> bool:
        """Return whether a call to the client does not return."""
        return time.monotonic() - self._attempted >= STUCK_SECONDS

    def _write(self, results: Mapping[int, Result], group: object) -> list[Result]:
        """Write a batch, in halves if its outputs refuse it."""
        try:
            self._commit(results, group)
        except _StepError as failure:
            log.warning("a transaction is aborted: %s", failure)
            self._step("abort", self._producer.abort_transaction, abortable=False)
            if failure.code not in REFUSALS or not self._running():
                raise AbortedError(str(failure)) from None
            return self._write_parts(_parts(results, failure), group)
        return list(results.values())

    def _write_parts(self, parts: Iterable[Mapping[int, Result]], group: object) -> list[Result]:
        """Write parts of a batch one by one. The session is lost if one is aborted after another has been committed:
        only a new one finds out where to go on."""
        written: list[Result] = []
        for part in parts:
            try:
                written += self._write(part, group)
            except AbortedError as failure:
                raise SessionLostError(str(failure)) if written else failure from None
        return written

    def _commit(self, results: Mapping[int, Result], group: object) -> None:
        """Write a batch in one transaction. The producer is new if the last one may have sent a request twice.

        While it ends the last transaction or adds partitions, the coordinator refuses partitions, which librdkafka adds
        again after 20 ms, and offsets, which it sends again after ``retry.backoff.ms``: so these follow the records.
        """
        if self._in_doubt:
            log.info("a request of the last transaction may arrive late: the producer is initialised again")
            self.open()
        self._step("begin", lambda _: self._producer.begin_transaction(), abortable=False)
        for partition, result in results.items():
            self._produce(self._outputs.messages(partition, result))
        topic = self._outputs.topics.input
        offsets = [TopicPartition(topic, number, result.offsets[-1] + 1) for number, result in results.items()]
        self._step("flush", lambda t: _flush(self._producer, t), sequenced=True)
        self._step("offsets", lambda t: self._producer.send_offsets_to_transaction(offsets, group, t))
        self._step("commit", self._producer.commit_transaction)

    def _produce(self, messages: Iterable[Produced]) -> None:
        """Add messages to the open transaction. The producer's queue has no limit of its own, because a batch has."""
        for message in messages:
            try:
                self._producer.produce(*message)
            except KafkaException as failure:
                error = _cause(self._producer, failure.args[0])
                text = f"produce to partition {message[3]} of {message[0]}: {explained(error)}"
                raise (SessionLostError(text) if error.fatal() else _StepError(text, error.code())) from None

    def _step(
        self, name: str, attempt: Callable[[float], object], *, abortable: bool = True, sequenced: bool = False
    ) -> None:
        """Retry a step until it succeeds or its time is over.

        ``abortable``: whether the transaction can be aborted after it. ``sequenced``: whether its requests have
        sequence numbers; if not, note whether one of them may still be on its way. Raises _StepError if the transaction
        is to be aborted, ServiceError if Kafka refuses a producer that has none, otherwise SessionLostError.
        """
        start = time.monotonic()
        while True:
            self._attempted = time.monotonic()
            try:
                attempt(ATTEMPT_SECONDS)
            except (KafkaException, SystemError) as failure:
                known = failure if isinstance(failure, KafkaException) else fatal_error(self._producer, failure)
                error = known.args[0]
                self._in_doubt |= not sequenced
            else:
                self._in_doubt |= not sequenced and time.monotonic() - start >= SENT_ONCE_SECONDS
                return
            if abortable and not error.fatal() and error.txn_requires_abort():
                error = _cause(self._producer, error)
                raise _StepError(f"{name}: {explained(error)}", error.code())
            if not abortable and is_refusal(error, ALLOW):
                raise ServiceError(f"{name}: {explained(error)}")
            if time.monotonic() - start > PATIENCE_SECONDS or error.fatal() or not error.retriable():
                raise SessionLostError(f"{name}: {explained(error)}")


def _parts(results: Mapping[int, Result], failure: _StepError) -> list[dict[int, Result]]:
    """Return a refused batch in two halves. One record is written without its blocks, or else rejected.

    Raises AbortedError if its rejection is refused too.
    """
    partitions = list(results.items())
    if middle := len(partitions) // 2:
        return [dict(partitions[:middle]), dict(partitions[middle:])]
    [(partition, result)] = partitions
    size = len(result.offsets)
    if size > 1:
        return [{partition: _slice(result, 0, size // 2)}, {partition: _slice(result, size // 2, size)}]
    if result.blocks:
        log.warning("the blocks of a batch are left out: %s", failure)
        return [{partition: replace(result, blocks=())}]
    if result.rejected:
        raise AbortedError(str(failure))
    no_key = failure.code == KafkaError.INVALID_RECORD and result.keys[0] is None
    reason = Reason.MISSING_KEY if no_key else REFUSALS[failure.code]
    return [{partition: replace(result, rejected={offset: Rejected(reason) for offset in result.offsets})}]


def _slice(result: Result, start: int, end: int) -> Result:
    """Return the records ``start`` to ``end`` (exclusive) of a result; its last part has the blocks and counts."""
    changes = cut_columns(result, start, end)
    changes["rejected"] = {o: result.rejected[o] for o in changes["offsets"] if o in result.rejected}
    if end < len(result.offsets):
        changes |= {"blocks": (), "tally": Tally()}
    return replace(result, **changes)


def _cause(client: Producer, error: KafkaError) -> KafkaError:
    """Return the error that has failed the open transaction, if it is the reason why a step is not possible."""
    if error.code() == KafkaError._STATE:
        try:
            client.begin_transaction()
        except KafkaException as failure:
            return failure.args[0]
    return error


def _flush(client: Producer, timeout: float) -> None:
    """Wait until all records are delivered. A failed delivery makes the transaction's next step fail."""
    if client.flush(timeout):
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "records are not delivered yet", False, True, False))
