"""Schemas and records in a registry's wire format, given as files of events: what they are, and what to give."""

from __future__ import annotations

import pytest

from stream_masker.errors import ServiceError
from stream_masker.service.files.inputs import open_input
from stream_masker.service.files.schemas import beside_messages

PROTO = b'syntax = "proto3";\npackage ward.v1;\nmessage Visit {\n  string icd = 1;\n  message Bed {}\n}\n'
WIRE = b"\x00\x00\x00\x00\x07\x0aE11.9"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("in.bin", WIRE, "in.bin is a record in the wire format of a schema registry, of schema 7: such records are"),
        ("in", b'\x00\x00\x00\x00\x07{"a": 1}', "config init --topic TOPIC --registry URL proposes one from the topic"),
        ("in.avsc", b'{"type": "record"}', "in.avsc is an Avro schema and no events: give an Avro file"),
        ("in.proto", PROTO, "in.proto is a Protobuf schema of ward.v1.Visit and no events: compile it with `protoc"),
        ("in.desc", b"\x0a\x10", "in.desc is a descriptor set of Protobuf and no events: give the file of messages"),
        ("in.json", b'{"$schema": "https://x", "type": "object"}', "in.json is a JSON Schema and no events"),
    ],
)
def test_what_has_no_events_says_what_it_is(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ServiceError) as told, open_input(str(tmp_path / name)):
        pass
    assert message in str(told.value)
    assert "E11.9" not in str(told.value)


def test_an_event_that_names_its_schema_last_is_an_event(tmp_path):
    (tmp_path / "in.json").write_text('{"a": {"b": 1}, "$schema": "https://x"}\n')
    with open_input(str(tmp_path / "in.json")) as file:
        assert file.kind == "lines"


def test_the_schema_beside_a_record_is_named(tmp_path):
    (tmp_path / "in.bin").write_bytes(WIRE)
    (tmp_path / "in.avsc").write_text("{}")
    with (
        pytest.raises(ServiceError, match=r"of schema 7, with in\.avsc beside it"),
        open_input(str(tmp_path / "in.bin")),
    ):
        pass


def test_the_schema_beside_messages_is_named_with_what_to_do(tmp_path):
    messages = str(tmp_path / "in.pb")
    assert beside_messages(messages) == ""
    (tmp_path / "in.proto").write_bytes(PROTO)
    told = beside_messages(messages)
    assert told.startswith(
        "; in.proto beside it is a schema of ward.v1.Visit: compile it with `protoc --include_imports"
    )
    (tmp_path / "in.desc").write_bytes(b"")
    assert beside_messages(messages) == "; in.desc beside it is probably the descriptor set"
