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
librdkafka waits before it sends a request again (``retry_delay``), so a step that succeeds sooner at its first attempt
has sent each request once. Produce requests need no such care, because their sequence numbers identify them.

A broker refuses a whole request because of one message: without a key in a compacted topic, with a timestamp out of
bounds, or too large. The batch is then written in two halves, each in a transaction of its own, and so on until one
record is left, which is rejected.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from typing import Final

from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition

from stream_masker.errors import ServiceError
from stream_masker.pipeline.reasons import Reason
from stream_masker.pipeline.records import Result
from stream_masker.service.kafka.clients import fatal_errors
from stream_masker.service.kafka.failures import explained
from stream_masker.service.kafka.messages import Partition
from stream_masker.service.runtime.process import SerialExecutor
from stream_masker.service.worker.outcomes import OutgoingMessage, Outputs, TransactionCounts, halves, reduced

log = logging.getLogger(__name__)

ATTEMPT_SECONDS = 2.0
"""Timeout of one attempt at a step, in seconds."""

PATIENCE_SECONDS = 20.0
"""Seconds after which a step that is retried has failed: as many as the worker's default of ``transaction.timeout.ms``,
because later there is no transaction left to commit."""

HURRIED_SECONDS = 4.0
"""The same limit while the process stops or partitions are revoked. A pod has 30 seconds to end."""

REFUSALS: Final[Mapping[int, Reason]] = {
    KafkaError.INVALID_RECORD: Reason.REFUSED_BY_OUTPUT,
    KafkaError.INVALID_TIMESTAMP: Reason.TIMESTAMP_OUT_OF_RANGE,
    KafkaError.MSG_SIZE_TOO_LARGE: Reason.TOO_LARGE,
    KafkaError.RECORD_LIST_TOO_LARGE: Reason.TOO_LARGE,
}
"""Errors of a broker that refuses a message, or its request because of the message. They do not pass by themselves."""

FENCED = frozenset({KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH})


class AbortedError(Exception):
    """A transaction has been aborted."""


class SessionLostError(Exception):
    """The session's clients must be replaced. ``fenced``: another process uses the transactional id."""

    def __init__(self, text: str, *, fenced: bool = False) -> None:
        super().__init__(text)
        self.fenced = fenced


class _StepError(Exception):
    """A step of a transaction has failed, and the transaction can only be aborted. ``code``: librdkafka's."""

    def __init__(self, step: str, error: KafkaError) -> None:
        super().__init__(f"{step}: {explained(error)}")
        self.code: int = error.code()


class Transactions:
    """Writes one batch after the other under one transactional id.

    ``connect`` makes a producer. ``running`` returns False when the process stops. ``expiry``: seconds after which the
    brokers abort an open transaction. ``retry_delay``: the least seconds that the producer waits before it sends a
    request again.
    """

    def __init__(
        self,
        connect: Callable[[], Producer],
        outputs: Outputs,
        *,
        running: Callable[[], bool],
        expiry: float,
        retry_delay: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connect, self._outputs, self._running = connect, outputs, running
        self._expiry, self._retry_delay, self._clock = expiry, retry_delay, clock
        self._client: Producer | None = None
        self._thread = SerialExecutor("transactions")
        self._in_doubt = self._hurried = False
        self._begun = self._silent = 0.0
        self._attempts = self._seen = 0

    def open(self) -> None:
        """Connect a producer and initialise its transactions; wait for the brokers until the process stops.

        Raises ServiceError if Kafka refuses the transactional id, and SessionLostError if it is fenced meanwhile.
        """
        self._client, client = None, self._connect()
        while self._running():
            self._attempts, self._begun = self._attempts + 1, self._clock()
            try:
                client.init_transactions(ATTEMPT_SECONDS)
            except KafkaException as failure:
                error = failure.args[0]
                if error.code() in FENCED:
                    raise self._lost("initialisation", error) from None
                if not error.retriable():
                    raise ServiceError(f"the transactional id cannot be used: {explained(error)}") from None
                log.warning("waiting for the transaction coordinator: %s", explained(error))
            else:
                self._client, self._in_doubt = client, False
                return

    def write(self, results: Mapping[Partition, Result], group: object) -> Future[TransactionCounts]:
        """Start to write a batch, and to commit the offsets after its records. Call it when the one before is done.

        ``group``: the consumer group's metadata, which fences former members. The future has the numbers of what was
        committed, or AbortedError or SessionLostError.
        """
        self._hurried, self._silent = False, 0.0
        return self._thread.submit(lambda: self._write(results, group))

    def hurry(self) -> None:
        """Shorten the time limits of the transaction that is being written."""
        self._hurried = True

    def is_stuck(self, waited: float, limit: float) -> bool:
        """Note a wait; return whether waits without a new attempt at a step add up to ``limit`` seconds."""
        self._silent = self._silent + waited if self._attempts == self._seen else 0.0
        self._seen = self._attempts
        return self._silent >= limit

    def close(self) -> None:
        """Release the producer."""
        self._client = None

    @property
    def _is_hurried(self) -> bool:
        return self._hurried or not self._running()

    def _write(self, results: Mapping[Partition, Result], group: object) -> TransactionCounts:
        """Write a batch, in halves if its outputs refuse it."""
        try:
            return self._commit(results, group)
        except _StepError as failure:
            log.warning("a transaction is aborted: %s", failure)
            self._must("abort", self._producer.abort_transaction)
            if failure.code not in REFUSALS or self._is_hurried:
                raise AbortedError(str(failure)) from None
            parts = self._parts(results, failure)
        counts = TransactionCounts(blocks_left_out=_blocks(results) - sum(map(_blocks, parts)))
        for part in parts:
            counts += self._write(part, group)
        return counts

    def _parts(self, results: Mapping[Partition, Result], failure: _StepError) -> list[dict[Partition, Result]]:
        """Return a refused batch in halves; one record with less to write. Raises AbortedError if nothing is left."""
        if sum(len(result.offsets) for result in results.values()) > 1:
            return halves(results)
        [key] = next(iter(results.values())).keys
        no_key = failure.code == KafkaError.INVALID_RECORD and key is None
        rest = reduced(results, Reason.MISSING_KEY if no_key else REFUSALS[failure.code])
        if rest is None:
            raise AbortedError(str(failure))
        return [rest]

    def _commit(self, results: Mapping[Partition, Result], group: object) -> TransactionCounts:
        """Write a batch in one transaction. The producer is new if the last one may have sent a request twice."""
        if self._in_doubt:
            log.info("a request of the last transaction may arrive late: the producer is initialised again")
            self.open()
        self._begun = self._clock()
        self._must("begin", lambda _: self._producer.begin_transaction())
        counts = TransactionCounts()
        for partition, result in results.items():
            counts += self._outputs.send(partition.number, result, self._send)
        offsets = [TopicPartition(*partition, result.offsets[-1] + 1) for partition, result in results.items()]
        self._request("offsets", lambda t: self._producer.send_offsets_to_transaction(offsets, group, t))
        self._step("flush", lambda t: _flush(self._producer, t))
        self._request("commit", self._producer.commit_transaction, unknown=True)
        return counts

    def _send(self, topic: str, partition: int, messages: Iterable[OutgoingMessage]) -> list[int]:
        """Add messages to the open transaction; return the indices of those that are too large, which are not sent.

        ``produce`` takes three quarters of the time with positional arguments; two of them are callbacks.
        """
        produce, too_large = self._producer.produce, []
        for index, (value, key, timestamp, headers) in enumerate(messages):
            while True:
                try:
                    produce(topic, value, key, partition, None, None, timestamp, headers)
                except BufferError:
                    with fatal_errors(self._producer):
                        self._producer.poll(0.1)
                except KafkaException as failure:
                    error = _cause(self._producer, failure.args[0])
                    if error.code() != KafkaError.MSG_SIZE_TOO_LARGE:
                        step = f"produce to partition {partition} of {topic}"
                        raise (self._lost(step, error) if error.fatal() else _StepError(step, error)) from None
                    too_large.append(index)
                    break
                else:
                    break
        return too_large

    @property
    def _producer(self) -> Producer:
        if self._client is None:
            raise SessionLostError("the producer is not open")
        return self._client

    def _must(self, name: str, attempt: Callable[[float], object]) -> None:
        """Do a step without which the producer cannot be used any more."""
        try:
            self._request(name, attempt, unknown=True)
        except _StepError as failure:
            raise SessionLostError(str(failure)) from None

    def _request(self, name: str, attempt: Callable[[float], object], *, unknown: bool = False) -> None:
        """Do a step whose requests have no sequence numbers; note whether one of them may still be on its way."""
        start, clean = self._clock(), False
        try:
            attempts = self._step(name, attempt, unknown=unknown)
            clean = attempts == 1 and self._clock() - start < self._retry_delay
        finally:
            self._in_doubt |= not clean

    def _step(self, name: str, attempt: Callable[[float], object], *, unknown: bool = False) -> int:
        """Retry a step until it succeeds or its time is over; return the number of attempts.

        ``unknown``: whether the state of the transaction is not known after its time. Raises _StepError if the
        transaction can be aborted, otherwise SessionLostError.
        """
        start, attempts = self._clock(), 0
        while True:
            self._attempts, attempts = self._attempts + 1, attempts + 1
            try:
                with fatal_errors(self._producer):
                    attempt(ATTEMPT_SECONDS)
                    return attempts
            except KafkaException as failure:
                error = failure.args[0]
            if not error.fatal() and error.txn_requires_abort():
                raise _StepError(name, _cause(self._producer, error))
            late = self._clock() - start > (HURRIED_SECONDS if self._is_hurried else PATIENCE_SECONDS)
            if error.fatal() or not error.retriable() or (late and unknown):
                raise self._lost(name, error)
            if late:
                raise _StepError(name, error)

    def _lost(self, step: str, error: KafkaError) -> SessionLostError:
        """Return the error of a producer that cannot be used any more. An expired transaction fences its own one."""
        fenced = error.code() in FENCED and self._clock() - self._begun < self._expiry
        return SessionLostError(f"{step}: {explained(error)}", fenced=fenced)


def _blocks(results: Mapping[Partition, Result]) -> int:
    return sum(len(result.blocks) for result in results.values())


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
