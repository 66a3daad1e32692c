"""Events from files: CSV rows mapped to fields, or JSON as it is; malformed lines are reported by number."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import orjson

from stream_masker.errors import ConfigurationError, ServiceError
from stream_masker.pipeline.paths import IndexStep, JsonValue, NameStep, Path, compile_path
from stream_masker.service.configuration.fields.sections import ProduceSection
from stream_masker.service.events.event_builder import NO_FIELD, event_tree, row_builder
from stream_masker.service.files.inputs import InputFile, read_errors
from stream_masker.service.files.lines import numbered_lines

MAX_ROW_LINES: Final = 1_000
"""The most lines of a row of a CSV file, whose cells may have several. In a longer row, a quote is not closed."""

HEAD_BYTES: Final = 1 << 16
"""The bytes at the start of a CSV file whose rows tell whether the first line has names."""

_VALUES: Final = {
    "a number": re.compile(r"[-+]?\d+(?:[.,]\d+)?"),
    "a date": re.compile(r"\d{1,4}([-./])\d{1,2}\1\d{1,4}(?:[T ,].*)?"),
    "a code": re.compile(r"[A-Z]\d[0-9A-Z]\.?[0-9A-Z]{1,4}|[A-Z]+[:_]\d+"),
}
"""What the cells of a column are, by their form. Names of columns, such as ``D10``, may look like short codes."""

GetKey: TypeAlias = Callable[[JsonValue], bytes | None]


@dataclass(frozen=True, slots=True)
class FileEvent:
    """An event to publish."""

    value: bytes
    key: bytes | None = None


@dataclass(frozen=True, slots=True)
class MalformedLine:
    """A line that is not an event: its number, from 1, and the reason, without its content."""

    line: int
    reason: str


class MalformedError(Exception):
    """A row that is not an event; the message is the reason, without the row's content.

    is_open: whether the file ends within quotes.
    """

    def __init__(self, reason: str, *, is_open: bool = False) -> None:
        super().__init__(reason)
        self.is_open = is_open


class EventFile:
    """A file of events: JSON lines, a JSON array or CSV; iterates over its events and malformed lines.

    A row of a CSV file with a quote that is not closed raises ServiceError: the rows after it would be lost.

    ``header``: the names of the columns of a CSV file. Raises ServiceError if it cannot be read, ConfigurationError if
    the settings of ``produce`` do not fit it.
    """

    def __init__(self, file: InputFile, *, settings: ProduceSection) -> None:
        self.name = file.name
        self._file = file
        self._settings = settings
        self._key = key_getter(settings.key)
        if file.kind == "csv":
            _check_names(file)
            text = io.TextIOWrapper(file.stream, encoding=file.encoding, errors="surrogateescape", newline="")
            self._reader = csv.reader(text, strict=True, delimiter=file.delimiter)
            with read_errors(self.name):
                self.header = _header(self._reader, self.name)

    def __iter__(self) -> Iterator[FileEvent | MalformedLine]:
        with read_errors(self.name):
            yield from self._rows() if self._file.kind == "csv" else self._lines()

    def _lines(self) -> Iterator[FileEvent | MalformedLine]:
        for number, text in numbered_lines(self._file):
            if stripped := text.strip():
                yield self._line(number, stripped)

    def _line(self, number: int, text: bytes) -> FileEvent | MalformedLine:
        try:
            event = orjson.loads(text)
        except orjson.JSONDecodeError:
            return MalformedLine(number, "not JSON")
        if not isinstance(event, dict):
            return MalformedLine(number, "not a JSON object")
        return FileEvent(text, self._key(event))

    def _rows(self) -> Iterator[FileEvent | MalformedLine]:
        reader, number, before = self._reader, 0, self._reader.line_num
        rows = EventRows(self.header, self._settings)
        while (row := _next_row(reader)) is not None:
            if row:
                number += 1
                self._check_quotes(row, number, before + 1, reader.line_num - before)
                yield self._row(rows, row, reader.line_num)
            before = reader.line_num

    def _check_quotes(self, row: Sequence[str] | MalformedError, number: int, line: int, lines: int) -> None:
        """Raise ServiceError for a row that holds later ones because a quote in it is not closed."""
        if isinstance(row, MalformedError):
            is_open = row.is_open or lines > 1
        else:
            is_open = lines > (MAX_ROW_LINES if len(row) == len(self.header) else 1)
        if is_open:
            raise ServiceError(
                f"{self.name}, row {number:,} (line {line:,}): a quote is not closed in its row, and rows below would "
                f"be lost: close it, and write a quote within quotes twice (a row has at most {MAX_ROW_LINES:,} lines)"
            )

    def _row(self, rows: EventRows, row: Sequence[str] | MalformedError, number: int) -> FileEvent | MalformedLine:
        try:
            event = rows.event(row)
            return FileEvent(_encoded(event), self._key(event))
        except MalformedError as error:
            return MalformedLine(number, str(error))


class EventRows:
    """Converts the rows of a CSV file to events. Raises ConfigurationError if the settings do not fit the header."""

    def __init__(self, header: Sequence[str], settings: ProduceSection) -> None:
        self._width = len(header)
        self._nulls = frozenset(settings.null_values)
        paths = {column: compile_path(text) for column, text in settings.columns.items()}
        _require(header, (*paths, *settings.numbers, *settings.lists))
        self._numbers = [header.index(column) for column in settings.numbers if column not in settings.lists]
        self._lists = [(header.index(column), separator) for column, separator in settings.lists.items()]
        flat = {column: Path(column, (NameStep(column),)) for column in header}
        self._build = row_builder(event_tree(paths or flat), header)

    def event(self, row: Sequence[str] | MalformedError) -> JsonValue:
        """Return the event of a row. Raises MalformedError."""
        if isinstance(row, MalformedError):
            raise row
        if len(row) != self._width:
            raise MalformedError(f"{len(row)} cells, but the header has {self._width}")
        cells: list[Any] = [NO_FIELD if cell in self._nulls else cell for cell in row]
        for column in self._numbers:
            cells[column] = cells[column] if cells[column] is NO_FIELD else _number(cells[column], column)
        for column, separator in self._lists:
            cells[column] = cells[column] if cells[column] is NO_FIELD else split_cell(cells[column], separator)
        return self._build(cells)


def split_cell(cell: str, separator: str) -> list[str]:
    """Return the texts of a cell with several; the spaces around them and around ``separator`` do not count."""
    return [text for part in cell.split(separator.strip() or None) if (text := part.strip())]


def key_getter(path: Path | str | None) -> GetKey:
    """Return a function that reads an event's message key; None if the event has no value there, or without a path."""
    if path is None:
        return lambda _: None
    path = compile_path(path) if isinstance(path, str) else path
    steps = [_plain(step, path.text) for step in path.steps]

    def get(event: JsonValue) -> bytes | None:
        for step in steps:
            try:
                event = event[step]
            except (LookupError, TypeError):
                return None
        return event.encode() if isinstance(event, str) else None if event is None else orjson.dumps(event)

    return get


def _plain(step: object, path: str) -> str | int:
    if isinstance(step, NameStep):
        return step.key
    if isinstance(step, IndexStep):
        return step.position
    raise ConfigurationError(f"produce.key: {path!r} selects several values: use only names and indices")


def _check_names(file: InputFile) -> None:
    """Raise ServiceError if the first line of a CSV file has values instead of the names of columns."""
    peek = getattr(file.stream, "peek", lambda _: b"")
    text = peek(HEAD_BYTES)[:HEAD_BYTES].decode(file.encoding, "replace")
    header, *rows = [*csv.reader(text.splitlines(), delimiter=file.delimiter)] or [[]]
    rows = [row for row in rows if len(row) == len(header) and row != header]
    for number, (name, *cells) in enumerate(zip(header, *rows, strict=True), start=1):
        if (what := _value_kind(name.strip(), [cell.strip() for cell in cells])) is not None:
            raise ServiceError(
                f"{file.name} does not start with a line of column names: the first cell of column {number} is {what} "
                f"below it. Put a line before it that names the {len(header)} columns, with the delimiter "
                f"{file.delimiter!r}; produce.columns may give them other paths"
            )


def _value_kind(name: str, cells: Sequence[str]) -> str | None:
    """Return what the first cell of a column is if it looks like one of the cells below; None if it may be a name."""
    if name and name in cells:
        return "a text that occurs again"
    given = [cell for cell in cells if cell]
    kinds = (kind for kind, form in _VALUES.items() if form.fullmatch(name))
    return next((f"{kind} like those" for kind in kinds if 2 * sum(map(_is_of(kind), given)) > len(given)), None)


def _is_of(kind: str) -> Callable[[str], bool]:
    return lambda cell: _VALUES[kind].fullmatch(cell) is not None


def _header(reader: Iterator[list[str]], name: str) -> list[str]:
    header = _next_row(reader)
    if not header or isinstance(header, MalformedError):
        raise ServiceError(f"{name} does not start with a line of column names")
    if len(set(header)) < len(header):
        raise ServiceError(f"{name}: two of its {len(header)} columns have the same name")
    return header


def _next_row(reader: Iterator[list[str]]) -> list[str] | MalformedError | None:
    try:
        return next(reader, None)
    except csv.Error as error:
        return MalformedError("not CSV", is_open="unexpected end" in str(error))


def _require(header: Sequence[str], columns: Sequence[str]) -> None:
    missing = sorted({repr(column) for column in columns if column not in header})
    if missing:
        raise ConfigurationError(f"produce names columns that are not in the file: {', '.join(missing)}")


def _number(cell: str, column: int) -> int | float:
    for parse in (int, float):
        try:
            number = parse(cell)
        except ValueError:
            continue
        if math.isfinite(number):
            return number
    raise MalformedError(f"column {column + 1} is not a number")


def _encoded(event: JsonValue) -> bytes:
    try:
        return orjson.dumps(event)
    except TypeError:
        raise MalformedError("not UTF-8, or a number of more than 64 bits") from None
