"""The settings of topics: the compression of the input, and the controller that answers requests for settings."""

from __future__ import annotations

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

COMPRESSION_TYPE, UNCOMPRESSED = "compression.type", "uncompressed"
"""The input's compression. Otherwise a producer could send batches of some kilobytes that take gigabytes when a worker
decompresses them; this way the broker decompresses each batch and refuses it if it is larger than the topic allows."""


def require_controller(admin: AdminClient, *, seconds: float) -> None:
    """Raise KafkaException if the cluster's controller is none of its brokers, or if no broker answers.

    An AdminClient waits for the controller until its request times out. librdkafka's in-memory broker names one that
    does not exist. A cluster that is choosing its controller names none, which is not an error.
    """
    cluster = admin.list_topics(timeout=seconds)
    if cluster.controller_id >= 0 and cluster.controller_id not in cluster.brokers:
        raise KafkaException(KafkaError(KafkaError._STATE, "the cluster has no controller"))


def alter_command(topic: str, name: str, value: object) -> str:
    """Return the command that changes a setting of a topic."""
    return f"kafka-configs.sh --alter --entity-type topics --entity-name {topic} --add-config {name}={value}"


def compression_advice(topic: str, compression: str) -> str:
    """Return why an input topic should not be compressed, and the remedy."""
    return (
        f"{COMPRESSION_TYPE}={compression}: a producer can send some kilobytes that take more memory than the worker "
        f"has when they are decompressed: {alter_command(topic, COMPRESSION_TYPE, UNCOMPRESSED)}"
    )
