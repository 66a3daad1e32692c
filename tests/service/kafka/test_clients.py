"""Clients of librdkafka from the configuration."""

from __future__ import annotations

import pytest
from support.small_configuration import small_configuration

from stream_masker.errors import ConfigurationError
from stream_masker.service.configuration import parse_configuration
from stream_masker.service.configuration.model import Configuration
from stream_masker.service.kafka.clients import confluent_properties, connect_producer


def configured(**kafka: object) -> Configuration:
    return parse_configuration(small_configuration("principal", kafka=kafka, mechanism={"reference": "mean"}))


@pytest.mark.parametrize("properties", [{"compression.type": "no-such-codec"}, {"acks": 1}])
def test_invalid_properties_are_a_configuration_error(properties: dict[str, object]) -> None:
    given = confluent_properties(configured(properties=properties))
    with pytest.raises(ConfigurationError, match=r"kafka\.properties"):
        connect_producer({"enable.idempotence": True, **given})
