"""HL7 v2 messages as JSON: ``{"DG1": [{"#": 3, "3": [{"1": {"1": "E11.9"}}]}]}``.

Segments, repetitions, components and subcomponents are on levels of their own, whether or not they repeat. The value
``""``, by which a sender deletes a value, is null.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import hl7
import orjson

from stream_masker.pipeline.codec.formatted import EncodeRecord, ValueFormat
from stream_masker.pipeline.hl7v2.paths import HEADER, PLACE, is_segment
from stream_masker.pipeline.reasons import Reason, RecordRejectedError

_DELETED: Final = '""'
_CHARACTER_SETS: Final = {
    "": "utf-8",
    "ASCII": "utf-8",
    "UNICODE": "utf-8",
    "UNICODE UTF-8": "utf-8",
    "UTF-8": "utf-8",
    "8859/1": "latin-1",
    "8859/15": "iso8859-15",
    "8859/2": "iso8859-2",
    "WINDOWS-1252": "cp1252",
}
_FALLBACK: Final = "cp1252"
_CHARSET_FIELD: Final = 18
_OTHER_ESCAPES: Final = r"(?:\.[A-Za-z]{2}[^{0}]*|[HN]|[CMZX][^{0}]*)"


@dataclass(frozen=True, slots=True)
class Delimiters:
    """The characters that separate the parts of a message, and how its segments end."""

    field: str
    component: str
    repetition: str
    escape: str
    subcomponent: str
    segment: str

    @classmethod
    def of(cls, text: str) -> Delimiters:
        """Return those of a message. Raises RecordRejectedError unless it starts with a header."""
        segment = next((end for end in ("\r\n", "\r", "\n") if end in text), "\r")
        marks = text[3:8]
        if (
            not text.startswith(HEADER)
            or len(set(marks)) < 5
            or any(mark.isalnum() or mark.isspace() for mark in marks)
        ):
            raise RecordRejectedError(Reason.NOT_IN_FORMAT)
        field, component, repetition, escape, subcomponent = tuple(marks)
        return cls(field, component, repetition, escape, subcomponent, segment)

    def unescaped(self, text: str) -> str:
        """Return a text with the delimiters that its escape sequences stand for; other sequences stay."""
        if self.escape not in text:
            return text
        mark = re.escape(self.escape)
        return re.sub(f"{mark}([FSRET]){mark}", lambda match: self._escapes()[match[1]], text)

    def escaped(self, text: str) -> str:
        """Return a text with escape sequences for delimiters; line breaks become spaces."""
        mark = re.escape(self.escape)
        special = {character: f"{self.escape}{letter}{self.escape}" for letter, character in self._escapes().items()}
        pattern = f"{mark}{_OTHER_ESCAPES.replace('{0}', mark)}{mark}|[{re.escape(''.join(special))}]"
        text = re.sub(r"[\r\n]+", " ", text)
        return re.sub(pattern, lambda match: special.get(match[0], match[0]), text)

    def _escapes(self) -> Mapping[str, str]:
        marks = (self.field, self.component, self.repetition, self.escape, self.subcomponent)
        return dict(zip("FSRET", marks, strict=True))


@dataclass(frozen=True, slots=True)
class Hl7Format(ValueFormat):
    """The format of records that are HL7 v2 messages. Keys are bytes."""

    records: ClassVar[str] = "HL7 v2 messages"

    def decode(self, value: bytes) -> tuple[bytes, EncodeRecord]:
        text, charset = _decoded(value.strip(b"\x0b\x1c\r\n"))
        delimiters = Delimiters.of(text)
        document = orjson.dumps(_document(text, delimiters))
        end = delimiters.segment if value.rstrip(b"\x1c").endswith((b"\r", b"\n")) else ""

        def encode(masked: bytes) -> bytes:
            lines = _written(orjson.loads(masked), delimiters)
            return (delimiters.segment.join(lines) + end).encode(charset, errors="replace")

        return document, encode


def _decoded(value: bytes) -> tuple[str, str]:
    """Return the text of a message and its character set: that of MSH-18, otherwise UTF-8 or Windows-1252."""
    fields = value.split(b"\r", 1)[0].split(b"\n", 1)[0].split(value[3:4] or b"|")
    named = fields[_CHARSET_FIELD - 1] if len(fields) >= _CHARSET_FIELD else b""
    name = named.split(value[5:6] or b"~")[0].decode("ascii", errors="replace").strip().upper()
    charsets = [_CHARACTER_SETS[name]] if _CHARACTER_SETS.get(name, "utf-8") != "utf-8" else ["utf-8", _FALLBACK]
    for charset in charsets:
        try:
            return value.decode(charset), charset
        except UnicodeDecodeError:
            continue
    raise RecordRejectedError(Reason.NOT_UTF8)


def _document(text: str, delimiters: Delimiters) -> dict[str, list[Any]]:
    document: dict[str, list[Any]] = {}
    for place, segment in enumerate(_parsed(text, delimiters)):
        name = str(segment[0])
        if not is_segment(name):
            raise RecordRejectedError(Reason.NOT_IN_FORMAT)
        start = 3 if name == HEADER else 1
        fields = {str(k): _repetitions(segment[k], delimiters) for k in range(start, len(segment)) if str(segment[k])}
        document.setdefault(name, []).append({PLACE: place, **fields})
    return document


def _parsed(text: str, delimiters: Delimiters) -> Any:
    try:
        return hl7.parse("\r".join(line for line in re.split(r"[\r\n]+", text) if line.strip()))
    except Exception:  # noqa: BLE001
        raise RecordRejectedError(Reason.NOT_IN_FORMAT) from None


def _repetitions(field: Any, delimiters: Delimiters) -> list[Any]:
    """Return the components of each repetition; those without a value are left out."""
    return [
        {str(k): _subcomponents(str(part), delimiters) for k, part in enumerate(_parts(repetition), 1) if str(part)}
        for repetition in field
    ]


def _parts(repetition: Any) -> Any:
    return [repetition] if isinstance(repetition, str) else repetition


def _subcomponents(component: str, delimiters: Delimiters) -> dict[str, str | None]:
    parts = enumerate(component.split(delimiters.subcomponent), start=1)
    return {str(k): None if part == _DELETED else delimiters.unescaped(part) for k, part in parts if part}


def _written(document: Mapping[str, list[Any]], delimiters: Delimiters) -> list[str]:
    """Return the segments of a masked message in their order; those of which nothing is left are left out."""
    placed = [(segment[PLACE], name, segment) for name, segments in document.items() for segment in segments]
    ordered = sorted(placed, key=lambda entry: entry[0])
    written = [(name, _segment(name, segment, delimiters)) for _, name, segment in ordered]
    return [text for name, text in written if text != name]


def _segment(name: str, segment: Mapping[str, Any], delimiters: Delimiters) -> str:
    values = ((int(key), _joined_repetitions(value, delimiters)) for key, value in segment.items() if key != PLACE)
    fields = {key: text for key, text in values if text}
    marks = (delimiters.component, delimiters.repetition, delimiters.escape, delimiters.subcomponent)
    start = ["".join(marks)] if name == HEADER else []
    first = 3 if name == HEADER else 1
    parts = [fields.get(k, "") for k in range(first, max(fields, default=0) + 1)]
    return delimiters.field.join([name, *start, *parts])


def _joined_repetitions(repetitions: list[Any], delimiters: Delimiters) -> str:
    texts = [_joined(repetition or {}, delimiters.component, delimiters) for repetition in repetitions]
    return delimiters.repetition.join(text for text in texts if text)


def _joined(parts: Mapping[str, Any], separator: str, delimiters: Delimiters) -> str:
    """Return numbered parts as one text; empty texts stand for those that are not there."""
    texts = {int(key): text for key, value in parts.items() if (text := _part(value, delimiters))}
    return separator.join(texts.get(k, "") for k in range(1, max(texts, default=0) + 1))


def _part(value: Any, delimiters: Delimiters) -> str:
    if isinstance(value, dict):
        return _joined(value, delimiters.subcomponent, delimiters)
    return _DELETED if value is None else delimiters.escaped(value if isinstance(value, str) else str(value))


def scalar_values(document: Mapping[str, list[Any]]) -> Iterator[tuple[str, str, str, str, str | None]]:
    """Yield the segment, field, component and subcomponent of each value of a message's JSON, with the value."""
    for name, segments in document.items():
        for segment in segments:
            for field, repetitions in segment.items():
                if field == PLACE:
                    continue
                for repetition in repetitions:
                    for component, parts in repetition.items():
                        yield from ((name, field, component, sub, value) for sub, value in parts.items())
