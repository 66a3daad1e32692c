"""Checks of the settings of the worker's topics: no record that the worker writes may be refused or compacted away."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from stream_masker.errors import ServiceError
from stream_masker.service.configuration import Configuration
from stream_masker.service.kafka.clients import confluent_properties
from stream_masker.service.kafka.failures import explained
from stream_masker.service.kafka.settings import (
    COMPRESSION_TYPE,
    UNCOMPRESSED,
    alter_command,
    compression_advice,
    require_controller,
)

log = logging.getLogger(__name__)

PRODUCER_LIMIT_BYTES = 1_000_000
"""librdkafka's default of ``message.max.bytes``: the maximum size of a message, and of a batch of messages."""

SETTINGS_TIMEOUT_SECONDS = 5.0

TIMESTAMP_BOUND = "message.timestamp.before.max.ms"

NO_TIMESTAMP_BOUND = str(2**63 - 1)
"""Kafka's default of ``TIMESTAMP_BOUND``: no bound."""


def check_topic_settings(configuration: Configuration, inputs: Sequence[str]) -> None:
    """Raise ServiceError if a topic's settings do not fit what the worker writes; each problem with its remedy.

    ``inputs``: the input topics. Settings for which single records will be rejected are only logged, and so is a broker
    that does not let the user read the settings.
    """
    topics = [configuration.topics.of(name) for name in inputs]
    written = [name for topic in topics for name in (topic.output, topic.rejected)]
    provenance = [configuration.topics.provenance] if configuration.topics.provenance else []
    names = [*dict.fromkeys(written), configuration.topics.calibration, *provenance]
    try:
        found = topic_settings(configuration, names)
    except KafkaException as failure:
        log.warning("the settings of the topics cannot be read: %s", explained(failure.args[0]))
        return
    outputs = {topic.output for topic in topics}
    problems = [*setting_problems(configuration, found, outputs)]
    if problems:
        raise ServiceError("; ".join(problems))
    for risk in rejection_risks(found, outputs):
        log.warning("%s", risk)
    _check_inputs(configuration, inputs)


def _check_inputs(configuration: Configuration, inputs: Sequence[str]) -> None:
    """Log inputs whose records may become large when they are decompressed."""
    try:
        found = topic_settings(configuration, inputs)
    except KafkaException as failure:
        log.warning("the settings of the input topics cannot be read: %s", explained(failure.args[0]))
        return
    for topic, settings in found.items():
        if (compression := settings.get(COMPRESSION_TYPE, UNCOMPRESSED)) != UNCOMPRESSED:
            log.warning("topic %s has %s", topic, compression_advice(topic, compression))


def topic_settings(configuration: Configuration, topics: Sequence[str]) -> Mapping[str, Mapping[str, str]]:
    """Read the settings of topics. Raises KafkaException."""
    admin = AdminClient({**confluent_properties(configuration), "log_level": 0})
    require_controller(admin, seconds=SETTINGS_TIMEOUT_SECONDS)
    resources = [ConfigResource(ResourceType.TOPIC, topic) for topic in topics]
    answers = admin.describe_configs(resources, request_timeout=SETTINGS_TIMEOUT_SECONDS)
    return {
        resource.name: {name: entry.value for name, entry in answer.result().items()}
        for resource, answer in answers.items()
    }


def setting_problems(
    configuration: Configuration, found: Mapping[str, Mapping[str, str]], outputs: Collection[str]
) -> Iterator[str]:
    """Yield the problems of topics with these settings, by name; ``outputs``: the topics of masked records."""
    for output in found.keys() & outputs:
        policy = found[output].get("cleanup.policy", "delete")
        if configuration.message.key == "drop" and "compact" in policy:
            yield (
                f"topic {output} has cleanup.policy={policy}, which needs message keys, but message.key is drop: use "
                f"pseudonymize or keep, or {alter_command(output, 'cleanup.policy', 'delete')}"
            )
    provenance = configuration.topics.provenance
    policy = found.get(provenance or "", {}).get("cleanup.policy", "delete")
    if provenance and "compact" in policy:
        yield (
            f"topic {provenance} has cleanup.policy={policy}, which deletes all events of a partition but the last: "
            f"{alter_command(provenance, 'cleanup.policy', 'delete')}"
        )
    limit = int(configuration.kafka.properties.get("message.max.bytes", PRODUCER_LIMIT_BYTES))
    for topic, settings in found.items():
        largest = settings.get("max.message.bytes")
        if largest is not None and int(largest) < limit:
            yield (
                f"topic {topic} has max.message.bytes={largest}, less than the {limit} of the producer: "
                f"{alter_command(topic, 'max.message.bytes', limit)}, or set message.max.bytes in kafka.properties"
            )


def rejection_risks(found: Mapping[str, Mapping[str, str]], outputs: Collection[str]) -> Iterator[str]:
    """Yield the settings of outputs for which records of the input may be rejected, each with its remedy."""
    for output in sorted(found.keys() & outputs):
        settings = found[output]
        policy = settings.get("cleanup.policy", "delete")
        if "compact" in policy:
            yield f"topic {output} has cleanup.policy={policy}: records without a key will be rejected"
        bound = settings.get(TIMESTAMP_BOUND)
        if settings.get("message.timestamp.type") == "CreateTime" and bound not in {None, NO_TIMESTAMP_BOUND}:
            yield (
                f"topic {output} has {TIMESTAMP_BOUND}={bound}: older records will be rejected; "
                f"{alter_command(output, TIMESTAMP_BOUND, NO_TIMESTAMP_BOUND)}"
            )
