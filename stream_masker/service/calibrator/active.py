"""Which calibrator is active, as the consumer group tells."""

from __future__ import annotations

from confluent_kafka import KafkaException

from stream_masker.service.calibrator.engine import STANDBY_REASON
from stream_masker.service.configuration import Configuration
from stream_masker.service.kafka.broker_watch import REQUEST_SECONDS
from stream_masker.service.kafka.clients import confluent_properties, connect_admin
from stream_masker.service.kafka.names import calibrator_group
from stream_masker.service.observability.health import Health


def active_elsewhere(configuration: Configuration, health: Health) -> str | None:
    """Return the address of the active calibrator while this one stands by; None if it is not known."""
    if STANDBY_REASON not in health.notes:
        return None
    client = connect_admin({**confluent_properties(configuration), "log_level": 0, "error_cb": lambda _: None})
    [group] = client.describe_consumer_groups(
        [calibrator_group(configuration)], request_timeout=REQUEST_SECONDS
    ).values()
    try:
        members = group.result().members
    except KafkaException:
        return None
    active = (member.host.lstrip("/") for member in members if member.assignment.topic_partitions)
    return next((f"at {host}" for host in active), None)
