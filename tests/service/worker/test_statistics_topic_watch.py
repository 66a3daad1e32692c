"""The watch of the statistics topic on a cluster without a controller, such as the embedded broker."""

from __future__ import annotations

import logging

import pytest
from support.documented import parse_configuration
from support.small_configuration import small_configuration

from stream_masker.service.demo.run import EmbeddedBroker
from stream_masker.service.kafka.topic_identity import TopicWatch


def test_no_request_waits_for_a_controller_that_does_not_exist(caplog: pytest.LogCaptureFixture) -> None:
    with EmbeddedBroker() as broker, caplog.at_level(logging.WARNING):
        configuration = parse_configuration(small_configuration("a", kafka={"bootstrap_servers": broker.address}))
        assert not TopicWatch.of(configuration, configuration.topics.statistics).look()
    assert [record.getMessage() for record in caplog.records] == [
        "the id of a topic is not known: the cluster has no controller"
    ]
