"""The transactional producer: all of a batch in one transaction, and what to do when one fails.

librdkafka says of each error whether to try again, to abort, or to give the producer up. It has no KIP-890, so a
commit without a known result leaves a producer that cannot be trusted: it is dropped, and a new one under the same
transactional id first has the coordinator settle the old transaction. Which offsets were committed then decides.

A commit's round trip is hidden by a second producer: see ``Lanes``.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable
from enum import Enum, StrEnum
from functools import partial
from typing import Any, Protocol, TypeAlias

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from stream_masker.errors import ServiceError
from stream_masker.service.kafka.clients import fatal_errors

log = logging.getLogger(__name__)

Headers = list[tuple[str, bytes | None]]

OutgoingMessage: TypeAlias = tuple[bytes | None, bytes | None, int, Headers]
"""A message: value, key, timestamp in milliseconds (0: now), headers."""

ATTEMPT_SECONDS = 2.0
"""Seconds of one attempt at a step."""

STEP_PATIENCE_SECONDS = 20.0
"""Seconds after which retried steps have failed; ``EXPEDITED_PATIENCE_SECONDS`` when expedited.

A dead transaction of ours keeps readers waiting for as long (``TRANSACTION_MS``): later there is nothing to commit.
"""

EXPEDITED_PATIENCE_SECONDS = 4.0
"""While stopping, and while partitions wait to be given up: a pod has 30 seconds to end, and a transaction that has
to be given up takes two steps of at most ``HURRY + SLICE``, one that is merely filled a third."""

MAX_FENCINGS = 3
"""So many fencings within ``FENCING_SECONDS`` are no accident: another process uses the same transactional id."""

FENCING_SECONDS = 60.0


class RecoveryAction(Enum):
    """What an error asks for."""

    RETRY = "retry"
    ABORT = "abort"
    RENEW = "renew"


class TransactionOutcome(StrEnum):
    """What became of a transaction. After anything but ``COMMITTED`` the input is read again from what is committed."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


class ProducerClient(Protocol):
    """What is used of ``confluent_kafka.Producer``."""

    def init_transactions(self, timeout: float) -> None: ...
    def begin_transaction(self) -> None: ...
    def produce(self, *args: Any, **named: Any) -> None: ...
    def poll(self, timeout: float) -> int: ...
    def send_offsets_to_transaction(self, positions: list[TopicPartition], group: object, timeout: float) -> None: ...
    def flush(self, timeout: float) -> int: ...
    def commit_transaction(self, timeout: float) -> None: ...
    def abort_transaction(self, timeout: float) -> None: ...


SendMessages: TypeAlias = Callable[[str, int, Iterable[OutgoingMessage]], list[int]]
"""``send(topic, partition, messages)``: sends them, and gives the indices of those too large for Kafka, left out."""


class TransactionStepError(Exception):
    """A step of a transaction failed for good; ``verdict`` says what now (never ``RETRY``)."""

    def __init__(self, step: str, verdict: RecoveryAction, error: KafkaError) -> None:
        super().__init__(f"{step}: {error.str()}")
        self.verdict = verdict
        self.fenced = error.code() in {KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH}


def recovery_for(error: KafkaError) -> RecoveryAction:
    """What librdkafka's flags ask for; an error without any of them is to be treated as fatal."""
    if error.fatal():
        return RecoveryAction.RENEW
    if error.txn_requires_abort():
        return RecoveryAction.ABORT
    return RecoveryAction.RETRY if error.retriable() else RecoveryAction.RENEW


class TransactionalProducer:
    """Writes batches, each in one transaction, under one transactional id: ``fill`` and then ``commit`` or ``abort``.

    Different threads may take these steps, one after the other. ``connect`` makes a new client; ``turn`` says whether
    to go on (False: stopping); ``expiry``: seconds after which the brokers end an open transaction by themselves.
    """

    def __init__(
        self,
        *,
        connect: Callable[[], ProducerClient],
        transactional_id: str,
        turn: Callable[[], bool],
        expiry: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connect = connect
        self._id = transactional_id
        self._turn = turn
        self._expiry = expiry
        self._clock = clock
        self._client: ProducerClient | None = None
        self._begun = False
        self._hurried = False
        self._since = 0.0
        self._start = 0.0
        self._fencings: deque[float] = deque(maxlen=MAX_FENCINGS)

    @property
    def ready(self) -> bool:
        """Whether there is a client to write with; after ``UNKNOWN`` there is none until ``open``."""
        return self._client is not None

    def successor(self) -> TransactionalProducer:
        """A producer of the same transactional id without a client: opening it shuts this one out."""
        return TransactionalProducer(
            connect=self._connect,
            transactional_id=self._id,
            turn=self._turn,
            expiry=self._expiry,
            clock=self._clock,
        )

    def open(self) -> bool:
        """Gets a client whose transactions are settled; waits for the brokers. False: stopping.

        Raises ServiceError when Kafka refuses the transactional id.
        """
        self._client = None
        client = self._connect()
        while self._turn():
            try:
                client.init_transactions(ATTEMPT_SECONDS)
            except KafkaException as failure:
                self._judge_opening(failure.args[0])
            else:
                self._client = client
                return True
        return False

    def fill(self, produce: Callable[[SendMessages], None]) -> TransactionOutcome | None:
        """Begins a transaction with what ``produce`` sends; None: it is open, else what became of it."""
        client = self._opened()
        self._hurried, self._since = False, self._clock()
        self._start = self._since
        try:
            self._step("begin", lambda _: client.begin_transaction(), late=RecoveryAction.RENEW)
            self._begun = True
            produce(self.send)
        except TransactionStepError as failure:
            return self._recover(failure)
        return None

    def commit(self, offsets: list[TopicPartition], group: object, in_log: Callable[[], None]) -> TransactionOutcome:
        """Commits what was filled, with the input's offsets, which only the group's member may set.

        ``in_log`` is called as soon as every record stands in its partition's log, not yet committed.
        """
        client, self._since = self._opened(), self._clock()
        try:
            self._step("flush", lambda t: _flush(client, t), late=RecoveryAction.ABORT)
            in_log()
            self._step(
                "offsets", lambda t: client.send_offsets_to_transaction(offsets, group, t), late=RecoveryAction.ABORT
            )
            self._step("commit", client.commit_transaction, late=RecoveryAction.RENEW)
        except TransactionStepError as failure:
            return self._recover(failure)
        self._begun = False
        return TransactionOutcome.COMMITTED

    def abort(self) -> TransactionOutcome:
        """Aborts what was filled, if anything was."""
        return TransactionOutcome.ABORTED if not self._begun or self._aborted() else self._lost()

    def hurry(self) -> None:
        """Has the steps of the open transaction give up soon; to be called from any thread."""
        self._hurried = True

    def send(self, topic: str, partition: int, messages: Iterable[OutgoingMessage]) -> list[int]:
        """Puts messages into the open transaction; the indices of those, not sent, that are larger than Kafka takes.

        A call of ``produce`` by place takes three quarters of the time of one by name; two places are of callbacks.
        """
        produce, too_large = self._opened().produce, []
        for index, (value, key, timestamp, headers) in enumerate(messages):
            try:
                produce(topic, value, key, partition, None, None, timestamp, headers)
            except (BufferError, KafkaException) as failure:
                again = partial(produce, topic, value, key, partition, None, None, timestamp, headers)
                if not self._insist(failure, again):
                    too_large.append(index)
        return too_large

    def close(self) -> None:
        """Lets the client go; aborts what is open."""
        self.abort()
        self._client = None

    def _insist(self, failure: BufferError | KafkaException, produce: Callable[[], None]) -> bool:
        """Sends a message as soon as the client's queue has room; False if it is too large."""
        client = self._opened()
        while isinstance(failure, BufferError):
            with fatal_errors(client):
                client.poll(0.1)
            try:
                produce()
            except (BufferError, KafkaException) as another:
                failure = another
            else:
                return True
        return _too_large(failure.args[0])

    def _opened(self) -> ProducerClient:
        if self._client is None:
            raise ServiceError("the producer is not open")
        return self._client

    def _step(self, name: str, attempt: Callable[[float], None], *, late: RecoveryAction) -> None:
        """Tries until it works, or raises StepError; ``late``: the verdict when time is up."""
        while True:
            try:
                with fatal_errors(self._opened()):
                    return attempt(ATTEMPT_SECONDS)
            except KafkaException as failure:
                error = failure.args[0]
            if (verdict := recovery_for(error)) is not RecoveryAction.RETRY:
                raise TransactionStepError(name, verdict, error)
            if self._clock() - self._since > (
                STEP_PATIENCE_SECONDS if self._turn() and not self._hurried else EXPEDITED_PATIENCE_SECONDS
            ):
                raise TransactionStepError(name, late, error)

    def _recover(self, failure: TransactionStepError) -> TransactionOutcome:
        log.warning("transaction failed (%s), %s", failure, failure.verdict.value)
        if failure.verdict is RecoveryAction.ABORT:
            return TransactionOutcome.ABORTED if self._aborted() else self._lost()
        self._note_fencing(failure)
        return self._lost()

    def _lost(self) -> TransactionOutcome:
        self._client, self._begun = None, False
        return TransactionOutcome.UNKNOWN

    def _aborted(self) -> bool:
        self._since = self._clock()
        try:
            self._step("abort", self._opened().abort_transaction, late=RecoveryAction.RENEW)
        except TransactionStepError as failure:
            log.warning("transaction not aborted (%s), renew", failure)
            self._note_fencing(failure)
            return False
        self._begun = False
        return True

    def _judge_opening(self, error: KafkaError) -> None:
        if recovery_for(error) is not RecoveryAction.RETRY:
            raise ServiceError(f"transactional id {self._id!r} cannot be used: {error.str()}")
        log.warning("waiting for the transaction coordinator: %s", error.str())

    def _note_fencing(self, failure: TransactionStepError) -> None:
        """Counts the fencings that another process alone explains: a transaction that expired fences us itself."""
        if not failure.fenced or self._clock() - self._start >= self._expiry:
            return
        self._fencings.append(self._clock())
        if len(self._fencings) == MAX_FENCINGS and self._fencings[-1] - self._fencings[0] < FENCING_SECONDS:
            raise ServiceError(
                f"another process uses the transactional id {self._id!r}; give each worker a worker.instance of its own"
            )


def _too_large(error: KafkaError) -> bool:
    """False for a message that is too large; any other error ends the transaction."""
    if error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
        return False
    raise TransactionStepError("produce", RecoveryAction.RENEW if error.fatal() else RecoveryAction.ABORT, error)


def _flush(client: ProducerClient, timeout: float) -> None:
    """Waits until nothing is left to send; what could not be written fails the transaction's next step."""
    if client.flush(timeout):
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "records are still to be written", False, True, False))
