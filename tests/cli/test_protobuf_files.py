"""Protobuf files: their message type is configured, and damaged or misfitting ones are named."""

from __future__ import annotations

import pytest
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet
from support.event_files import MESSAGE, descriptor_set, message_class, protobuf
from support.file_commands import amend, event, read, run

EVENTS = [event(k) for k in range(1, 121)]


@pytest.fixture
def source(tmp_path, config):
    """A Protobuf file of 120 events, for which the configuration names the message type."""
    (tmp_path / "events.desc").write_bytes(descriptor_set())
    configure(config, {"descriptors": "events.desc", "message": MESSAGE})
    path = tmp_path / "in.pb"
    path.write_bytes(protobuf(EVENTS))
    return path


def configure(config, section):
    amend(config, produce={"protobuf": section} if section else {})


def test_a_masked_file_has_messages_of_the_same_type(tmp_path, config, source):
    from google.protobuf.proto import parse_length_prefixed

    run("mask", "-c", config, source, tmp_path / "out.binpb")
    run("mask", "-c", config, source, tmp_path / "out.jsonl")
    with (tmp_path / "out.binpb").open("rb") as stream:
        found = [parse_length_prefixed(message_class(), stream) for _ in EVENTS]
        assert stream.read() == b""
    lines = read(tmp_path / "out.jsonl")
    assert [(one.id, one.patient, one.a, one.b) for one in found] == [
        (one["id"], one["patient"], one["a"], one["b"]) for one in lines
    ]
    assert [one.name for one in found] == [""] * 120
    assert all(one.a != event(k)["a"] for k, one in enumerate(found, start=1))


@pytest.mark.parametrize(
    ("section", "message"),
    [
        (None, "in.pb is a Protobuf file, by its name: say which messages it has with produce.protobuf"),
        ({"descriptors": "none.desc", "message": MESSAGE}, "none.desc cannot be read: No such file"),
        ({"descriptors": "tree.csv", "message": MESSAGE}, "tree.csv is not a descriptor set"),
        ({"descriptors": "events.desc", "message": "Event"}, "has no message 'Event': use one of example.Event"),
        ({"descriptors": "partial.desc", "message": MESSAGE}, "lacks files that it imports: use protoc --include_imp"),
    ],
)
def test_settings_that_do_not_fit_are_refused(tmp_path, config, source, section, message):
    partial = FileDescriptorProto(name="events.proto", dependency=["persons.proto"])
    (tmp_path / "partial.desc").write_bytes(FileDescriptorSet(file=[partial]).SerializeToString())
    configure(config, section)
    done = run("mask", "-c", config, source, tmp_path / "out.jsonl", code=2)
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_a_descriptor_set_may_lack_well_known_files_and_nests_messages(tmp_path, config, source):
    kinds = FieldDescriptorProto
    file = FileDescriptorProto(name="e.proto", package="example", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    event_type = file.message_type.add(name="Outer").nested_type.add(name="Event")
    for number, name in enumerate(("id", "patient", "a", "b", "name"), start=1):
        kind = kinds.TYPE_INT32 if name == "id" else kinds.TYPE_STRING
        event_type.field.add(name=name, number=number, type=kind, label=1)
    event_type.field.add(name="at", number=6, type=kinds.TYPE_MESSAGE, type_name=".google.protobuf.Timestamp", label=1)
    (tmp_path / "nested.desc").write_bytes(FileDescriptorSet(file=[file]).SerializeToString())
    configure(config, {"descriptors": "nested.desc", "message": "example.Outer.Event"})
    run("mask", "-c", config, source, tmp_path / "out.jsonl")
    assert [one["id"] for one in read(tmp_path / "out.jsonl")] == [one["id"] for one in EVENTS]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (protobuf(EVENTS)[:-3], "message 120 is not a complete example.Event after its length"),
        (b"\xff" * 40, "message 1 is not a complete example.Event after its length"),
        (b"\x05\x0a\xff\xff\xff\x0fsecret code", "message 1 is not a complete example.Event after its length"),
    ],
    ids=["cut", "length", "content"],
)
def test_a_damaged_file_is_named_without_its_content(tmp_path, config, source, content, message):
    source.write_bytes(content)
    done = run("mask", "-c", config, source, tmp_path / "out.jsonl", code=1)
    assert f"in.pb cannot be read to its end: {message}" in done.stderr
    assert "secret" not in done.stderr
    assert not (tmp_path / "out.jsonl").exists()


def test_a_masked_record_that_does_not_fit_the_message_is_an_error(tmp_path, config, source):
    amend(config, fields={"pseudonymize": ["id"], "unlisted": "drop"})
    done = run("mask", "-c", config, source, tmp_path / "out.pb", code=1)
    assert (
        f"a masked record does not fit the message example.Event of {source} at id: write a .jsonl file" in done.stderr
    )
    assert not (tmp_path / "out.pb").exists()


def test_protobuf_without_its_suffix_is_said_to_be_binary(tmp_path, config, source):
    source.rename(tmp_path / "events")
    done = run("mask", "-c", config, tmp_path / "events", tmp_path / "out.jsonl", code=1)
    assert "binary data of an unknown kind (the name of a Protobuf file ends in .pb or .binpb)" in done.stderr


def test_init_needs_both_the_descriptors_and_the_message(config, source):
    done = run("config", "init", "--events", source, "--message", MESSAGE, code=2)
    assert "use --descriptors and --message together" in done.stderr
