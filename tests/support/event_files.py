"""The same events as files of every format that commands read, also compressed."""

from __future__ import annotations

import csv
import gzip
import io

import cramjam
import fastavro
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.json_format import ParseDict
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.proto import serialize_length_prefixed

NAMES = ("id", "patient", "a", "b", "name")
MESSAGE = "example.Event"


def descriptor_set() -> bytes:
    """The descriptor set of the message ``example.Event``: ``id`` is a number, the other fields are texts."""
    kinds = FieldDescriptorProto
    file = FileDescriptorProto(name="events.proto", package="example", syntax="proto3")
    event = file.message_type.add(name="Event")
    for number, name in enumerate(NAMES, start=1):
        kind = kinds.TYPE_INT32 if name == "id" else kinds.TYPE_STRING
        event.field.add(name=name, number=number, type=kind, label=kinds.LABEL_OPTIONAL)
    return FileDescriptorSet(file=[file]).SerializeToString()


def message_class():
    """The class of the message ``example.Event``."""
    pool = DescriptorPool()
    for file in FileDescriptorSet.FromString(descriptor_set()).file:
        pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName(MESSAGE))


def json_lines(events):
    return b"".join(orjson.dumps(event) + b"\n" for event in events)


def json_array(events):
    return orjson.dumps(events, option=orjson.OPT_INDENT_2)


def csv_table(events):
    text = io.StringIO()
    rows = csv.DictWriter(text, NAMES, lineterminator="\n")
    rows.writeheader()
    rows.writerows(events)
    return text.getvalue().encode()


def parquet(events):
    stream = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(events), stream)
    return stream.getvalue()


def avro(events):
    nullable = {"type": ["null", "string"], "default": None}
    fields = [{"name": name, **({"type": "int"} if name == "id" else nullable)} for name in NAMES]
    stream = io.BytesIO()
    fastavro.writer(stream, {"type": "record", "name": "Event", "fields": fields}, events)
    return stream.getvalue()


def protobuf(events):
    stream, kind = io.BytesIO(), message_class()
    for event in events:
        serialize_length_prefixed(ParseDict(event, kind()), stream)
    return stream.getvalue()


FORMATS = {
    ".jsonl": json_lines,
    ".json": json_array,
    ".csv": csv_table,
    ".parquet": parquet,
    ".avro": avro,
    ".pb": protobuf,
}
"""The function that writes events, by the suffix of the format."""

COMPRESSIONS = {
    "": bytes,
    ".gz": gzip.compress,
    ".zst": lambda data: bytes(cramjam.zstd.compress(data)),
}
"""The function that compresses a file, by the suffix of the compression."""
