"""The controller of a cluster: absent on the in-memory broker, and being chosen for a moment on others."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from stream_masker.service.demo.run import EmbeddedBroker
from stream_masker.service.kafka.failures import require_controller


def admin_of(controller: int) -> Any:
    """Return a client of a cluster with the brokers 1 and 2."""
    return SimpleNamespace(
        list_topics=lambda timeout: SimpleNamespace(controller_id=controller, brokers={1: "", 2: ""})
    )


@pytest.mark.parametrize("controller", [1, 2, -1])
def test_a_controller_that_exists_or_is_being_chosen_is_no_error(controller: int) -> None:
    asked: list[float] = []
    admin = admin_of(controller)
    known = admin.list_topics
    admin.list_topics = lambda timeout: asked.append(timeout) or known(timeout)
    require_controller(admin, seconds=3.0)
    assert asked == [3.0]


def test_a_controller_that_is_no_broker_is_an_error() -> None:
    with pytest.raises(KafkaException, match="the cluster has no controller"):
        require_controller(admin_of(3), seconds=3.0)


def test_the_embedded_broker_has_none() -> None:
    with EmbeddedBroker() as broker:
        admin = AdminClient({"bootstrap.servers": broker.address, "log_level": 0})
        with pytest.raises(KafkaException, match="the cluster has no controller"):
            require_controller(admin, seconds=10.0)
