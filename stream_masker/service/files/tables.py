"""CSV and Parquet files as events: rows become lines of JSON, and masked lines become rows again."""

from __future__ import annotations

import csv
import importlib
import io
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from typing import Any, BinaryIO, Final

import orjson

from stream_masker.errors import ConfigurationError, ServiceError, installation_of
from stream_masker.pipeline.paths import JsonValue
from stream_masker.pipeline.records import Reason, Rejected
from stream_masker.service.configuration.masking import CsvSection
from stream_masker.service.files import FileEvent
from stream_masker.service.files.streams import WriteLine

MAX_ROW_LINES: Final = 1_000
"""The most lines of a row, whose cells may have several. In a longer row, a quote is not closed."""

ROW_GROUP: Final = 50_000
"""The most rows that are written together to a Parquet file."""

_VALUES: Final = (
    re.compile(r"[-+]?\d+(?:[.,]\d+)?"),
    re.compile(r"\d{1,4}([-./])\d{1,2}\1\d{1,4}(?:[T ,].*)?"),
    re.compile(r"[A-Z]\d[0-9A-Z]\.?[0-9A-Z]{1,4}|[A-Z]+[:_]\d+"),
)
"""The forms of numbers, dates and codes. Names of columns, such as ``D10``, may look like short codes."""


class CsvTable:
    """A CSV file whose first line has the names of its columns, which are the names of the fields of its events.

    ``names``: of the columns. Raises ServiceError for a file without a header, ConfigurationError if the settings do
    not fit it.
    """

    def __init__(self, name: str, stream: BinaryIO, head: str, encoding: str, settings: CsvSection) -> None:
        """``name``: for messages; ``head``: the first text of the file."""
        self._name, self._settings, self.names = name, settings, list[str]()
        self.delimiter, _ = table_form(head)
        _check_names(name, head, self.delimiter)
        text = io.TextIOWrapper(stream, encoding=encoding, newline="")
        self._reader = csv.reader(text, strict=True, delimiter=self.delimiter)
        self.names = [name.removeprefix("\ufeff") for name in self._next(1) or ()]
        if not self.names:
            raise ServiceError(f"{name} does not start with a line of column names")
        if len(set(self.names)) < len(self.names):
            raise ServiceError(f"{name}: two of its {len(self.names)} columns have the same name")
        if missing := [repr(name) for name in settings.lists if name not in self.names]:
            raise ConfigurationError(f"csv.lists names columns that are not in the file: {', '.join(missing)}")

    def events(self) -> Iterator[FileEvent]:
        """Yield the rows as lines of JSON, without the header and missing cells.

        Raises ServiceError with the number of the row if a quote is not closed, because the rows after it would be
        lost; and for a file that is not in its encoding.
        """
        number, lists, null = 0, self._settings.lists, self._settings.null_values
        while (row := self._next(number + 1)) is not None:
            number += bool(row)
            if len(row) == len(self.names):
                cells = {name: cell for name, cell in zip(self.names, row, strict=True) if cell not in null}
                event = {name: _split(cell, lists[name]) if name in lists else cell for name, cell in cells.items()}
                yield FileEvent(number, orjson.dumps(event))
            elif row:
                yield FileEvent(number, b"", Rejected(Reason.NOT_IN_FORMAT, "the number of cells"))

    def _next(self, number: int) -> list[str] | None:
        """Return the next row, None at the end of the file. ``number``: of the row, for errors."""
        start, is_open = self._reader.line_num, False
        try:
            row = next(self._reader, None)
        except csv.Error as error:
            row, is_open = [""] * (len(self.names) + 1), "unexpected end" in str(error)
        except UnicodeDecodeError as error:
            remedy = "name the encoding of the file in csv.encoding, such as cp1252"
            raise ServiceError(f"{self._name}: the text is not in {error.encoding}: {remedy}") from None
        may_span = row is not None and len(row) == len(self.names or row)
        if is_open or self._reader.line_num - start > (MAX_ROW_LINES if may_span else 1):
            raise ServiceError(
                f"{self._name}, row {number:,} (line {start + 1:,}): a quote is not closed in its row, and rows "
                "below would be lost: close it, and write a quote within quotes twice (a row has at most "
                f"{MAX_ROW_LINES:,} lines)"
            )
        return row

    @contextmanager
    def writer(self, stream: BinaryIO, columns: Collection[str]) -> Iterator[WriteLine]:
        """Give a function that writes a masked line as a row of some columns, in UTF-8."""
        text = io.TextIOWrapper(stream, encoding="utf-8", newline="", write_through=True)
        rows = csv.writer(text, lineterminator="\n", delimiter=self.delimiter)
        rows.writerow(columns)
        separators = [self._settings.lists.get(name, "") for name in columns]

        def write(line: bytes) -> None:
            rows.writerow(map(_cell, map(orjson.loads(line).get, columns), separators))

        yield write
        text.detach()


def table_form(text: str) -> tuple[str, bool]:
    """Return the delimiter of a table, and whether it splits the first two lines into as many cells, and more than one.

    It is one that does so, because names of columns may contain others (``Diagnosis (ICD-10, coded)``), or else that of
    the most cells in the first line.
    """
    lines = text.splitlines()[:2]

    def fit(delimiter: str) -> tuple[bool, int]:
        cells = [len(row) for row in csv.reader(lines, delimiter=delimiter)] or [1]
        return len(cells) == 2 and cells[0] == cells[1] > 1, cells[0]

    best = max(",;\t|", key=fit)
    return best, fit(best)[0]


def _split(cell: str, separator: str) -> list[str]:
    """Return the texts of a cell that has several, without the spaces around them."""
    return [text for part in cell.split(separator.strip() or None) if (text := part.strip())]


def _cell(value: JsonValue, separator: str) -> str:
    """Return the text of a value; ``separator``: of the texts of a list, which is JSON without one."""
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, list) and separator:
        return separator.join(_cell(element, "") for element in value)
    return orjson.dumps(value).decode()


def _check_names(name: str, head: str, delimiter: str) -> None:
    """Raise ServiceError if a cell of the first line occurs again below it, or has the form of most cells there."""
    header, *rows = [*csv.reader(head.splitlines(), delimiter=delimiter)] or [[]]
    rows = [row for row in rows if len(row) == len(header) and row != header]
    for number, column in enumerate(zip(header, *rows, strict=True), start=1):
        first, *cells = (cell.strip() for cell in column)
        given = list(filter(None, cells))
        alike = (sum(map(bool, map(form.fullmatch, given))) for form in _VALUES if form.fullmatch(first))
        if first in given or 2 * max(alike, default=0) > len(given):
            raise ServiceError(
                f"{name} does not start with a line of column names: the first cell of column {number} is like those "
                f"below it. Put a line before it that names the {len(header)} columns, with the delimiter {delimiter!r}"
            )


class ParquetTable:
    """A Parquet file, whose columns are the fields of its events. Dates and decimals are texts in events.

    ``names``: of the columns. Raises ServiceError without pyarrow, or for a file that is damaged.
    """

    def __init__(self, name: str, stream: io.BufferedReader) -> None:
        """``name``: for messages."""
        try:
            self._arrow, self._parquet = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
        except ModuleNotFoundError:
            raise ServiceError(f"Parquet needs pyarrow: {installation_of('parquet')}") from None
        try:
            self._file = self._parquet.ParquetFile(stream if stream.seekable() else io.BytesIO(stream.read()))
        except (OSError, self._arrow.ArrowException) as error:
            raise ServiceError(f"{name} cannot be read as Parquet ({type(error).__name__})") from None
        self._columns: dict[str, Any] = {field.name: field.type for field in self._file.schema_arrow}
        self.names = [*self._columns]

    def _in_events(self, kind: Any) -> Any:
        """Return the type of a column in events: a text for dates and decimals, and otherwise that of its values."""
        types = self._arrow.types
        plain = kind.value_type if types.is_dictionary(kind) else kind
        return self._arrow.string() if types.is_temporal(plain) or types.is_decimal(plain) else plain

    def events(self) -> Iterator[FileEvent]:
        """Yield the rows as lines of JSON; fields without a value are left out."""
        shown = self._arrow.schema([(name, self._in_events(kind)) for name, kind in self._columns.items()])
        groups = (self._arrow.Table.from_batches([batch]).cast(shown) for batch in self._file.iter_batches())
        for number, row in enumerate(chain.from_iterable(group.to_pylist() for group in groups), start=1):
            event = {name: cell for name, cell in row.items() if cell is not None}
            yield FileEvent(number, orjson.dumps(event, default=str))

    @contextmanager
    def writer(self, stream: BinaryIO, columns: Mapping[str, bool]) -> Iterator[WriteLine]:
        """Give a function that adds a masked line to the file; rows are written in groups.

        columns: the names of those to write, and whether their values become texts.
        """
        is_nested, types = self._arrow.types.is_nested, self._columns
        texts = {name for name, is_text in columns.items() if is_text and not is_nested(types[name])}
        types = {name: self._arrow.string() if name in texts else types[name] for name in columns}
        read = self._arrow.schema([(name, self._in_events(kind)) for name, kind in types.items()])
        written, rows = self._arrow.schema([*types.items()]), list[JsonValue]()
        with self._parquet.ParquetWriter(stream, written) as file:

            def write_group() -> None:
                try:
                    file.write_table(self._arrow.Table.from_pylist(rows, read).cast(written))
                except self._arrow.ArrowException as error:
                    remedy = "drop columns of times, durations, maps and dates within structs, or use a .jsonl file"
                    name = type(error).__name__
                    raise ServiceError(f"masked rows cannot be written as Parquet ({name}): {remedy}") from None
                rows.clear()

            def add(line: bytes) -> None:
                rows.append(orjson.loads(line))
                if len(rows) == ROW_GROUP:
                    write_group()

            yield add
            write_group()
