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
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from operator import itemgetter
from typing import Any, ClassVar, Final

from stream_masker.errors import ConfigurationError
from stream_masker.pipeline.formats import RecordFormat
from stream_masker.pipeline.paths import Document, EachStep, FilterStep, IndexStep, NameStep, Path, Step
from stream_masker.pipeline.plan import Plan
from stream_masker.pipeline.reasons import Reason, RecordRejectedError

HEADER: Final = "MSH"
PLACE: Final = "#"
"""The member of a segment that holds its place in the message."""

LINE: Final = "line"
"""The member of a segment that no path names: the segment as it came."""

CONTROL_ID: Final = "MSH.10"
HEADER_FIELDS: Final = ("9", "11", "12", "18")
"""The fields of the header that are always kept: message type, processing id, version and character set."""

_SEGMENT: Final = re.compile(r"[A-Z][A-Z0-9]{2}")
_NUMBER: Final = re.compile(r"[1-9][0-9]{0,3}")
_FORM: Final = re.compile(r"S\[?(?:N\[?N{0,2})?")
"""The steps of a path: a segment, a field, a component and a subcomponent; the first two may have a selector."""


def hl7_path(path: Path, *, first: bool = False, whole: bool = False) -> Path:
    """Return the path into the JSON of a message. Raises ConfigurationError for a path of another form.

    ``first``: select the first segment and repetition. ``whole``: a path that ends at a segment, a field or a component
    selects all of it; otherwise it is continued to the first subcomponent.
    """
    names = [step for step in path.steps if isinstance(step, NameStep)]
    if not _FORM.fullmatch("".join(map(_kind, path.steps))) or not (whole or names[1:]):
        raise ConfigurationError(
            f"path {path.text!r}: with records: hl7v2, a path is a segment, a field and a component, such as PID.3.1 "
            "or DG1[*].3.1"
        )
    rest, steps = list(path.steps), list[Step]()
    for name in names[:2]:
        rest.remove(name)
        selector: Step = IndexStep(0) if first else EachStep()
        if rest and not isinstance(rest[0], NameStep):
            selector = rest.pop(0)
        if isinstance(selector, FilterStep):  # it compares a component
            selector = replace(selector, field=(*selector.field, "1"))
        steps += [name, selector]
    if whole and len(names) == 2:
        steps.pop()
    return Path(path.text, (*steps, *(rest if whole else (rest + [NameStep("1")] * 2)[:2])))


def _kind(step: Step) -> str:
    if not isinstance(step, NameStep):
        return "["
    return "S" if _SEGMENT.fullmatch(step.key) else "N" if _NUMBER.fullmatch(step.key) else "?"


def kept_paths(segments: Sequence[str]) -> Iterator[Path]:
    """Yield the paths that are kept so that a message with these segments is valid: their order, and the header."""
    for name in dict.fromkeys((HEADER, *segments)):
        yield Path(f"{name}.{PLACE}", (NameStep(name), EachStep(), NameStep(PLACE)))
    for field in HEADER_FIELDS:
        yield Path(f"{HEADER}.{field}", (NameStep(HEADER), EachStep(), NameStep(field)))


_DELETED: Final = '""'
_CHARACTER_SETS: Final = {
    "8859/1": "latin-1",
    "8859/15": "iso8859-15",
    "8859/2": "iso8859-2",
    "WINDOWS-1252": "cp1252",
}
"""The character sets of MSH-18 that are not UTF-8 or a part of it."""
_CHARSET_FIELD: Final = 18


class Delimiters:
    """The characters that separate the parts of a message: field, component, repetition, escape, subcomponent."""

    def __init__(self, marks: str) -> None:
        self.field, self.component, self.repetition, self.escape, self.subcomponent = tuple(marks)
        self.header = marks[1:]
        escape = re.escape(self.escape)
        self._characters = dict(zip("FSRET", marks, strict=True))
        self._escapes = {mark: f"{self.escape}{letter}{self.escape}" for letter, mark in self._characters.items()}
        self._escaped = re.compile(f"{escape}([FSRET]){escape}")
        others = rf"(?:\.[A-Za-z]{{2}}[^{escape}]*|[HN]|[CMZX][^{escape}]*)"
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

    def parsed(self, field: str) -> list[Document]:
        """Return the components of each repetition of a field; those without a value are left out."""
        return [
            {str(k): self._subcomponents(part) for k, part in enumerate(repetition.split(self.component), 1) if part}
            for repetition in field.split(self.repetition)
        ]

    def _subcomponents(self, component: str) -> Document:
        parts = enumerate(component.split(self.subcomponent), start=1)
        return {str(k): None if part == _DELETED else self.unescaped(part) for k, part in parts if part}

    def joined(self, field: Any) -> str:
        """Return the text of a field that ``parsed`` returned."""
        texts = (_numbered(self.component, map(self._component, (repetition or {}).items())) for repetition in field)
        return self.repetition.join(filter(None, texts))

    def _component(self, numbered: tuple[str, Any]) -> tuple[str, str]:
        number, component = numbered
        if not isinstance(component, dict):
            return number, self._text(component)
        return number, _numbered(self.subcomponent, ((key, self._text(value)) for key, value in component.items()))

    def _text(self, value: Any) -> str:
        return _DELETED if value is None else self.written(value if isinstance(value, str) else str(value))


def _numbered(separator: str, texts: Iterable[tuple[str, str]]) -> str:
    """Return texts with ascending numbers from 1 on, up to the last one that is not empty, as one text."""
    parts: list[str] = []
    for number, text in texts:
        if text:
            parts += [""] * (int(number) - 1 - len(parts))
            parts.append(text)
    return separator.join(parts)


@cache
def _delimiters(marks: str) -> Delimiters | None:
    """Return delimiters; None if characters cannot be delimiters."""
    is_valid = len(set(marks)) == 5 and not any(mark.isalnum() or mark.isspace() for mark in marks)
    return Delimiters(marks) if is_valid else None


class Hl7Format(RecordFormat):
    """The format of records that are HL7 v2 messages. Keys are bytes.

    Only the segments that the paths of a plan name are parsed. All others stay texts, and are left out if the plan
    drops what is not listed. Without a plan, everything is parsed.
    """

    records: ClassVar[str] = "HL7 v2 messages"
    is_bounded: ClassVar[bool] = True

    def __init__(self, plan: Plan | None = None) -> None:
        self._drops_others = plan is not None and plan.fields.unlisted == "drop"
        self._named = None if plan is None else {NameStep(HEADER), *(path.steps[0] for path in plan.paths)}

    def decode(self, value: bytes) -> tuple[Document, Callable[[Document], bytes]]:
        """Return the document of a message, and what writes a document as a message like it."""
        text, charset = _decoded(value.strip(b"\x0b\x1c\r\n"))
        by = _delimiters(text[3:8]) if text.startswith(HEADER) else None
        if by is None:
            raise RecordRejectedError(Reason.NOT_IN_FORMAT)
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
            is_parsed = self._named is None or NameStep(name) in self._named
            if not is_parsed and self._drops_others:
                continue
            segment: Document = {PLACE: place}
            if is_parsed:
                numbered = enumerate(fields, 1) if place else enumerate(fields[1:], 3)  # not the delimiters
                segment |= {str(number): by.parsed(field) for number, field in numbered if field}
            else:
                segment[LINE] = line
            document.setdefault(name, []).append(segment)
        return document


def _decoded(value: bytes) -> tuple[str, str]:
    """Return the text of a message and its character set: that of MSH-18, otherwise UTF-8 or Windows-1252."""
    fields = value.split(b"\r", 1)[0].split(b"\n", 1)[0].split(value[3:4] or b"|")
    named = fields[_CHARSET_FIELD - 1] if len(fields) >= _CHARSET_FIELD else b""
    name = named.split(value[5:6] or b"~")[0].decode("ascii", errors="replace").strip().upper()
    charset = _CHARACTER_SETS.get(name, "utf-8")
    for each in (charset,) if charset != "utf-8" else ("utf-8", "cp1252"):
        try:
            return value.decode(each), each
        except UnicodeDecodeError:
            continue
    raise RecordRejectedError(Reason.NOT_UTF8)


def _lines(document: Document, by: Delimiters) -> Iterator[str]:
    """Yield the segments of a masked message in their order; those of which nothing is left are left out."""
    placed = [(segment[PLACE], name, segment) for name, segments in document.items() for segment in segments]
    for place, name, segment in sorted(placed, key=itemgetter(0)):
        if LINE in segment:
            yield segment[LINE]
            continue
        texts = [(key, by.joined(field)) for key, field in segment.items() if key != PLACE]
        if place == 0:
            texts = [("1", by.header), *((str(int(key) - 1), text) for key, text in texts)]
        if text := _numbered(by.field, texts):
            yield f"{name}{by.field}{text}"
