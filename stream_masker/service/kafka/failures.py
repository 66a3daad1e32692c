"""Failures of Kafka as one message with cause and remedy, the same in every command and in ``/readyz``."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from stream_masker.errors import ConfigurationError, ServiceError

PROBE_STEP_SECONDS = 1.0

CHECK_CREDENTIALS = "check sasl.username, sasl.password and sasl.mechanism in kafka.properties"
CHECK_CLIENT = (
    "check sasl.oauthbearer.client.id, sasl.oauthbearer.client.secret and sasl.oauthbearer.token.endpoint.url in "
    "kafka.properties"
)
CHECK_TLS = (
    "check security.protocol, ssl.ca.location, and the client's ssl.certificate.location and ssl.key.location in "
    "kafka.properties"
)
CHECK_ADDRESS = "check that the broker runs, kafka.bootstrap_servers, and security.protocol in kafka.properties"
ALLOW = "`stream-masker topics --acls` prints the access that each user needs"
CREATE_TOPICS = "`stream-masker topics` creates them"

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
}
"""What to do about an error, by librdkafka's code."""

REFUSALS = frozenset(
    {
        KafkaError._AUTHENTICATION,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.UNSUPPORTED_SASL_MECHANISM,
        KafkaError._SSL,
    }
)
"""Errors that last until somebody changes the configuration or the broker."""


TLS_ALERT = "SSL routines"
"""Part of the text of a transport error that is one of TLS: a broker that refuses a certificate ends the connection."""


class NoBrokerError(ServiceError):
    """No Kafka broker is reachable."""


def explained(error: KafkaError) -> str:
    """Return the error's text and its remedy, if one is known."""
    remedy = REMEDIES.get(error.code())
    return str(error.str()) + (f": {remedy}" if remedy else "")


def connection_problem(error: KafkaError, properties: Mapping[str, Any]) -> ServiceError:
    """Return the error of a client that cannot use any broker; NoBrokerError if that may pass by itself."""
    servers = properties["bootstrap.servers"]
    if not is_refusal(error):
        return NoBrokerError(f"no broker answers at {servers}: {CHECK_ADDRESS} ({error.str()})")
    if error.code() == KafkaError._SSL or TLS_ALERT in error.str():
        return ServiceError(f"the broker at {servers} cannot be reached by TLS: {CHECK_TLS} ({error.str()})")
    if "sasl.oauthbearer.client.id" in properties:
        client = properties["sasl.oauthbearer.client.id"]
        return ServiceError(
            f"the broker at {servers} or its token endpoint refuses the client {client!r}: {CHECK_CLIENT}"
        )
    user = properties.get("sasl.username", "")
    return ServiceError(f"the broker at {servers} refuses the user {user!r}: {CHECK_CREDENTIALS}")


def is_refusal(error: KafkaError) -> bool:
    """Return whether an error lasts until somebody changes the configuration or the broker."""
    return error.code() in REFUSALS or TLS_ALERT in error.str()


def is_access_refusal(error: KafkaError) -> bool:
    """Return whether the broker refuses the user or an access."""
    return is_refusal(error) or REMEDIES.get(error.code()) is ALLOW


class ConnectionErrors:
    """Receives the errors of a client (``error_cb``); ``cause`` is the one that explains the others best."""

    def __init__(self) -> None:
        self.cause: KafkaError | None = None

    def __call__(self, error: KafkaError) -> None:
        """Keep an error, unless one of a refusing broker is known; that all brokers are down explains nothing."""
        if is_refusal(error) or (not self.refused and error.code() != KafkaError._ALL_BROKERS_DOWN):
            self.cause = error

    @property
    def refused(self) -> bool:
        """Whether the broker refuses the client."""
        return self.cause is not None and is_refusal(self.cause)


def require_broker(properties: Mapping[str, Any], *, seconds: float = 10.0) -> None:
    """Raise ServiceError if no broker answers within some seconds, at once if it refuses the credentials.

    ``properties``: of a librdkafka client. NoBrokerError is raised if it may pass by itself, ConfigurationError for
    properties that librdkafka refuses.
    """
    errors = ConnectionErrors()
    client = _probe({"group.id": "stream-masker.probe", **properties, "error_cb": errors})
    deadline = time.monotonic() + seconds
    try:
        while True:
            failure = _answer(client)
            if failure is None:
                return
            if errors.refused or time.monotonic() > deadline:
                raise connection_problem(errors.cause or failure, properties)
    finally:
        client.close()


def check_properties(properties: Mapping[str, Any]) -> None:
    """Raise ConfigurationError for properties that librdkafka does not know or accept."""
    _probe({"group.id": "stream-masker.probe", **properties}).close()


def _probe(properties: dict[str, Any]) -> Consumer:
    try:
        return Consumer({**properties, "log_level": 0}, logger=_silent)
    except KafkaException as failure:
        raise ConfigurationError(f"kafka.properties cannot be used: {failure.args[0].str()}") from None


_silent = logging.getLogger("stream_masker.kafka.probe")
_silent.propagate = False
_silent.addHandler(logging.NullHandler())


def _answer(client: Consumer) -> KafkaError | None:
    """Request the metadata once and serve the callbacks; return the error of a failed request."""
    try:
        client.list_topics(timeout=PROBE_STEP_SECONDS)
    except KafkaException as failure:
        client.poll(0)
        error: KafkaError = failure.args[0]
        return error
    return None


def missing_topics_text(missing: Collection[str]) -> str:
    """Return the message about topics that do not exist."""
    return f"topics do not exist: {', '.join(missing)}: {CREATE_TOPICS}"


def check_topics(errors: Mapping[str, KafkaError | None], user: str = "") -> None:
    """Raise ServiceError for topics that do not exist, or that the user may not describe.

    ``errors``: the error of each topic in the metadata, None for a topic that is there.
    """
    refused = [name for name, error in errors.items() if error and error.code() in _REFUSED_TOPIC]
    if refused:
        name = user or "ANONYMOUS"
        raise ServiceError(f"the user {name!r} may not use the topics {', '.join(refused)}: {ALLOW}")
    missing = [name for name, error in errors.items() if error]
    if missing:
        raise ServiceError(missing_topics_text(missing))


_REFUSED_TOPIC = {KafkaError.TOPIC_AUTHORIZATION_FAILED}


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
