"""A transactional producer with fake clients whose steps fail as scripted."""

from __future__ import annotations

from collections.abc import Callable

from confluent_kafka import KafkaError, KafkaException

from stream_masker.service.kafka.transactional_producer import TransactionalProducer, TransactionOutcome


def kafka_error(code: int = KafkaError._TIMED_OUT, *, fatal=False, retriable=False, abort=False) -> KafkaError:
    return KafkaError(code, "a reason", fatal, retriable, abort)


RETRY = kafka_error(retriable=True)
ABORT = kafka_error(KafkaError.ILLEGAL_GENERATION, abort=True)
FATAL = kafka_error(KafkaError._FATAL, fatal=True)
FENCED = kafka_error(KafkaError._FENCED, fatal=True)
OLD_EPOCH = kafka_error(KafkaError.INVALID_PRODUCER_EPOCH, abort=True)
UNFLAGGED = kafka_error(KafkaError._STATE)
TOO_LARGE = kafka_error(KafkaError.MSG_SIZE_TOO_LARGE)

EXPIRY = 20.0

RETRY_DELAY = 1.5
"""Seconds after which the fake client would send a request again; a step takes one second."""


class ManualClock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class ScriptedClient:
    """A client whose steps fail as scripted, {step: [error, ...]}, and then succeed."""

    def __init__(self, clock: ManualClock, failures: dict[str, list[KafkaError]]) -> None:
        self.clock = clock
        self.failures = failures
        self.calls: list[str] = []
        self.sent: list[object] = []
        self.callbacks: list[Callable[..., None]] = []
        self.full = 0
        self.unsent = 0
        self.crashes = False
        self.slow: dict[str, float] = {}

    def step(self, name: str) -> None:
        self.calls.append(name)
        self.clock.now += 1 + self.slow.get(name, 0.0)
        if self.failures.get(name):
            raise KafkaException(self.failures[name].pop(0))

    def init_transactions(self, timeout: float) -> None:
        self.step("init")

    def begin_transaction(self) -> None:
        self.step("begin")

    def produce(self, topic, value, key, partition, callback, on_delivery, timestamp, headers) -> None:
        if self.full:
            self.full -= 1
            raise BufferError
        self.step("produce")
        self.callbacks.append(callback)
        self.sent.append((topic, value, key, partition, timestamp, headers))

    def poll(self, timeout: float) -> int:
        self.calls.append("poll")
        return 0

    def send_offsets_to_transaction(self, positions, group, timeout: float) -> None:
        self.step("offsets")

    def flush(self, timeout: float) -> int:
        self.step("flush")
        if self.crashes:
            raise SystemError("flush returned NULL without setting an exception")
        self.unsent -= 1
        return max(0, self.unsent)

    def commit_transaction(self, timeout: float) -> None:
        self.step("commit")

    def abort_transaction(self, timeout: float) -> None:
        self.step("abort")


class ProducerBench:
    """A producer with fake clients, each with its own script."""

    def __init__(self, *scripts: dict[str, list[KafkaError]]) -> None:
        self.clock = ManualClock()
        self.clients: list[ScriptedClient] = []
        self.scripts = list(scripts)
        self.running = True
        self.logged: list[int] = []
        self.refused: list[int] = []
        self.version = 0
        self.producer = TransactionalProducer(
            connect=self.connect,
            transactional_id="group.one",
            running=lambda: self.running,
            expiry=EXPIRY,
            retry_delay=RETRY_DELAY,
            on_refused=self.refused.append,
            properties_version=lambda: self.version,
            clock=self.clock,
        )

    def connect(self) -> ScriptedClient:
        self.clients.append(ScriptedClient(self.clock, self.scripts.pop(0) if self.scripts else {}))
        return self.clients[-1]

    def write(self, produce: Callable[..., object] | None = None) -> TransactionOutcome:
        """Write one transaction; reopen the producer if its client is lost."""
        self.logged = []
        outcome = self.producer.begin(produce or one_message) or self.producer.commit([], "group", self.on_logged)
        assert self.producer.ready is (outcome is not TransactionOutcome.UNKNOWN)
        if outcome is TransactionOutcome.UNKNOWN:
            self.producer.open()
        return outcome

    def on_logged(self) -> None:
        self.logged.append(len(self.clients[-1].calls))

    @property
    def calls(self) -> list[str]:
        """The steps after the first client's opening."""
        return [call for client in self.clients for call in client.calls][1:]


def one_message(send) -> None:
    assert send("masked", 3, [(b"v", b"k", 1234, [("h", b"1")])]) == []


def open_bench(*scripts: dict[str, list[KafkaError]]) -> ProducerBench:
    bench = ProducerBench(*scripts)
    assert bench.producer.open()
    return bench
