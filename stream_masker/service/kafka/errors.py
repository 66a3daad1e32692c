"""Failures of Kafka as one message with cause and remedy, the same in every command and in ``/readyz``."""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka import KafkaError

from stream_masker.errors import ServiceError

CHECK_CREDENTIALS = "check sasl.username, sasl.password and sasl.mechanism in kafka.properties"
CHECK_TLS = (
    "check security.protocol, ssl.ca.location, and the client's ssl.certificate.location and ssl.key.location in "
    "kafka.properties"
)
CHECK_ADDRESS = "check that the broker runs, kafka.bootstrap_servers, and security.protocol in kafka.properties"
ALLOW = "docs/kafka.md lists the access that each user needs"
CREATE_TOPICS = "`stream-masker topics` creates them"
CHECK_INSTANCE = "another process may use the same worker.instance: give each worker its own"

REMEDIES: Mapping[int, str] = {
    KafkaError._AUTHENTICATION: CHECK_CREDENTIALS,
    KafkaError.SASL_AUTHENTICATION_FAILED: CHECK_CREDENTIALS,
    KafkaError.UNSUPPORTED_SASL_MECHANISM: CHECK_CREDENTIALS,
    KafkaError._SSL: CHECK_TLS,
    KafkaError._TRANSPORT: CHECK_ADDRESS,
    KafkaError._ALL_BROKERS_DOWN: CHECK_ADDRESS,
    KafkaError._RESOLVE: "check the host names in kafka.bootstrap_servers",
    KafkaError.TOPIC_AUTHORIZATION_FAILED: ALLOW,
    KafkaError.GROUP_AUTHORIZATION_FAILED: ALLOW,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: ALLOW,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: ALLOW,
    KafkaError.UNKNOWN_TOPIC_OR_PART: CREATE_TOPICS,
    KafkaError._UNKNOWN_TOPIC: CREATE_TOPICS,
    KafkaError._FENCED: CHECK_INSTANCE,
}
"""What to do about an error, by librdkafka's code."""

TLS_ALERT = "SSL routines"
"""Part of the text of a transport error that is one of TLS: a broker that refuses a certificate ends the connection."""


class NoBrokerError(ServiceError):
    """No Kafka broker is reachable."""


def explained(error: KafkaError) -> str:
    """Return the error's text and its remedy, if one is known."""
    remedy = REMEDIES.get(error.code())
    return str(error.str()) + (f": {remedy}" if remedy else "")


def is_refusal(error: KafkaError, *remedies: str) -> bool:
    """Return whether an error lasts until somebody changes the configuration or the broker.

    ``remedies``: those of further errors that last, besides the ones of credentials and TLS.
    """
    return REMEDIES.get(error.code()) in {CHECK_CREDENTIALS, CHECK_TLS, *remedies} or TLS_ALERT in error.str()


def connection_problem(error: KafkaError, servers: str) -> ServiceError:
    """Return the error of a client that cannot use any of the brokers; NoBrokerError if that may pass by itself."""
    kind, what = (ServiceError, "no broker can be used") if is_refusal(error) else (NoBrokerError, "no broker answers")
    remedy = CHECK_TLS if TLS_ALERT in error.str() else REMEDIES.get(error.code(), CHECK_ADDRESS)
    return kind(f"{what} at {servers}: {remedy} ({error.str()})")
