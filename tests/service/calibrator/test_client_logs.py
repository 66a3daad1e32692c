"""Log levels and rate limits of other libraries."""

from __future__ import annotations

import logging

import pytest

from stream_masker.service.calibrator.faust_app import (
    NOISY_LOGGERS,
    limit_client_logs,
)


@pytest.mark.usefixtures("restored_loggers")
def test_debug_logs_of_other_libraries_are_never_enabled(caplog: pytest.LogCaptureFixture) -> None:
    for level in (logging.DEBUG, logging.INFO):
        with caplog.at_level(level):
            limit_client_logs()
            assert not any(logging.getLogger(name).isEnabledFor(logging.DEBUG) for name in NOISY_LOGGERS)


@pytest.mark.usefixtures("restored_loggers")
@pytest.mark.parametrize("name", ["aiokafka.conn", "stream_masker.kafka"])
def test_client_logger_is_rate_limited(name: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        limit_client_logs()
        for number in range(100):
            logging.getLogger(name).error("%s: no broker at attempt %d", name, number)
    assert [record.getMessage().removeprefix("Kafka: ") for record in caplog.records] == [
        f"{name}: no broker at attempt 0"
    ]
