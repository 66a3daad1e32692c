"""Samples of events for a proposal: from a file, a topic, or the generator of synthetic events."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, ClassVar

import orjson
from confluent_kafka import OFFSET_BEGINNING, KafkaError, TopicPartition

from stream_masker.errors import ServiceError
from stream_masker.pipeline.dates import find_date
from stream_masker.pipeline.formats import EncodeRecord, RecordFormat, ValueFormat, document_of
from stream_masker.pipeline.reasons import RecordRejectedError
from stream_masker.service.configuration import Configuration, parse_configuration
from stream_masker.service.configuration.fields.sections import ProduceSection
from stream_masker.service.configuration.wording import did_you_mean
from stream_masker.service.events.simulate import SimulationOptions
from stream_masker.service.files.folders import input_files
from stream_masker.service.formats.wire_format import wire_format
from stream_masker.service.kafka.clients import confluent_properties, connect_consumer
from stream_masker.service.kafka.failures import check_topics, require_broker
from stream_masker.service.local.avro_table import AvroTable
from stream_masker.service.local.proposal.names import POSTCODE_NAMES
from stream_masker.service.local.proposal.treatment import TESTED_VALUES
from stream_masker.service.local.proposal.values import codes_separator
from stream_masker.service.local.protobuf_table import ProtobufTable
from stream_masker.service.local.tables import open_lines

DATED_EVENTS = 1000
"""The events in which numbers that are dates are looked for."""

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
    """Events as JSON, and the sections of a configuration that say how they were read.

    records: the records of the events, if they are not JSON; record_format: of the records, if masked ones must fit a
    schema.
    """

    events: list[bytes]
    sections: Mapping[str, Any] = field(default_factory=dict)
    records: list[bytes] | None = None
    record_format: RecordFormat | None = None


@dataclass(frozen=True, slots=True)
class RowFormat(ValueFormat):
    """The format of lines of a table whose masked lines must fit its schema. They stay lines."""

    records: ClassVar[str] = "rows of a table with a schema"

    table: AvroTable | ProtobufTable

    def decode(self, value: bytes) -> tuple[bytes, EncodeRecord]:
        return value, self._checked

    def _checked(self, line: bytes) -> bytes:
        self.table.row(line)
        return line


def file_sample(name: str, size: int, protobuf: Mapping[str, str] | None = None) -> EventSample:
    """Return the first events of a file, or of each file of a folder.

    Columns of a CSV file whose cells are all numbers are numbers in the events, and those with several codes in a cell
    are lists.

    ``protobuf``: the section ``produce.protobuf``, for a Protobuf file. Raises like ``open_lines``.
    """
    section: dict[str, Any] = {"protobuf": dict(protobuf)} if protobuf else {}
    names = input_files(name)
    with open_lines(names[0], ProduceSection.model_validate(section)) as (lines, table):
        events = [line for _, line in islice(lines, -(-size // len(names)))]
    for other in names[1:]:
        with open_lines(other, ProduceSection.model_validate(section)) as (lines, _):
            events += [line for _, line in islice(lines, -(-size // len(names)))]
    if table is not None and table.kind == "csv":
        rows = [orjson.loads(line) for line in events if line.startswith(b"{")]
        columns = {"numbers": _numeric_columns(rows), "lists": _list_columns(rows)}
        section |= {key: names for key, names in columns.items() if names}
        with open_lines(name, ProduceSection.model_validate(section)) as (lines, _):
            events = [line for _, line in islice(lines, size)]
    of_rows = RowFormat(table) if isinstance(table, (AvroTable, ProtobufTable)) else None
    return EventSample(events, {"produce": section} if section else {}, record_format=of_rows)


def _list_columns(rows: list[dict[str, Any]]) -> dict[str, str]:
    """Return the columns whose cells have several codes, with what stands between them."""
    cells: dict[str, dict[str, None]] = {}
    for row in rows:
        for name, cell in row.items():
            cells.setdefault(name, {})[cell] = None
    separators = {name: codes_separator(list(values)[:TESTED_VALUES]) for name, values in cells.items()}
    return {name: separator for name, separator in separators.items() if separator is not None}


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
    if record_format is None:
        return EventSample(_json_values(values, topic), sections)
    documents = _documents(values, topic, record_format)
    events, records = map(list, zip(*documents, strict=True))
    return EventSample(events, sections, records, record_format)


def _consumed(consumer: Any, topic: str, size: int) -> list[bytes]:
    values: list[bytes] = []
    while len(values) < size and (messages := consumer.consume(size - len(values), timeout=SILENT_SECONDS)):
        values += [value for m in messages if m.error() is None and (value := m.value()) is not None]
    if not values:
        raise ServiceError(f"topic {topic} has no records to sample")
    return values


def _json_values(values: list[bytes], topic: str) -> list[bytes]:
    if all(value.startswith(b"\0") for value in values):
        raise ServiceError(
            f"the records of topic {topic} are not JSON but probably in the Confluent wire format: name the schema "
            "registry with --registry"
        )
    return values


def _documents(values: Sequence[bytes], topic: str, record_format: RecordFormat) -> list[tuple[bytes, bytes]]:
    """Return the JSON of the values that are in the format, each with its value. Raises ServiceError without any."""
    documents, reasons = [], Counter[str]()
    for value in values:
        try:
            documents.append((orjson.dumps(document_of(record_format, value)), value))
        except RecordRejectedError as error:
            reasons[error.reason] += 1
    if not documents:
        causes = ", ".join(f"{reason} {count:,}" for reason, count in reasons.items())
        raise ServiceError(f"no record of topic {topic} can be decoded with the schema registry: {causes}")
    return documents


def simulated_sample(size: int) -> EventSample:
    """Return generated events."""
    configuration: Configuration = parse_configuration(json.loads(json.dumps(NESTED_EVENTS)))
    return EventSample([orjson.dumps(event) for event in SimulationOptions(records=size).events(configuration)])
