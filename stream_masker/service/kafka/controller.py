"""The controller of a cluster, without which no request for the settings of topics is answered."""

from __future__ import annotations

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient


def require_controller(admin: AdminClient, *, seconds: float) -> None:
    """Raise KafkaException if the cluster's controller is none of its brokers, or if no broker answers.

    An AdminClient waits for the controller until its request times out. librdkafka's in-memory broker names one that
    does not exist. A cluster that is choosing its controller names none, which is not an error.
    """
    cluster = admin.list_topics(timeout=seconds)
    if cluster.controller_id >= 0 and cluster.controller_id not in cluster.brokers:
        raise KafkaException(KafkaError(KafkaError._STATE, "the cluster has no controller"))
