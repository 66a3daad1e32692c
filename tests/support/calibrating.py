"""A calibrator in threads of the test process, with a plain consumer instead of Faust."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import OFFSET_BEGINNING, TopicPartition
from prometheus_client import CollectorRegistry

from stream_masker.service.calibrator.components import build_components
from stream_masker.service.calibrator.engine import CalibratorEngine
from stream_masker.service.calibrator.metrics import initialise_counters
from stream_masker.service.configuration import Configuration
from stream_masker.service.kafka.topic_reader import SINGLE_PARTITION, connect_reader
from stream_masker.service.observability.health import Health
from stream_masker.service.observability.metrics import Metrics

TICK_SECONDS = 0.2


@contextmanager
def calibrating(configuration: Configuration) -> Iterator[None]:
    """Run a calibrator while the block runs. Raises the exception that ended it early."""
    failures: list[BaseException] = []
    metrics = Metrics(CollectorRegistry(), "calibrator")
    initialise_counters(metrics)
    engine, done = (
        CalibratorEngine(build_components(configuration), metrics, Health(), failures.append),
        threading.Event(),
    )
    driver = threading.Thread(target=_drive, args=(engine, configuration, done, failures), daemon=True)
    engine.start()
    engine.assigned(active=True)
    driver.start()
    try:
        yield
    finally:
        done.set()
        driver.join(30)
        engine.stop()
    if failures:
        raise failures[0]


def _drive(
    engine: CalibratorEngine, configuration: Configuration, done: threading.Event, failures: list[BaseException]
) -> None:
    try:
        with connect_reader(configuration) as consumer:
            consumer.assign([TopicPartition(configuration.topics.calibration, SINGLE_PARTITION, OFFSET_BEGINNING)])
            while not done.is_set():
                engine.pulse()
                engine.tick()
                for message in consumer.consume(100, TICK_SECONDS):
                    if message.error() is None:
                        written = message.timestamp()[1], message.key(), message.value() or b""
                        asyncio.run(engine.deliver(message.offset(), *written))
    except BaseException as failure:
        failures.append(failure)
