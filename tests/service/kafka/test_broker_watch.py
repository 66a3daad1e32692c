"""The watch on brokers: it names in ``/readyz`` that none answers, and that one answers again."""

from __future__ import annotations

import socket

import pytest
from polling import attempts
from support.small_configuration import small_configuration

from stream_masker.service.configuration import parse_configuration
from stream_masker.service.demo.processes import embedded_broker
from stream_masker.service.kafka import clients
from stream_masker.service.observability.health import Health


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "WATCH_SECONDS", 0.05)
    monkeypatch.setattr(clients, "ANSWER_SECONDS", 0.5)


def reason_with(address: str) -> str:
    """Return why a process is not ready after its brokers were watched for a while."""
    kafka = {"bootstrap_servers": address}
    configuration = parse_configuration(small_configuration("principal", kafka=kafka, mechanism={"reference": "mean"}))
    health = Health()
    with clients.watched_brokers(configuration, health):
        for _ in attempts(3.0):
            if "no broker answers" in str(health.reasons):
                break
    return str(health.reasons)


def test_an_address_without_a_broker_is_named_with_what_to_check() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
        said = reason_with(address)
    assert f"no broker answers at {address}: check that the broker runs" in said


def test_a_broker_that_answers_is_no_reason() -> None:
    with embedded_broker() as address:
        assert "no broker answers" not in reason_with(address)
