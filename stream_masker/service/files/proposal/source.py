"""Samples of events for a proposal: from a file, a topic, or the generator of synthetic events."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import orjson
from confluent_kafka import OFFSET_BEGINNING, KafkaError, TopicPartition

from stream_masker.errors import ServiceError
from stream_masker.pipeline.dates import find_date
from stream_masker.pipeline.formats import RecordFormat
from stream_masker.service.configuration import Configuration, parse_configuration
from stream_masker.service.configuration.errors import did_you_mean
from stream_masker.service.configuration.fields.sections import ProduceSection
from stream_masker.service.events.simulate import SimulationOptions
from stream_masker.service.files.csv_table import split_cell
from stream_masker.service.files.events import open_events
from stream_masker.service.files.proposal.treatment import POSTCODE_NAMES, looks_coded
from stream_masker.service.formats.wire_format import wire_format
from stream_masker.service.kafka.clients import confluent_properties, connect_consumer
from stream_masker.service.kafka.failures import check_topics, require_broker

DATED_EVENTS = 1000
"""The events in which numbers that are dates are looked for."""

_SEPARATORS = re.compile(r"[;,|/~]\s*|\s+")
LEAST_SEVERAL = 2
LEAST_SHARE_OF_SEVERAL = 0.05
"""The least number and share of a column's different cells with several codes, for all of them to be lists."""

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


@dataclass(frozen=True, slots=True)
class EventSample:
    """Events, and the sections of a configuration that say how they were read. record_format: None for JSON."""

    events: list[bytes]
    sections: Mapping[str, Any] = field(default_factory=dict)
    record_format: RecordFormat | None = None


def file_sample(name: str, size: int, encoding: str = "") -> EventSample:
    """Return the first events of a file.

    Columns of a CSV file whose cells are all numbers are numbers in the events, and those with several codes in a cell
    are lists. ``encoding``: of a CSV file. Raises like ``open_events``.
    """
    section: dict[str, Any] = {"encoding": encoding} if encoding else {}
    with open_events(name, ProduceSection.model_validate(section)) as source:
        if source.kind == "hl7":
            raise ServiceError(f"{name} has HL7 v2 messages: start from the configuration of examples/hl7v2")
        events = [line for _, line in islice(source.lines, size)]
        is_csv = source.kind == "csv"
    if is_csv:
        rows = [orjson.loads(line) for line in events if line.startswith(b"{")]
        columns = {"numbers": _numeric_columns(rows), "lists": _list_columns(rows)}
        section |= {key: names for key, names in columns.items() if names}
        with open_events(name, ProduceSection.model_validate(section)) as source:
            events = [line for _, line in islice(source.lines, size)]
    return EventSample(events, {"produce": section} if section else {})


def _list_columns(rows: list[dict[str, Any]]) -> dict[str, str]:
    """Return the columns whose cells have several codes, with what stands between them most often."""
    cells: dict[str, dict[str, None]] = {}
    for row in rows:
        for name, cell in row.items():
            cells.setdefault(name, {})[cell] = None
    lists = {}
    for name, texts in cells.items():
        several = Counter(
            mark for text in texts if _has_several_codes(text) for mark in _SEPARATORS.findall(text.strip())[:1]
        )
        if several.total() >= max(LEAST_SEVERAL, LEAST_SHARE_OF_SEVERAL * len(texts)):
            lists[name] = several.most_common(1)[0][0]
    return lists


def _has_several_codes(text: str) -> bool:
    """Return whether a text has several parts, all of which look like codes."""
    marks = _SEPARATORS.findall(text.strip())
    return bool(marks) and all(map(looks_coded, split_cell(text, marks[0])))


def _numeric_columns(rows: list[dict[str, Any]]) -> list[str]:
    """Return the columns whose texts are all numbers without a leading zero, which codes may have, and no dates.

    Postcodes stay texts, also if no event of the sample has one with a leading zero.
    """
    are_numbers: dict[str, bool] = {}
    for row in rows:
        for name, cell in row.items():
            are_numbers[name] = are_numbers.get(name, True) and _is_number(cell)
    numeric = [name for name, all_numbers in are_numbers.items() if all_numbers]
    return [name for name in numeric if not POSTCODE_NAMES.fits(name) and not _are_dates(rows, name)]


def _are_dates(rows: list[dict[str, Any]], name: str) -> bool:
    """Return whether the numbers of a column are dates such as 20240131, or codes of eight digits in this form."""
    cells = [cell for row in rows[:DATED_EVENTS] if (cell := row.get(name)) is not None]
    return all(find_date(cell, ("%Y%m%d",)) is not None for cell in cells)


def _is_number(cell: Any) -> bool:
    try:
        float(cell)
    except (TypeError, ValueError):
        return False
    return not (len(cell) > 1 and cell.startswith("0") and "." not in cell) and cell.lower() not in {"nan", "inf"}


def topic_sample(
    kafka: Mapping[str, Any], topic: str, size: int, registry: Mapping[str, Any] | None = None
) -> EventSample:
    """Return the first events of a topic, from all partitions; commits nothing.

    ``registry``: the section ``format.registry``, for records in the Confluent wire format. Raises ServiceError, and
    FormatUnavailableError if the registry cannot be used.
    """
    sections: dict[str, Any] = {"kafka": {key: value for key, value in kafka.items() if value}}
    sections["topics"] = {"input": topic, "output": f"{topic}.masked", "rejected": f"{topic}.rejected"}
    if registry:
        sections["format"] = {"value": "confluent", "registry": dict(registry)}
    configuration = parse_configuration({**NESTED_EVENTS, **sections})
    properties = confluent_properties(configuration, group_id="stream-masker.sample", enable_auto_commit=False)
    require_broker(properties)
    consumer = connect_consumer({**properties, "enable.partition.eof": False})
    try:
        metadata = consumer.list_topics(topic, timeout=SILENT_SECONDS).topics[topic]
        if metadata.error is not None and metadata.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            topics = consumer.list_topics(timeout=SILENT_SECONDS).topics
            there = [name for name in sorted(topics) if name != topic and not name.startswith("__")]
            raise ServiceError(
                f"the broker shows no topic {topic!r}{did_you_mean(topic, there)}; it has {', '.join(there) or 'none'}"
            )
        check_topics({topic: metadata.error}, str(properties.get("sasl.username", "")))
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in metadata.partitions])
        values = _consumed(consumer, topic, size)
    finally:
        consumer.close()
    record_format = wire_format(configuration)
    if record_format is None and all(value.startswith(b"\0") for value in values):
        raise ServiceError(
            f"the records of topic {topic} are not JSON but probably in the Confluent wire format: name the schema "
            "registry with --registry"
        )
    return EventSample(values, sections, record_format)


def _consumed(consumer: Any, topic: str, size: int) -> list[bytes]:
    values: list[bytes] = []
    while len(values) < size and (messages := consumer.consume(size - len(values), timeout=SILENT_SECONDS)):
        values += [value for m in messages if m.error() is None and (value := m.value()) is not None]
    if not values:
        raise ServiceError(f"topic {topic} has no records to sample")
    return values


def simulated_sample(size: int) -> EventSample:
    """Return generated events."""
    configuration: Configuration = parse_configuration(json.loads(json.dumps(NESTED_EVENTS)))
    return EventSample([orjson.dumps(event) for event in SimulationOptions(records=size).events(configuration)])
