"""HL7 v2 messages: their segments as documents, the paths into them, and the masked message written back.

A message is the document ``{"DG1": [{"#": 3, "3": [{"1": {"1": "E11.9"}}]}]}``. Segments, repetitions, components and
subcomponents are on levels of their own, whether or not they repeat. The value ``""``, by which a sender deletes a
value, is null.

In paths, ``DG1[*].3.1`` is segment, field, component, and if needed subcomponent. A path without ``[*]`` or ``[0]``
selects all segments of the name and all repetitions of the field, so ``DG1.3.1`` and ``DG1[*].3[*].1`` are the same. A
component without subcomponents is its first subcomponent, and a field without components its first component.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, ClassVar, Final

from stream_masker.errors import ConfigurationError
from stream_masker.pipeline.formats import ValueFormat
from stream_masker.pipeline.paths import Document, EachStep, FilterStep, IndexStep, NameStep, Path, Step
from stream_masker.pipeline.reasons import Reason, RecordRejectedError

HEADER: Final = "MSH"
PLACE: Final = "#"
"""The member of a segment that holds its place in the message."""

CONTROL_ID: Final = "MSH.10"
HEADER_FIELDS: Final = ("9", "11", "12", "18")
"""The fields of the header that are always kept: message type, processing id, version and character set."""

_SEGMENT: Final = re.compile(r"[A-Z][A-Z0-9]{2}")
_NUMBER: Final = re.compile(r"[1-9][0-9]{0,3}")
_EXAMPLE: Final = "with records: hl7v2, a path is a segment, a field and a component, such as PID.3.1 or DG1[*].3.1"


def is_segment(name: str) -> bool:
    """Return whether a text is the name of a segment."""
    return _SEGMENT.fullmatch(name) is not None


def hl7_path(path: Path, *, first: bool = False, whole: bool = False) -> Path:
    """Return the path into the JSON of a message. Raises ConfigurationError for a path of another form.

    ``first``: select the first segment and repetition. ``whole``: a path that ends at a field or a component selects
    all of it; otherwise it is continued to the first subcomponent.
    """
    each: Step = IndexStep(0) if first else EachStep()
    rest = list(path.steps)
    segment = _name(path, rest)
    if not is_segment(segment.key):
        raise _problem(path)
    steps: list[Step] = [segment, _selector(rest, each)]
    if not rest and whole:
        return Path(path.text, tuple(steps))
    steps += [_number(path, rest), _selector(rest, each)]
    numbers = [_number(path, rest) for _ in list(rest)]
    if len(numbers) > 2:
        raise _problem(path)
    if not whole:
        numbers += [NameStep("1")] * (2 - len(numbers))
    elif not numbers:
        del steps[-1:]
    return Path(path.text, (*steps, *numbers))


def _name(path: Path, rest: list[Step]) -> NameStep:
    step = rest.pop(0) if rest else None
    if not isinstance(step, NameStep):
        raise _problem(path)
    return step


def _number(path: Path, rest: list[Step]) -> NameStep:
    step = _name(path, rest)
    if not _NUMBER.fullmatch(step.key):
        raise _problem(path)
    return step


def _selector(rest: list[Step], default: Step) -> Step:
    """Take the step that selects segments or repetitions, if there is one. A filter compares a component."""
    if not rest or isinstance(rest[0], NameStep):
        return default
    step = rest.pop(0)
    if isinstance(step, FilterStep):
        return FilterStep((*step.field, "1"), step.value, step.quoted, step.every)
    return step


def _problem(path: Path) -> ConfigurationError:
    return ConfigurationError(f"path {path.text!r}: {_EXAMPLE}")


def kept_paths(segments: Sequence[str]) -> Iterator[Path]:
    """Yield the paths that are kept so that a message with these segments is valid: their order, and the header."""
    for name in dict.fromkeys((HEADER, *segments)):
        yield Path(f"{name}.{PLACE}", (NameStep(name), EachStep(), NameStep(PLACE)))
    for field in HEADER_FIELDS:
        yield Path(f"{HEADER}.{field}", (NameStep(HEADER), EachStep(), NameStep(field)))


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


class Delimiters:
    """The characters that separate the parts of a message: field, component, repetition, escape, subcomponent."""

    def __init__(self, marks: str) -> None:
        self.field, self.component, self.repetition, self.escape, self.subcomponent = tuple(marks)
        self.header = marks[1:]
        escape = re.escape(self.escape)
        self._characters = dict(zip("FSRET", marks, strict=True))
        self._escapes = {mark: f"{self.escape}{letter}{self.escape}" for letter, mark in self._characters.items()}
        others = _OTHER_ESCAPES.replace("{0}", escape)
        self._escaped = re.compile(f"{escape}([FSRET]){escape}")
        self._special = re.compile(f"{escape}{others}{escape}|[\r\n]+|[{re.escape(marks)}]")

    def unescaped(self, text: str) -> str:
        """Return a text with the delimiters that its escape sequences stand for; other sequences stay."""
        if self.escape not in text:
            return text
        return self._escaped.sub(lambda match: self._characters[match[1]], text)

    def written(self, text: str) -> str:
        """Return a text with escape sequences for delimiters; line breaks become spaces."""
        return self._special.sub(self._replacement, text)

    def _replacement(self, match: re.Match[str]) -> str:
        return " " if match[0][0] in "\r\n" else self._escapes.get(match[0], match[0])


_delimiters = cache(Delimiters)


def _delimiters_of(text: str) -> Delimiters:
    """Return those of a message. Raises RecordRejectedError unless it starts with a header."""
    marks = text[3:8]
    is_valid = len(set(marks)) == 5 and not any(mark.isalnum() or mark.isspace() for mark in marks)
    if not (text.startswith(HEADER) and is_valid):
        raise RecordRejectedError(Reason.NOT_IN_FORMAT)
    return _delimiters(marks)


class Hl7Format(ValueFormat):
    """The format of records that are HL7 v2 messages. Keys are bytes."""

    records: ClassVar[str] = "HL7 v2 messages"

    def decode(self, value: bytes) -> tuple[Document, Callable[[Document], bytes]]:
        """Return the document of a message, and what writes a document as a message like it."""
        text, charset = _decoded(value.strip(b"\x0b\x1c\r\n"))
        by = _delimiters_of(text)
        line_end = next((end for end in ("\r\n", "\r", "\n") if end in text), "\r")
        last = line_end if value.rstrip(b"\x1c").endswith((b"\r", b"\n")) else ""

        def encode(document: Document) -> bytes:
            return (line_end.join(_segments(document, by)) + last).encode(charset, errors="replace")

        return _document(text, by), encode


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


def _document(text: str, by: Delimiters) -> Document:
    document: Document = {}
    lines = (line for line in re.split(r"[\r\n]+", text) if line.strip())
    for place, line in enumerate(lines):
        name, *fields = line.split(by.field)
        if not is_segment(name) or (name == HEADER and place):
            raise RecordRejectedError(Reason.NOT_IN_FORMAT)
        if name == HEADER:
            fields = ["", "", *fields[1:]]
        numbered = {str(k): _repetitions(field, by) for k, field in enumerate(fields, start=1) if field}
        document.setdefault(name, []).append({PLACE: place, **numbered})
    return document


def _repetitions(field: str, by: Delimiters) -> list[Document]:
    """Return the components of each repetition; those without a value are left out."""
    return [
        {str(k): _subcomponents(part, by) for k, part in enumerate(repetition.split(by.component), 1) if part}
        for repetition in field.split(by.repetition)
    ]


def _subcomponents(component: str, by: Delimiters) -> dict[str, str | None]:
    if by.subcomponent not in component:
        return {"1": None if component == _DELETED else by.unescaped(component)}
    parts = enumerate(component.split(by.subcomponent), start=1)
    return {str(k): None if part == _DELETED else by.unescaped(part) for k, part in parts if part}


def _segments(document: Document, by: Delimiters) -> list[str]:
    """Return the segments of a masked message in their order; those of which nothing is left are left out."""
    placed = [(segment[PLACE], name, segment) for name, segments in document.items() for segment in segments]
    placed.sort(key=lambda entry: entry[0])
    written = [(name, _segment(name, segment, by)) for _, name, segment in placed]
    return [text for name, text in written if text != name]


def _segment(name: str, segment: Mapping[str, Any], by: Delimiters) -> str:
    fields = {key: _joined_repetitions(value, by) for key, value in segment.items() if key != PLACE}
    if name == HEADER:
        return by.field.join((name, by.header, *_numbered(fields)[2:]))
    return by.field.join((name, *_numbered(fields)))


def _joined_repetitions(repetitions: Sequence[Any], by: Delimiters) -> str:
    texts = [_joined(repetition or {}, by.component, by) for repetition in repetitions]
    return by.repetition.join(text for text in texts if text)


def _joined(parts: Mapping[str, Any], separator: str, by: Delimiters) -> str:
    """Return numbered parts as one text; empty texts stand for those that are not there."""
    if len(parts) == 1 and "1" in parts:
        return _part(parts["1"], by)
    return separator.join(_numbered({key: _part(value, by) for key, value in parts.items()}))


def _numbered(texts: Mapping[str, str]) -> list[str]:
    """Return texts by their numbers from 1 on, up to the last one that is not empty."""
    by_number = {int(key): text for key, text in texts.items() if text}
    return [by_number.get(k, "") for k in range(1, max(by_number, default=0) + 1)]


def _part(value: Any, by: Delimiters) -> str:
    if isinstance(value, dict):
        return _joined(value, by.subcomponent, by)
    return _DELETED if value is None else by.written(value if isinstance(value, str) else str(value))
