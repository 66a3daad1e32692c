"""A producer that writes each batch in one transaction and recovers from failed ones.

librdkafka flags each error: retry the step, abort the transaction, or replace the producer. A producer whose commit
ends without a known result is replaced by a new one with the same transactional id, whose initialisation makes the
coordinator complete or abort the old transaction. The committed offsets then show which of the two happened.

librdkafka does not implement KIP-890: all transactions of a client have one epoch. If a connection breaks after a
request and the client sends the request again, the first one may reach the broker later, in the next transaction: a
late EndTxn commits or aborts that transaction early, and a late TxnOffsetCommit replaces its offsets. The client that
may have sent a request twice is therefore replaced before its next transaction; the new epoch makes the brokers refuse
the late request. Such a request is recognised by its time: librdkafka waits before it sends a request again
(``retry_delay``), so a step that succeeds sooner at its first attempt has sent each request once. Produce requests need
no such care, because their sequence numbers identify them.

A producer has one transaction at a time. ``worker.commit_pipeline`` alternates two, to hide the time of a commit.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable
from enum import Enum, StrEnum
from functools import partial
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition

from stream_masker.errors import ServiceError
from stream_masker.service.kafka.clients import fatal_errors
from stream_masker.service.kafka.failures import explained
from stream_masker.service.kafka.messages import (
    REFUSED_MESSAGE,
    DeliveryWatch,
    OutgoingMessage,
    SendMessages,
)

log = logging.getLogger(__name__)

ATTEMPT_SECONDS = 2.0
"""Timeout of one attempt at a step, in seconds."""

STEP_PATIENCE_SECONDS = 20.0
"""Seconds after which a step that is retried has failed: as many as the worker's default of ``transaction.timeout.ms``,
because later there is no transaction left to commit."""

EXPEDITED_PATIENCE_SECONDS = 4.0
"""The same limit while the process stops or partitions are being revoked.

A pod has 30 seconds to end. A failing commit takes two steps of at most ``EXPEDITED_PATIENCE_SECONDS`` and
``ATTEMPT_SECONDS`` each; a transaction that is still being written takes a third one.
"""

PURGED = frozenset({KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT})
"""Errors of messages of an aborted transaction; their causes are those of others."""

MAX_FENCINGS = 3
"""This many fencings within ``FENCING_SECONDS`` mean that another process uses the same transactional id."""

FENCING_SECONDS = 60.0


class RecoveryAction(Enum):
    """The action that an error calls for: retry the step, abort the transaction, or replace the producer."""

    RETRY = "retry"
    ABORT = "abort"
    RENEW = "renew"


class TransactionOutcome(StrEnum):
    """The end of a transaction. If it is not ``COMMITTED``, the input is read again from the committed offsets."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


class TransactionStepError(Exception):
    """A step of a transaction has failed and is not retried; ``action``: how to recover (never ``RETRY``)."""

    def __init__(self, step: str, action: RecoveryAction, error: KafkaError) -> None:
        super().__init__(f"{step}: {explained(error)}")
        self.action = action
        self.code: int = error.code()
        self.fenced = error.code() in {KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH}


def recovery_for(error: KafkaError) -> RecoveryAction:
    """Map librdkafka's error flags to a recovery action. An error without a flag is treated as fatal."""
    if error.fatal():
        return RecoveryAction.RENEW
    if error.txn_requires_abort():
        return RecoveryAction.ABORT
    return RecoveryAction.RETRY if error.retriable() else RecoveryAction.RENEW


class TransactionalProducer:
    """Writes batches under one transactional id: ``begin``, then ``commit`` or ``abort``.

    The steps of a transaction may run on different threads, one after the other. ``connect`` makes a new client.
    ``running`` returns False when the process stops. ``expiry``: seconds after which the brokers abort an open
    transaction. ``retry_delay``: the least seconds that the client waits before it sends a request again.
    ``on_refused`` is called with the error of ``REFUSED_MESSAGE`` for which a broker refuses a transaction.
    ``properties_version`` returns another number when ``connect`` has other properties; a transaction begins with a
    client that has the latest ones.
    """

    def __init__(
        self,
        *,
        connect: Callable[[], Producer],
        transactional_id: str,
        running: Callable[[], bool],
        expiry: float,
        retry_delay: float,
        on_refused: Callable[[int], None] = lambda _: None,
        properties_version: Callable[[], int] = lambda: 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connect = connect
        self._id = transactional_id
        self._running = running
        self._expiry = expiry
        self._retry_delay = retry_delay
        self._on_refused = on_refused
        self._properties_version = properties_version
        self._version = 0
        self._clock = clock
        self._request_in_doubt = False
        self._undelivered: set[object] | None = None
        self._client: Producer | None = None
        self._in_transaction = False
        self._expedited = False
        self._attempts_start = 0.0
        self._transaction_start = 0.0
        self._fencings: deque[float] = deque(maxlen=MAX_FENCINGS)

    @property
    def ready(self) -> bool:
        """Whether there is a client to write with. After the outcome ``UNKNOWN`` there is none until ``open``."""
        return self._client is not None

    def open(self) -> bool:
        """Connect a client and initialise its transactions; wait for the brokers. Return False when stopping.

        Raises ServiceError if Kafka refuses the transactional id.
        """
        self._client, self._version = None, self._properties_version()
        client = self._connect()
        while self._running():
            try:
                client.init_transactions(ATTEMPT_SECONDS)
            except KafkaException as failure:
                self._check_retriable(failure.args[0])
            else:
                self._client, self._request_in_doubt = client, False
                return True
        return False

    def begin(self, produce: Callable[[SendMessages], None]) -> TransactionOutcome | None:
        """Begin a transaction with the messages that ``produce`` sends.

        If the last transaction may have sent a request twice, or if the properties have changed, the client is
        replaced first. Return None if the transaction is open, or the outcome of the failed one. Raises ServiceError as
        ``open`` does.
        """
        if self._request_in_doubt:
            log.info("a request of the last transaction may arrive late: the producer is initialised again")
        if (self._request_in_doubt or self._version != self._properties_version()) and not self.open():
            return TransactionOutcome.UNKNOWN
        client = self._connected_client()
        self._expedited, self._attempts_start = False, self._clock()
        self._transaction_start = self._attempts_start
        try:
            self._step("begin", lambda _: client.begin_transaction(), on_timeout=RecoveryAction.RENEW)
            self._in_transaction = True
            produce(self.send)
        except TransactionStepError as failure:
            return self._recover(failure)
        return None

    def commit(self, offsets: list[TopicPartition], group: object, on_logged: Callable[[], None]) -> TransactionOutcome:
        """Commit the open transaction together with the offsets of the input.

        ``group``: the consumer group's metadata, which fences former members. ``on_logged`` is called when all records
        are in the logs of their partitions; they are not committed yet.
        """
        client, self._attempts_start = self._connected_client(), self._clock()
        try:
            self._request(
                "offsets",
                lambda t: client.send_offsets_to_transaction(offsets, group, t),
                on_timeout=RecoveryAction.ABORT,
            )
            self._step("flush", lambda t: _flush(client, t), on_timeout=RecoveryAction.ABORT)
            on_logged()
            self._request("commit", client.commit_transaction, on_timeout=RecoveryAction.RENEW)
        except TransactionStepError as failure:
            return self._recover(failure)
        self._in_transaction, self._undelivered = False, None
        return TransactionOutcome.COMMITTED

    def abort(self) -> TransactionOutcome:
        """Abort the open transaction, if there is one."""
        return TransactionOutcome.ABORTED if not self._in_transaction or self._abort() else self._drop_client()

    def expedite(self) -> None:
        """Shorten the time limit of the open transaction's steps. May be called from any thread."""
        self._expedited = True

    def send(
        self,
        topic: str,
        partition: int,
        messages: Iterable[OutgoingMessage],
        watch: DeliveryWatch | None = None,
        /,
    ) -> list[int]:
        """Add messages to the open transaction; return the indices of those that are too large, which are not sent.

        ``produce`` takes three quarters of the time with positional arguments; two of them are callbacks.
        """
        produce, too_large = self._connected_client().produce, []
        unwatched = self._log_undelivered if self._undelivered is not None else None
        for index, (value, key, timestamp, headers) in enumerate(messages):
            callback = self._watched(watch, index) if watch else unwatched
            try:
                produce(topic, value, key, partition, callback, None, timestamp, headers)
            except (BufferError, KafkaException) as failure:
                retry = partial(produce, topic, value, key, partition, callback, None, timestamp, headers)
                if not self._send_when_room(failure, retry, f"produce to partition {partition} of {topic}"):
                    too_large.append(index)
        return too_large

    def _log_undelivered(self, error: KafkaError | None, message: Any) -> None:
        """Log each cause of undelivered records once; the error of the transaction names none."""
        if error is None or self._undelivered is None or error.code() in PURGED:
            return
        if (cause := (message.topic(), error.code())) not in self._undelivered:
            self._undelivered.add(cause)
            log.warning("records for %s are not delivered: %s", message.topic(), explained(error))

    def _watched(self, watch: DeliveryWatch, index: int) -> Callable[[KafkaError | None, Any], None]:
        """Return the receiver of a message's delivery report, after a flush if there is a cut before the message."""
        if index in watch.cuts:
            self._step("flush", lambda t: _flush(self._connected_client(), t), on_timeout=RecoveryAction.ABORT)
        return partial(watch.on_delivered, index)

    def close(self) -> None:
        """Abort the open transaction and release the client."""
        self.abort()
        self._client = None

    def _send_when_room(self, failure: BufferError | KafkaException, produce: Callable[[], None], step: str) -> bool:
        """Send a message when the client's queue has room. Return False if the message is too large.

        ``step``: the topic and partition, for the error of a topic that has fewer partitions than the input.
        """
        client = self._connected_client()
        while isinstance(failure, BufferError):
            with fatal_errors(client):
                client.poll(0.1)
            try:
                produce()
            except (BufferError, KafkaException) as another:
                failure = another
            else:
                return True
        _raise_unless_too_large(_transaction_error(client, failure.args[0]), step)
        return False

    def _connected_client(self) -> Producer:
        if self._client is None:
            raise ServiceError("the producer is not open")
        return self._client

    def _request(self, name: str, attempt: Callable[[float], None], *, on_timeout: RecoveryAction) -> None:
        """Do a step whose requests have no sequence numbers; note whether one of them may still be on its way."""
        start, clean = self._clock(), False
        try:
            attempts = self._step(name, attempt, on_timeout=on_timeout)
            clean = attempts == 1 and self._clock() - start < self._retry_delay
        finally:
            self._request_in_doubt |= not clean

    def _step(self, name: str, attempt: Callable[[float], None], *, on_timeout: RecoveryAction) -> int:
        """Retry a step until it succeeds; return the number of attempts.

        Raises TransactionStepError; ``on_timeout``: its action at the time limit.
        """
        attempts = 0
        while True:
            attempts += 1
            try:
                with fatal_errors(self._connected_client()):
                    attempt(ATTEMPT_SECONDS)
                    return attempts
            except KafkaException as failure:
                error = failure.args[0]
            if (action := recovery_for(error)) is RecoveryAction.ABORT:
                error = _transaction_error(self._connected_client(), error)
            if action is not RecoveryAction.RETRY:
                raise TransactionStepError(name, action, error)
            if self._clock() - self._attempts_start > self._patience():
                raise TransactionStepError(name, on_timeout, error)

    def _patience(self) -> float:
        """Return the time limit of the steps, in seconds."""
        return STEP_PATIENCE_SECONDS if self._running() and not self._expedited else EXPEDITED_PATIENCE_SECONDS

    def _recover(self, failure: TransactionStepError) -> TransactionOutcome:
        log.warning("transaction failed (%s), recovery: %s", failure, failure.action.value)
        if failure.action is RecoveryAction.ABORT:
            self._undelivered = self._undelivered or set()
            if failure.code in REFUSED_MESSAGE:
                self._on_refused(failure.code)
            return TransactionOutcome.ABORTED if self._abort() else self._drop_client()
        self._count_fencing(failure)
        return self._drop_client()

    def _drop_client(self) -> TransactionOutcome:
        self._client, self._in_transaction = None, False
        return TransactionOutcome.UNKNOWN

    def _abort(self) -> bool:
        """Abort the open transaction. Return False if the result is not known."""
        self._attempts_start = self._clock()
        try:
            self._request("abort", self._connected_client().abort_transaction, on_timeout=RecoveryAction.RENEW)
        except TransactionStepError as failure:
            log.warning("transaction could not be aborted (%s), recovery: renew", failure)
            self._count_fencing(failure)
            return False
        self._in_transaction = False
        return True

    def _check_retriable(self, error: KafkaError) -> None:
        if recovery_for(error) is not RecoveryAction.RETRY:
            raise ServiceError(f"transactional id {self._id!r} cannot be used: {explained(error)}")
        log.warning("waiting for the transaction coordinator: %s", explained(error))

    def _count_fencing(self, failure: TransactionStepError) -> None:
        """Count fencings by another process. An expired transaction fences its own producer and is not counted.

        Raises ServiceError if there are too many.
        """
        if not failure.fenced or self._clock() - self._transaction_start >= self._expiry:
            return
        self._fencings.append(self._clock())
        if len(self._fencings) == MAX_FENCINGS and self._fencings[-1] - self._fencings[0] < FENCING_SECONDS:
            raise ServiceError(
                f"another process uses the transactional id {self._id!r}; give each worker its own worker.instance"
            )


def _raise_unless_too_large(error: KafkaError, step: str) -> None:
    """Raise TransactionStepError for any error except that of a message that is too large."""
    if error.code() != KafkaError.MSG_SIZE_TOO_LARGE:
        raise TransactionStepError(step, RecoveryAction.RENEW if error.fatal() else RecoveryAction.ABORT, error)


def _transaction_error(client: Producer, error: KafkaError) -> KafkaError:
    """Return the error that has failed the open transaction, if it is the reason why a step is not possible."""
    if error.code() == KafkaError._STATE:
        try:
            client.begin_transaction()
        except KafkaException as failure:
            error = failure.args[0]
    return error


def _flush(client: Producer, timeout: float) -> None:
    """Wait until all records are delivered. A failed delivery makes the transaction's next step fail."""
    if client.flush(timeout):
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "records are not delivered yet", False, True, False))
