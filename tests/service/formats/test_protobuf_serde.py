"""Protobuf in the Confluent wire format, with the client's own serdes and mock registry."""

from __future__ import annotations

import pytest
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import SerializationContext
from google.protobuf import timestamp_pb2
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.json_format import ParseDict
from google.protobuf.message_factory import GetMessageClass
from schema_registry import mock_client

from stream_masker.pipeline.records import RecordRejectedError
from stream_masker.service.formats import ConfluentFormat

CONTEXT = SerializationContext("in", "value")
TIMESTAMP = timestamp_pb2.DESCRIPTOR.serialized_pb
EVENT = {
    "id": "7",
    "patient": {"id": "canary"},
    "first": "C00",
    "at": "2021-03-04T05:06:07.089Z",
    "codes": ["C1", "C2"],
}


def message_types():
    """The classes of the messages Other, Discharge and Discharge.Patient; the file patients.proto has Person."""
    pool = DescriptorPool()
    pool.Add(FileDescriptorProto.FromString(TIMESTAMP))
    kinds = FieldDescriptorProto
    persons = FileDescriptorProto(name="patients.proto", package="example", syntax="proto3")
    persons.message_type.add(name="Person").field.add(name="id", number=1, type=kinds.TYPE_STRING, label=1)
    pool.Add(persons)
    file = FileDescriptorProto(name="discharges.proto", package="example", syntax="proto3")
    file.dependency.extend(["google/protobuf/timestamp.proto", "patients.proto"])
    file.message_type.add(name="Other").field.add(name="first", number=1, type=kinds.TYPE_STRING, label=1)
    event = file.message_type.add(name="Discharge")
    event.nested_type.add(name="Patient").field.add(name="id", number=1, type=kinds.TYPE_STRING, label=1)
    event.field.add(name="id", number=1, type=kinds.TYPE_INT64, label=1)
    nested = {"type": kinds.TYPE_MESSAGE, "label": 1}
    event.field.add(name="patient", number=2, type_name=".example.Discharge.Patient", **nested)
    event.field.add(name="first", number=3, type=kinds.TYPE_STRING, label=1)
    event.field.add(name="at", number=4, type_name=".google.protobuf.Timestamp", **nested)
    event.field.add(name="codes", number=5, type=kinds.TYPE_STRING, label=3)
    event.field.add(name="person", number=6, type_name=".example.Person", **nested)
    pool.Add(file)
    names = ("Other", "Discharge", "Discharge.Patient")
    return [GetMessageClass(pool.FindMessageTypeByName(f"example.{name}")) for name in names]


OTHER, DISCHARGE, PATIENT = message_types()


def written(client, kind, fields) -> bytes:
    serializer = ProtobufSerializer(kind, client, {"use.deprecated.format": False})
    return serializer(ParseDict(fields, kind()), CONTEXT)


@pytest.mark.parametrize(
    ("kind", "fields"),
    [(OTHER, {"first": "C00"}), (DISCHARGE, EVENT), (PATIENT, {"id": "canary"})],
    ids=["1", "2", "3"],
)
def test_each_message_type_of_a_schema_is_decoded_and_written_as_it_came(kind, fields):
    client = mock_client()
    value = written(client, kind, fields)
    document, encode = ConfluentFormat(client, "mock://").decode(value)
    assert document == fields
    assert encode(document) == value
    read = ProtobufDeserializer(kind, {"use.deprecated.format": False}, client)
    assert read(encode(document), CONTEXT) == ParseDict(fields, kind())


def test_what_does_not_fit_is_rejected_without_its_value():
    client = mock_client()
    value = written(client, DISCHARGE, EVENT)
    wire = ConfluentFormat(client, "mock://")
    _, encode = wire.decode(value)
    for misfit in ({"id": "canary"}, {"patient": [1]}, {"at": "2021"}, {"codes": [7]}):
        with pytest.raises(RecordRejectedError, match="schema_mismatch") as caught:
            encode({**EVENT, **misfit})
        assert caught.value.__suppress_context__
    for malformed in (value[:-1], value[:5] + b"\x02\x63" + value[7:], value[:5] + b"\xff" * 12):
        with pytest.raises(RecordRejectedError, match="not_in_format"):
            wire.decode(malformed)
    without = {name: one for name, one in EVENT.items() if name != "patient"}
    assert wire.decode(encode(without))[0] == without
