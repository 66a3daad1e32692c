"""Log levels and rate limits of other libraries."""

from __future__ import annotations

import logging

import pytest

from stream_masker.service.calibrator.client_logs import (
    NOISY_LOGGERS,
    RateLimit,
    RelayHandler,
    limit_client_logs,
)


@pytest.mark.usefixtures("restored_loggers")
def test_debug_logs_of_other_libraries_are_never_enabled(caplog: pytest.LogCaptureFixture) -> None:
    for level in (logging.DEBUG, logging.INFO):
        with caplog.at_level(level):
            limit_client_logs()
            assert not any(logging.getLogger(name).isEnabledFor(logging.DEBUG) for name in NOISY_LOGGERS)


@pytest.mark.usefixtures("restored_loggers")
def test_repeated_client_messages_are_rate_limited(caplog: pytest.LogCaptureFixture) -> None:
    now = [100.0]
    relay = RelayHandler(RateLimit(clock=lambda: now[0]))
    with caplog.at_level(logging.WARNING):
        for now[0] in (100.0, 101.0, 129.9, 130.0, 131.0):
            relay.handle(logging.makeLogRecord({"msg": "no node %d", "args": (round(now[0]),)}))
    assert [record.getMessage() for record in caplog.records] == ["Kafka: no node 100", "Kafka: no node 130"]


@pytest.mark.usefixtures("restored_loggers")
@pytest.mark.parametrize("name", ["aiokafka.conn", "stream_masker.kafka"])
def test_client_logger_is_rate_limited(name: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        limit_client_logs()
        for _ in range(100):
            logging.getLogger(name).error("no broker")
    assert len(caplog.records) == 1
