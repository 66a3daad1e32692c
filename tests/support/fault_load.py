"""The publisher of a stream under faults, and what becomes of its records."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import KafkaError, Producer
from fault_checker import numbered
from kafka_records import QUIET
from workers import START, value

PARTITIONS = 6
REJECTED = b'{"id": 1, "first": "Z99", "second": "C11"}'


class Load:
    """Publishes numbered records on a thread: mostly events, some with an unknown code, some tombstones."""

    def __init__(self, bootstrap: str, topic: str, rate: float) -> None:
        self.topic = topic
        self.rate = rate
        self.sent = 0
        self.kinds: dict[int, str] = {}
        self.errors: list[KafkaError] = []
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "message.timeout.ms": 600_000,
                "linger.ms": 5,
                **QUIET,
            }
        )
        self._more = 0
        self._hostile: list[tuple[bytes, str, int | None]] = []
        self._stop, self._go, self._paused = threading.Event(), threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="load", daemon=True)

    def __enter__(self) -> Load:
        self._thread.start()
        self._go.set()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._go.set()
        self._thread.join(30)

    @contextmanager
    def paused(self) -> Iterator[int]:
        """Pause the publisher when all its records are in the topic; yields their number."""
        self._paused.clear()
        self._go.clear()
        assert self._paused.wait(120), "the publisher cannot publish"
        assert not self.errors, self.errors[0]
        yield self.sent
        self._go.set()

    def burst(self, records: int) -> None:
        """Publish this many additional records at once."""
        self._more += records

    def send_hostile(self, value: bytes, reason: str, records: int, timestamp: int | None = None) -> None:
        """Publish records of this value among the next ones; all must be rejected for this reason."""
        self._hostile.extend([(value, reason, timestamp)] * records)

    def _run(self) -> None:
        due = time.monotonic()
        while not self._stop.is_set():
            if not self._go.is_set():
                self._producer.flush(120)
                self._paused.set()
                self._go.wait()
                due = time.monotonic()
            more, self._more = self._more, 0
            for _ in range(max(1, int(self.rate / 50)) + more):
                self._send(self.sent)
                self.sent += 1
            self._producer.poll(0)
            due += max(1, int(self.rate / 50)) / self.rate
            time.sleep(max(0.0, due - time.monotonic()))

    def _send(self, number: int) -> None:
        value, timestamp = self._record(number)
        self._producer.produce(
            self.topic,
            value,
            key=b"p%d" % (number % 7),
            partition=number % PARTITIONS,
            timestamp=timestamp,
            headers=numbered(number),
            on_delivery=lambda error, _: self.errors.append(error) if error else None,
        )

    def _record(self, number: int) -> tuple[bytes | None, int]:
        """Return the value and the timestamp of a record."""
        ordinary = START + number
        if self._hostile:
            hostile, self.kinds[number], timestamp = self._hostile.pop()
            return hostile, ordinary if timestamp is None else timestamp
        if number % 53 == 7:
            self.kinds[number] = "unknown_code"
            return REJECTED, ordinary
        return (None if number % 97 == 5 else value(number)), ordinary
