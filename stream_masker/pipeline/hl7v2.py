"""HL7 v2 messages: their segments as documents, the paths into them, and the masked message written back.

A message is the document ``{"DG1": [{"#": 3, "3": [{"1": {"1": "E11.9"}}]}]}``. Segments, repetitions, components and
subcomponents are on levels of their own, whether or not they repeat. The value ``""``, by which a sender deletes a
value, is null. Escape sequences stay as they are.

In paths, ``DG1[*].3.1`` is segment, field, component, and if needed subcomponent. A path without ``[*]`` or ``[0]``
selects all segments of the name and all repetitions of the field, so ``DG1.3.1`` and ``DG1[*].3[*].1`` are the same. A
component without subcomponents is its first subcomponent, and a field without components its first component.

A reader of some paths (``Hl7Format.reading``) gets only the fields in these paths. A field of which nobody reads a part
may be one text, as the message has it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import zip_longest
from operator import itemgetter
from typing import Any, Final

from stream_masker.errors import ConfigurationError
from stream_masker.pipeline.formats import RecordFormat, Write
from stream_masker.pipeline.paths import Document, EachStep, FilterStep, IndexStep, NameStep, Path, Step
from stream_masker.pipeline.records import Reason, RecordRejectedError

HEADER: Final = "MSH"
PLACE: Final = "#"
"""The member of a segment that holds its place in the message."""

OTHERS: Final = "*"
"""Stands for all other fields of a segment."""

CONTROL_ID: Final = "MSH.10"
HEADER_FIELDS: Final = ("9", "11", "12", "18")
"""The fields of the header that are always kept: message type, processing id, version and character set."""

_SEGMENT: Final = re.compile(r"[A-Z][A-Z0-9]{2}")
_NUMBER: Final = re.compile(r"[1-9][0-9]{0,3}")
_FORM: Final = re.compile(r"S\[?(?:N[\[F]?N{0,2})?")
"""The steps of a path: a segment, a field, a component and a subcomponent; the first two may have a selector, and the
field a filter of its repetitions."""

_FIRST: Final = frozenset("1")
_DELETED: Final = '""'


def hl7_path(path: Path, *, first: bool = False, whole: bool = False) -> Path:
    """Return the path into the document of a message. Raises ConfigurationError for a path of another form.

    ``first``: select the first segment and repetition. ``whole``: a path that ends at a segment, a field or a component
    selects all of it; otherwise it is continued to the first subcomponent.
    """
    if not _FORM.fullmatch("".join(map(_kind, path.steps))) or not (whole or path.steps[1:]):
        raise ConfigurationError(
            f"path {path.text!r}: with records: hl7v2, a path is a segment, a field and a component, such as PID.3.1 "
            "or DG1[*].3.1"
        )
    names, steps = 0, list[Step]()
    for step, following in zip_longest(path.steps, path.steps[1:]):
        names += isinstance(step, NameStep)
        # A filter compares the first subcomponent of a component.
        steps.append(replace(step, field=(*step.field, "1")) if isinstance(step, FilterStep) else step)
        is_selected = isinstance(step, NameStep) and names <= 2 and isinstance(following, NameStep | None)
        if is_selected and not (whole and names == 2 and following is None):
            steps.append(IndexStep(0) if first else EachStep())
    return Path(path.text, (*steps, *([] if whole else [NameStep("1")] * (4 - names))))


def _kind(step: Step) -> str:
    if isinstance(step, NameStep):
        return "S" if _SEGMENT.fullmatch(step.key) else "N" if _NUMBER.fullmatch(step.key) else "?"
    return "F" if isinstance(step, FilterStep) else "["


def kept_paths(segments: Sequence[str]) -> Iterator[Path]:
    """Yield the paths that are kept so that a message with these segments is valid: their order, and the header."""
    fields = [(name, PLACE) for name in dict.fromkeys((HEADER, *segments))]
    for name, field in (*fields, *((HEADER, field) for field in HEADER_FIELDS)):
        yield Path(f"{name}.{field}", (NameStep(name), EachStep(), NameStep(field)))


class Delimiters:
    """The characters that separate the parts of a message: field, component, repetition, escape, subcomponent."""

    def __init__(self, marks: str) -> None:
        self.field, component, self.repetition, escape, subcomponent = tuple(marks)
        self.header, self._levels = marks[1:], (component, subcomponent)
        self._sequences = {mark: f"{escape}{letter}{escape}" for letter, mark in zip("FSRET", marks, strict=True)}
        escape = re.escape(escape)
        sequence = rf"{escape}(?:[FSRETHN]|\.[A-Za-z]{{2}}[^{escape}]*|[CMZX][^{escape}]*){escape}"
        self._special = re.compile(rf"{sequence}|[\r\n]+|[{re.escape(marks)}]")

    def parsed(self, field: str) -> list[Document]:
        """Return the components of each repetition of a field; those without a value are left out."""
        if field.isalnum():  # no delimiter is a letter or a digit
            return [{"1": {"1": field}}]
        return [self._split(repetition, *self._levels) for repetition in field.split(self.repetition)]

    def _split(self, text: str, mark: str = "", *below: str) -> Any:
        if not mark:
            return None if text == _DELETED else text
        return {str(k): self._split(part, *below) for k, part in enumerate(text.split(mark), start=1) if part}

    def joined(self, field: Any) -> str:
        """Return the text of a field that ``parsed`` returned, or of one that is a text."""
        if isinstance(field, str):
            return field
        return self.repetition.join(filter(None, [self._join(part or {}, *self._levels) for part in field]))

    def _join(self, value: Any, mark: str = "", *below: str) -> str:
        if isinstance(value, dict):
            if value.keys() == _FIRST:
                return self._join(value["1"], *below)
            return _numbered(mark, [(number, self._join(part, *below)) for number, part in value.items()])
        text = str(value)
        return _DELETED if value is None else text if text.isalnum() else self._special.sub(self._written, text)

    def _written(self, match: re.Match[str]) -> str:
        """Return the escape sequence of a delimiter, and a space for line breaks. Escape sequences stay."""
        return " " if match[0].isspace() else self._sequences.get(match[0], match[0])


def _numbered(separator: str, texts: Iterable[tuple[str, str]], last: int = 1) -> str:
    """Return texts with ascending numbers, from ``last`` on, up to the last one that is not empty, as one text."""
    written = ""
    for number, text in texts:
        if text:
            written, last = f"{written}{separator * (int(number) - last)}{text}", int(number)
    return written


@lru_cache(maxsize=64)
def _delimiters(header: str) -> Delimiters:
    """Return the delimiters that a message begins with."""
    name, marks = header[:3], header[3:]
    if name != HEADER or len(set(marks)) < 5 or any(mark.isalnum() or mark.isspace() for mark in marks):
        raise RecordRejectedError(Reason.NOT_IN_FORMAT)
    return Delimiters(marks)


class Hl7Format(RecordFormat):
    """The format of records that are HL7 v2 messages."""

    def __init__(self, fields: Mapping[str, Mapping[str, bool]] | None = None) -> None:
        """``fields``: those that are read, by segment and number, and whether parts of them are; by default all."""
        self._fields, self._unnamed = fields or {}, {OTHERS: True} if fields is None else {}

    def reading(self, paths: Iterable[Path]) -> Hl7Format:
        """Return the format in which only the fields in these paths are read."""
        fields = defaultdict[str, dict[str, bool]](dict)
        for path in paths:
            segment, *numbers = (step.key for step in path.steps if isinstance(step, NameStep))
            number = numbers[0] if numbers else OTHERS
            has_parts = path.steps[3:] != ()  # behind the segment, its selector and the field
            fields[segment][number] = has_parts or fields[segment].get(number, False)
        return Hl7Format(fields)

    def decode(self, value: bytes) -> tuple[Document, Write]:
        """Return the document of a message, and what writes a document as a message like it."""
        content, charset = value.strip(b"\x0b\x1c\r\n"), "utf-8"
        try:
            text = content.decode()
        except UnicodeDecodeError:
            text, charset = content.decode("latin-1"), "latin-1"  # which keeps every byte
        by = _delimiters(text[:8])
        line_end = next((end for end in ("\r\n", "\r", "\n") if end in text), "\r")
        last = line_end if value.rstrip(b"\x1c").endswith((b"\r", b"\n")) else ""

        def encode(document: Document) -> bytes:
            return (line_end.join(_lines(document, by)) + last).encode(charset, errors="replace")

        return self._document(text, by), encode

    def _document(self, text: str, by: Delimiters) -> Document:
        document: Document = {}
        lines = (line for line in text.replace("\n", "\r").split("\r") if line and not line.isspace())
        for place, line in enumerate(lines):
            name, *fields = line.split(by.field)
            if not _SEGMENT.fullmatch(name) or (name == HEADER and place):
                raise RecordRejectedError(Reason.NOT_IN_FORMAT)
            if not (read := self._fields.get(name, self._unnamed)):
                continue
            segment: Document = {PLACE: place}
            for number, field in enumerate(fields, 1) if place else enumerate(fields[1:], 3):  # not the delimiters
                if field and (has_parts := read.get(key := str(number), read.get(OTHERS))) is not None:
                    is_text = not has_parts and (key not in read or field.isalnum())
                    segment[key] = field if is_text else by.parsed(field)
            document.setdefault(name, []).append(segment)
        return document


def _lines(document: Document, by: Delimiters) -> Iterator[str]:
    """Yield the segments of a masked message in their order; those of which nothing is left are left out."""
    placed = [(segment[PLACE], name, segment) for name, segments in document.items() for segment in segments]
    for place, name, segment in sorted(placed, key=itemgetter(0)):
        texts = [(number, by.joined(field)) for number, field in segment.items() if number != PLACE]
        if place == 0:
            texts.insert(0, ("2", by.header))
        if text := _numbered(by.field, texts, 1 if place else 2):
            yield f"{name}{by.field}{text}"
