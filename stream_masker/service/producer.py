"""The transactional producer: all of a batch in one transaction, and what to do when one fails.

librdkafka says of each error whether to try again, to abort, or to give the producer up. It has no KIP-890, so a
commit without a known result leaves a producer that cannot be trusted: it is dropped, and a new one under the same
transactional id first has the coordinator settle the old transaction. Which offsets were committed then decides.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable
from enum import Enum, StrEnum
from typing import Any, Protocol, TypeAlias

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from stream_masker.errors import ServiceError

log = logging.getLogger(__name__)

Headers = list[tuple[str, bytes | None]]

SLICE = 5.0
"""Seconds of one attempt at a step; between attempts the process shows that it is alive."""

PATIENCE = 60.0
"""Seconds after which a step that is only ever to be tried again has failed; ``HURRY`` of them while stopping."""

HURRY = 10.0

FENCINGS = 3
"""So many fencings within ``FENCING_SECONDS`` are no accident: another process uses the same transactional id."""

FENCING_SECONDS = 60.0


class Verdict(Enum):
    """What an error asks for."""

    RETRY = "retry"
    ABORT = "abort"
    RENEW = "renew"


class Outcome(StrEnum):
    """What became of a transaction. After anything but ``COMMITTED`` the input is read again from what is committed."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


class Client(Protocol):
    """What is used of ``confluent_kafka.Producer``."""

    def init_transactions(self, timeout: float) -> None: ...
    def begin_transaction(self) -> None: ...
    def produce(self, *args: Any, **named: Any) -> None: ...
    def poll(self, timeout: float) -> int: ...
    def send_offsets_to_transaction(self, positions: list[TopicPartition], group: object, timeout: float) -> None: ...
    def commit_transaction(self, timeout: float) -> None: ...
    def abort_transaction(self, timeout: float) -> None: ...


Send: TypeAlias = Callable[..., bool]
"""``send(topic, value, key, partition, timestamp, headers)``: False for a message larger than Kafka takes."""


class StepError(Exception):
    """A step of a transaction failed for good; ``verdict`` says what now (never ``RETRY``)."""

    def __init__(self, step: str, verdict: Verdict, error: KafkaError) -> None:
        super().__init__(f"{step}: {error.str()}")
        self.verdict = verdict
        self.fenced = error.code() in {KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH}


def verdict_on(error: KafkaError) -> Verdict:
    """What librdkafka's flags ask for; an error without any of them is to be treated as fatal."""
    if error.fatal():
        return Verdict.RENEW
    if error.txn_requires_abort():
        return Verdict.ABORT
    return Verdict.RETRY if error.retriable() else Verdict.RENEW


class TransactionalProducer:
    """Writes batches, each in one transaction, under one transactional id.

    ``connect`` makes a new client; ``turn`` is called while waiting and says whether to go on (False: stopping).
    """

    def __init__(
        self,
        *,
        connect: Callable[[], Client],
        transactional_id: str,
        turn: Callable[[], bool],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connect = connect
        self._id = transactional_id
        self._turn = turn
        self._clock = clock
        self._client: Client | None = None
        self._writing = False
        self._fencings: deque[float] = deque(maxlen=FENCINGS)

    def open(self) -> bool:
        """Gets a client whose transactions are settled; waits for the brokers. False: stopping.

        Raises ServiceError when Kafka refuses the transactional id.
        """
        self._client = None
        client = self._connect()
        while self._turn():
            try:
                client.init_transactions(SLICE)
            except KafkaException as failure:
                self._judge_opening(failure.args[0])
            else:
                self._client = client
                return True
        return False

    def write(self, produce: Callable[[Send], None], offsets: list[TopicPartition], group: object) -> Outcome:
        """One transaction: what ``produce`` sends, and the input's offsets, which only the group's member may set."""
        client = self._opened()
        self._writing = True
        outcome = self._attempt(client, produce, offsets, group)
        self._writing = False
        return outcome

    def send(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        partition: int,
        timestamp: int,
        headers: Headers,
    ) -> bool:
        """Puts a message into the open transaction; False, and nothing sent, if it is larger than Kafka takes."""
        client = self._opened()
        while True:
            try:
                client.produce(topic, value, key, partition, timestamp=timestamp, headers=headers)
            except BufferError:
                client.poll(0.1)
            except KafkaException as failure:
                return _too_large(failure.args[0])
            else:
                return True

    def close(self) -> None:
        """Lets the client go; aborts what a ``write`` that was cut short left open."""
        if self._writing and self._client is not None:
            self._aborted()
        self._client = None

    def _attempt(
        self, client: Client, produce: Callable[[Send], None], offsets: list[TopicPartition], group: object
    ) -> Outcome:
        try:
            self._step("begin", lambda _: client.begin_transaction(), late=Verdict.RENEW)
            produce(self.send)
            self._step("offsets", lambda t: client.send_offsets_to_transaction(offsets, group, t), late=Verdict.ABORT)
            self._step("commit", client.commit_transaction, late=Verdict.RENEW)
        except StepError as failure:
            return self._recover(failure)
        return Outcome.COMMITTED

    def _opened(self) -> Client:
        if self._client is None:
            raise ServiceError("the producer is not open")
        return self._client

    def _step(self, name: str, attempt: Callable[[float], None], *, late: Verdict) -> None:
        """Tries until it works, or raises StepError; ``late``: the verdict when time is up."""
        start = self._clock()
        while True:
            try:
                return attempt(SLICE)
            except KafkaException as failure:
                error = failure.args[0]
            if (verdict := verdict_on(error)) is not Verdict.RETRY:
                raise StepError(name, verdict, error)
            if self._clock() - start > (PATIENCE if self._turn() else HURRY):
                raise StepError(name, late, error)

    def _recover(self, failure: StepError) -> Outcome:
        log.warning("transaction failed (%s), %s", failure, failure.verdict.value)
        if failure.verdict is Verdict.ABORT and self._aborted():
            return Outcome.ABORTED
        self._note_fencing(failure)
        self.open()
        return Outcome.UNKNOWN

    def _aborted(self) -> bool:
        try:
            self._step("abort", self._opened().abort_transaction, late=Verdict.RENEW)
        except StepError as failure:
            log.warning("transaction not aborted (%s), renew", failure)
            self._note_fencing(failure)
            return False
        return True

    def _judge_opening(self, error: KafkaError) -> None:
        if verdict_on(error) is not Verdict.RETRY:
            raise ServiceError(f"transactional id {self._id!r} cannot be used: {error.str()}")
        log.warning("waiting for the transaction coordinator: %s", error.str())

    def _note_fencing(self, failure: StepError) -> None:
        if not failure.fenced:
            return
        self._fencings.append(self._clock())
        if len(self._fencings) == FENCINGS and self._fencings[-1] - self._fencings[0] < FENCING_SECONDS:
            raise ServiceError(
                f"another process uses the transactional id {self._id!r}; give each worker a worker.instance of its own"
            )


def _too_large(error: KafkaError) -> bool:
    """False for a message that is too large; any other error ends the transaction."""
    if error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
        return False
    raise StepError("produce", Verdict.RENEW if error.fatal() else Verdict.ABORT, error)
