"""HL7 v2 messages as JSON and back: everything unlisted is dropped, and what is written is valid."""

from __future__ import annotations

from contextlib import suppress

import hl7
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_masker.errors import ConfigurationError
from stream_masker.pipeline.hl7v2 import Hl7Format, hl7_path
from stream_masker.pipeline.paths import compile_path
from stream_masker.pipeline.records import RecordRejectedError

A01 = (
    "MSH|^~\\&|ADT1|MCM|LABADT|MCM|198808181126|SECURITY|ADT^A01^ADT_A01|MSG00001|P|2.5\r"
    "EVN|A01|198808181123\r"
    "PID|1||PATID1234^5^M11^ADT1&1.2&ISO^MR~123456789^^^USSSA^SS||JONES^WILLIAM^A^III||19610615|M|||N\\T\\M\\.br\\ ST\r"
    'PV1|1|I|""||||004777^LEBAUER^SIDNEY\r'
    "DG1|1||E11.9^Diabetes^I10|||A\r"
    "IN1|1|A\r"
    "DG1|2||I10^Hypertension^I10~I11^x^I10|||W\r"
)


def round_trip(message):
    document, encode = Hl7Format().decode(message.encode())
    return encode(document).decode()


@pytest.mark.parametrize("end", ["\r", "\n", "\r\n"])
def test_a_message_is_written_back_as_it_was(end):
    message = A01.replace("\r", end)
    assert round_trip(message) == message


PID_3 = "PID|||PATID1234^5^M11^ADT1&1.2&ISO^MR~123456789^^^USSSA^SS\r"


@pytest.mark.parametrize(
    ("paths", "read", "written"),
    [
        (["PID.3[?5=MR].1"], {("PID", "3"): list}, PID_3),
        (["EVN", "EVN.2"], {("EVN", "1"): str, ("EVN", "2"): str}, "EVN|A01|198808181123\r"),
        (["PID.3", "PID.3.1"], {("PID", "3"): list}, PID_3),
        (["PID.8", "PID.11"], {("PID", "8"): str, ("PID", "11"): list}, "PID||||||||M|||N\\T\\M\\.br\\ ST\r"),
        (["DG1.1.1", "IN1.9"], {("DG1", "1"): list}, "DG1|1\rDG1|2\r"),
        ([], {}, "\r"),
    ],
)
def test_only_the_fields_in_paths_are_read_and_written_back(paths, read, written):
    form = Hl7Format().reading(hl7_path(compile_path(path), whole=True) for path in paths)
    document, encode = form.decode(A01.encode())
    fields = {
        (name, number): type(field)
        for name, segments in document.items()
        for number, field in segments[0].items()
        if number != "#"
    }
    assert fields == read
    assert encode(document).decode() == written


def test_other_delimiters_and_character_sets_are_written_back():
    message = A01.translate(str.maketrans("|^~&", "#!*%"))
    assert round_trip(message) == message
    encoded = A01.replace("|P|2.5", "|P|2.5||||||8859/1").replace("JONES", "MÜLLER").encode("latin-1")
    document, encode = Hl7Format().decode(encoded)
    assert "MÜLLER" in str(document)
    assert encode(document) == encoded


@given(st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), min_size=1, max_size=20))
def test_any_text_is_escaped(text):
    document, encode = Hl7Format().decode(A01.encode())
    document["DG1"][0]["3"][0]["2"]["1"] = text
    decoded, _ = Hl7Format().decode(encode(document))
    assert len(decoded["DG1"]) == 2
    assert decoded["DG1"][0]["3"][0]["1"] == {"1": "E11.9"}
    assert decoded["DG1"][0]["3"][0]["3"] == {"1": "I10"}


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"{}",
        b"PID|1",
        b"MSH",
        b"MSH|^~",
        b"MSH|||||",
        b"MSHabcde|",
        A01[:70].encode() + b"\r\xff\xff\r",
        b"MSH|^~\\&|a\rlong|1",
    ],
)
def test_what_is_no_message_is_rejected(message):
    with pytest.raises(RecordRejectedError):
        Hl7Format().decode(message)


PARTS = st.text(st.sampled_from('A1 ^~&|\\TF."'), max_size=12)


@given(st.lists(st.tuples(st.sampled_from(["PID", "DG1", "OBX"]), st.lists(PARTS, max_size=5)), max_size=4))
def test_messages_are_split_as_by_the_library_hl7(segments):
    """The last segment is fixed: the library cuts the white space at the end of a message."""
    lines = ["MSH|^~\\&|a", *("|".join([name, *fields]) for name, fields in segments), "NTE|1"]
    document, _ = Hl7Format().decode("\r".join(lines).encode())
    parsed = hl7.parse("\r".join(lines))
    found = {(place, *rest): value for place, *rest, value in values_of(document)}
    wanted = {}
    for place, segment in enumerate(parsed):
        for number in range(3 if place == 0 else 1, len(segment)):
            for repetition, part in enumerate(segment[number]):
                components = [part] if isinstance(part, str) else part
                for c, component in enumerate(components, 1):
                    for s, text in enumerate(str(component).split("&"), 1):
                        if text:
                            wanted[place, number, repetition, c, s] = None if text == '""' else text
    assert found == wanted


def values_of(document):
    """Yield the place, field, repetition, component and subcomponent of each value, and the value."""
    for segments in document.values():
        for segment in segments:
            for field, repetitions in segment.items():
                for k, components in enumerate(repetitions if field != "#" else ()):
                    for c, subcomponents in components.items():
                        for s, value in subcomponents.items():
                            yield segment["#"], int(field), k, int(c), int(s), value


@given(st.binary(max_size=200))
def test_no_bytes_raise_another_error(data):
    for message in (data, b"MSH|^~\\&|" + data):
        with suppress(RecordRejectedError):
            document, encode = Hl7Format().decode(message)
            assert isinstance(encode(document), bytes)


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("DG1[*].3.1", "DG1.3.1"),
        ("DG1.3.1", "DG1[*].3[*].1.1"),
        ("PID.19", "PID.19.1"),
        ("PID[0].3[1].1", "PID[0].3[1].1.1"),
    ],
)
def test_paths_are_completed(text, other):
    assert hl7_path(compile_path(text)) == hl7_path(compile_path(other))


@pytest.mark.parametrize("text", ["diagnosis", "dg1.3.1", "DG1[*].a", "PID", "PID.3.1.1.1", "PID.0", "DG1[?6=A].3.1"])
def test_other_paths_are_refused(text):
    with pytest.raises(ConfigurationError):
        hl7_path(compile_path(text))
