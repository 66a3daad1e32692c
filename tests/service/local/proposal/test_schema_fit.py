"""Proposals for records in the Confluent wire format and in files with a schema: what is written must fit it."""

from __future__ import annotations

import datetime

import fastavro
import pytest
import yaml
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.proto import parse_length_prefixed, serialize_length_prefixed
from support.file_commands import run
from support.schema_registry import avro_values, json_values, registry_server
from support.small_configuration import write_secret

from stream_masker.service.configuration import parse_configuration
from stream_masker.service.formats.protobuf_messages import described_messages
from stream_masker.service.formats.wire_format import wire_format
from stream_masker.service.local.proposal import proposed_configuration
from stream_masker.service.local.sampling import NESTED_EVENTS

RECORDS = 120
CODES = ["A10BA02", "M01AE01", "D07AC01", "S01ED01"]
NULLABLE_TIME = ["null", {"type": "long", "logicalType": "timestamp-millis"}]
AVRO = {
    "type": "record",
    "name": "Visit",
    "fields": [
        {"name": "patient_id", "type": "long"},
        {"name": "age", "type": "int"},
        {"name": "admitted", "type": {"type": "int", "logicalType": "date"}},
        {"name": "discharged", "type": NULLABLE_TIME, "default": None},
        {"name": "atc", "type": "string"},
        {"name": "sex", "type": "string"},
    ],
}
JSON = {
    "title": "Visit",
    "type": "object",
    "properties": {
        "patient_id": {"type": "integer"},
        "age": {"type": "integer"},
        "admitted": {"type": "string", "pattern": r"^\d{4}-\d\d-\d\d$"},
        "discharged": {"type": "string", "pattern": "T"},
        "atc": {"type": "string"},
        "sex": {"type": "string"},
    },
    "required": ["patient_id", "age", "admitted", "atc"],
}


def visit(k):
    day = datetime.datetime(2024, 3, 1 + k % 28, 10, tzinfo=datetime.UTC)
    person = {"patient_id": k % 60, "age": 20 + k % 70, "sex": "FM"[k % 2]}
    return person | {"admitted": day.date(), "discharged": day, "atc": CODES[k % 4]}


def json_visit(k):
    one = visit(k)
    return one | {name: one[name].isoformat() for name in ("admitted", "discharged")}


def write_ontology(folder):
    (folder / "atc.csv").write_text("concept,parent\nATC,\n" + "".join(f"{c},{c[0]}\n{c[0]},ATC\n" for c in CODES))


@pytest.mark.parametrize(("schema", "written", "event"), [(AVRO, avro_values, visit), (JSON, json_values, json_visit)])
def test_a_proposal_drops_what_does_not_fit_the_schema_and_keeps_what_it_requires_constant(
    tmp_path, schema, written, event
):
    write_ontology(tmp_path)
    with registry_server() as registry:
        records = written(registry.client, "visits", schema, [event(k) for k in range(RECORDS)])
        sections = {
            "topics": {"input": "visits", "output": "out", "rejected": "rejected"},
            "format": {"value": "confluent", "registry": {"url": registry.url}},
        }
        registered = wire_format(parse_configuration({**NESTED_EVENTS, **sections}))
        events = [registered.decode(record)[0] for record in records]
        text = proposed_configuration(events, {"atc": str(tmp_path / "atc.csv")}, sections, records, registered)
    fields = yaml.safe_load(text)["fields"]
    assert fields["constant"] == {"patient_id": 0, "age": 0, "admitted": "1970-01-01"}
    assert (fields["keep"], fields["drop"]) == (["sex"], ["discharged"])
    assert f"# Of the sample, {RECORDS} are masked, rejected 0." in text
    why = "what generalize: {width: 5, top: 90} makes of it does not fit the schema"
    assert f"age: 0  # the schema requires it; {why}: to use that, write a schema of masked records" in text


def avro_file(folder):
    with (folder / "visits.avro").open("wb") as stream:
        fastavro.writer(stream, AVRO, [visit(k) for k in range(RECORDS)])
    return ()


def read_avro(path):
    with path.open("rb") as stream:
        return list(fastavro.reader(stream))


def message_types():
    kinds = FieldDescriptorProto
    file = FileDescriptorProto(name="visit.proto", package="example", syntax="proto2")
    file.dependency.append("google/protobuf/timestamp.proto")
    message = file.message_type.add(name="Visit")
    types = {
        "patient_id": kinds.TYPE_INT64,
        "age": kinds.TYPE_INT32,
        "atc": kinds.TYPE_STRING,
        "sex": kinds.TYPE_STRING,
    }
    for number, (name, kind) in enumerate(types.items(), start=1):
        label = kinds.LABEL_OPTIONAL if name == "sex" else kinds.LABEL_REQUIRED
        message.field.add(name=name, number=number, type=kind, label=label)
    of_time = {"type": kinds.TYPE_MESSAGE, "type_name": ".google.protobuf.Timestamp"}
    message.field.add(name="discharged", number=9, label=kinds.LABEL_OPTIONAL, **of_time)
    return FileDescriptorSet(file=[file]).SerializeToString()


def protobuf_file(folder):
    (folder / "visit.desc").write_bytes(message_types())
    kind = GetMessageClass(described_messages(message_types())["example.Visit"])
    with (folder / "visits.pb").open("wb") as stream:
        for k in range(RECORDS):
            fields = {name: value for name, value in json_visit(k).items() if name != "admitted"}
            serialize_length_prefixed(ParseDict(fields, kind()), stream)
    return "--descriptors", folder / "visit.desc", "--message", "example.Visit"


def read_protobuf(path):
    kind = GetMessageClass(described_messages(message_types())["example.Visit"])
    with path.open("rb") as stream:
        messages = iter(lambda: parse_length_prefixed(kind, stream), None)
        return [MessageToDict(message, preserving_proto_field_name=True) for message in messages]


@pytest.mark.parametrize(
    ("written", "read", "name", "expected"),
    [
        (
            avro_file,
            read_avro,
            "avro",
            {"patient_id": 0, "age": 0, "admitted": datetime.date(1970, 1, 1), "discharged": None},
        ),
        (protobuf_file, read_protobuf, "pb", {"patient_id": "0", "age": 0}),
    ],
)
def test_a_file_with_a_schema_is_masked_as_such_a_file_by_its_proposal(tmp_path, written, read, name, expected):
    write_ontology(tmp_path)
    write_secret(tmp_path)
    source, config = tmp_path / f"visits.{name}", tmp_path / "stream-masker.yaml"
    options = written(tmp_path)
    run("config", "init", "--events", source, "--ontology", f"atc={tmp_path / 'atc.csv'}", *options, "-o", config)
    assert f"# Of the sample, {RECORDS} are masked, rejected 0." in config.read_text()
    assert "does not fit the schema: to use that, mask into a .jsonl file\n" in config.read_text()
    run("mask", "-c", config, source, tmp_path / f"out.{name}")
    masked = read(tmp_path / f"out.{name}")
    rest = [{key: value for key, value in one.items() if key not in ("atc", "sex")} for one in masked]
    assert rest == [expected] * RECORDS
    assert [one["sex"] for one in masked] == [visit(k)["sex"] for k in range(RECORDS)]
    assert {one["atc"] for one in masked} <= {"ATC", *CODES, *(code[0] for code in CODES)}
    assert [one["atc"] for one in masked] != [visit(k)["atc"] for k in range(RECORDS)]
