"""Samples of events for a proposal: from a file, a topic, or the generator of synthetic events."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import islice
from typing import Any

import orjson
from confluent_kafka import OFFSET_BEGINNING, TopicPartition

from stream_masker.errors import ServiceError
from stream_masker.service.configuration import Configuration, parse_configuration
from stream_masker.service.configuration.sections import ProduceSection
from stream_masker.service.events.simulate import SimulationOptions
from stream_masker.service.kafka.clients import confluent_properties
from stream_masker.service.kafka.connections import connect_consumer
from stream_masker.service.kafka.failures import check_topics, require_broker
from stream_masker.service.local.tables import open_lines

SILENT_SECONDS = 5.0
"""A sample of a topic ends when nothing has arrived for this time."""

NESTED_EVENTS: Mapping[str, Any] = {
    "ontologies": {"icd": {"source": "icd10cm"}},
    "attributes": {
        "principal": {
            "path": "diagnoses.principal.code",
            "label": "diagnoses.principal.display",
            "ontology": "icd",
        },
        "secondary": {
            "path": "diagnoses.secondary[*].code",
            "label": "diagnoses.secondary[*].display",
            "ontology": "icd",
        },
    },
    "fields": {"keep": ["encounter_id", "age", "sex", "stay_days"], "pseudonymize": ["patient.id"], "unlisted": "drop"},
    "noise_key": "patient.id",
}
"""The configuration of the events that ``simulate`` generates by default."""


def file_sample(name: str, size: int) -> tuple[list[bytes], list[str]]:
    """Return the first events of a file, and the columns of a table whose cells are all numbers.

    Those columns are numbers in the events. Raises like ``open_lines``.
    """
    with open_lines(name, ProduceSection()) as (lines, table):
        events = [line for _, line in islice(lines, size)]
    if table is None or table.kind != "csv":
        return events, []
    numbers = _numeric_columns(events)
    with open_lines(name, ProduceSection(numbers=tuple(numbers))) as (lines, _):
        return [line for _, line in islice(lines, size)], numbers


def _numeric_columns(events: list[bytes]) -> list[str]:
    """The columns without a text that is no number, and without a number with a leading zero, which is a code."""
    found: dict[str, bool] = {}
    for line in events:
        for name, cell in (orjson.loads(line) if line.startswith(b"{") else {}).items():
            found[name] = found.get(name, True) and _is_number(cell)
    return [name for name, numeric in found.items() if numeric]


def _is_number(cell: Any) -> bool:
    try:
        float(cell)
    except (TypeError, ValueError):
        return False
    return not (len(cell) > 1 and cell.startswith("0") and "." not in cell) and cell.lower() not in {"nan", "inf"}


def topic_sample(kafka: Mapping[str, Any], topic: str, size: int) -> list[bytes]:
    """Return the first events of a topic, from all partitions. Raises ServiceError; commits nothing."""
    configuration = parse_configuration({**NESTED_EVENTS, "kafka": dict(kafka)})
    properties = confluent_properties(configuration, group_id="stream-masker.sample", enable_auto_commit=False)
    require_broker(properties)
    consumer = connect_consumer({**properties, "enable.partition.eof": False})
    try:
        found = consumer.list_topics(topic, timeout=SILENT_SECONDS).topics[topic]
        check_topics({topic: found.error}, str(properties.get("sasl.username", "")))
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in found.partitions])
        return _consumed(consumer, topic, size)
    finally:
        consumer.close()


def _consumed(consumer: Any, topic: str, size: int) -> list[bytes]:
    values: list[bytes] = []
    while len(values) < size and (messages := consumer.consume(size - len(values), timeout=SILENT_SECONDS)):
        values += [value for m in messages if m.error() is None and (value := m.value()) is not None]
    if not values:
        raise ServiceError(f"topic {topic} has no records to sample")
    return values


def simulated_sample(size: int) -> list[bytes]:
    """Return generated events."""
    configuration: Configuration = parse_configuration(json.loads(json.dumps(NESTED_EVENTS)))
    return [orjson.dumps(event) for event in SimulationOptions(records=size).events(configuration)]
