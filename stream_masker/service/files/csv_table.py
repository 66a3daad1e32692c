"""CSV files as events: rows as lines of JSON, and masked lines as rows again."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, BinaryIO, Final

import orjson

from stream_masker.errors import ServiceError
from stream_masker.pipeline.paths import JsonValue
from stream_masker.pipeline.plan import Plan
from stream_masker.service.configuration.fields.sections import ProduceSection
from stream_masker.service.files.columns import NO_FIELD, WrittenColumn, column_paths, row_builder, value_at
from stream_masker.service.files.inputs import InputFile, read_errors, table_start
from stream_masker.service.files.text import NumberedLine, WriteLine

BAD_ROW: Final = b"not a row"
"""The line of a row that is no event. It is not JSON, so that it is rejected."""

MAX_ROW_LINES: Final = 1_000
"""The most lines of a row, whose cells may have several. In a longer row, a quote is not closed."""

_VALUES: Final = {
    "a number": re.compile(r"[-+]?\d+(?:[.,]\d+)?"),
    "a date": re.compile(r"\d{1,4}([-./])\d{1,2}\1\d{1,4}(?:[T ,].*)?"),
    "a code": re.compile(r"[A-Z]\d[0-9A-Z]\.?[0-9A-Z]{1,4}|[A-Z]+[:_]\d+"),
}
"""What the cells of a column are, by their form. Names of columns, such as ``D10``, may look like short codes."""


class CsvTable:
    """A CSV file whose first line has the names of its columns.

    ``columns``: the path of each column in an event. Raises ServiceError for a file without a header,
    ConfigurationError if the settings of ``produce`` do not fit it.
    """

    kind = "csv"

    def __init__(self, file: InputFile, settings: ProduceSection) -> None:
        self._name, self._encoding = file.name, file.encoding
        self._settings = settings
        self.delimiter, start = table_start(file.head)
        _check_names(file.name, file.head[start:], self.delimiter)
        errors = "strict" if file.encoding == "utf-16" else "surrogateescape"
        text = io.TextIOWrapper(file.stream, encoding=file.encoding, errors=errors, newline="")
        if start:
            text.readline()
        self._reader = csv.reader(text, strict=True, delimiter=self.delimiter)
        self.header = self._header()
        self.columns = column_paths(self.header, settings, used=(*settings.numbers, *settings.lists))
        self._numbers = [self.header.index(column) for column in settings.numbers if column not in settings.lists]
        self._lists = [(self.header.index(column), by) for column, by in settings.lists.items()]

    def probes(self) -> Sequence[JsonValue]:
        """Return a value for each column, of the shape of its values."""
        return [["value"] if column in self._settings.lists else "value" for column in self.columns]

    def _header(self) -> list[str]:
        header = self._next(1)
        if not header:
            raise ServiceError(f"{self._name} does not start with a line of column names")
        header[0] = header[0].removeprefix("\ufeff")
        if len(set(header)) < len(header):
            raise ServiceError(f"{self._name}: two of its {len(header)} columns have the same name")
        self._encoded(header, 1)
        return header

    def lines(self) -> Iterator[NumberedLine]:
        """Yield the rows as lines of JSON with their numbers, without the header; ``BAD_ROW`` for one that is no event.

        Raises ServiceError with the number of the row if a quote is not closed, because the rows after it would be
        lost, and for a row that is not in the encoding of the file.
        """
        build = row_builder(self.columns, self.header)
        number, before = 0, self._reader.line_num
        with read_errors(self._name):
            while (row := self._next(number + 1)) is not None:
                if row:
                    number += 1
                    lines = self._reader.line_num - before
                    if lines > (MAX_ROW_LINES if len(row) == len(self.header) else 1):
                        raise self._open_quote(number, before + 1)
                    cells = self._cells(row)
                    yield number, BAD_ROW if cells is None else self._encoded(build(cells), number)
                before = self._reader.line_num

    def _next(self, number: int) -> list[str] | None:
        """Return the next row, None at the end of the file. ``number``: of the row, for errors."""
        before = self._reader.line_num
        try:
            return next(self._reader, None)
        except csv.Error as error:
            if "unexpected end" in str(error) or self._reader.line_num > before + 1:
                raise self._open_quote(number, before + 1) from None
            return [""] * (len(self.header) + 1)
        except UnicodeDecodeError:
            raise self._wrong_encoding(number) from None

    def _open_quote(self, number: int, line: int) -> ServiceError:
        return ServiceError(
            f"{self._name}, row {number:,} (line {line:,}): a quote is not closed in its row, and rows below would be "
            f"lost: close it, and write a quote within quotes twice (a row has at most {MAX_ROW_LINES:,} lines)"
        )

    def _wrong_encoding(self, number: int) -> ServiceError:
        return ServiceError(
            f"{self._name}, row {number:,}: the text is not in {self._encoding}: name the encoding of the file in "
            "produce.encoding, such as cp1252"
        )

    def _encoded(self, value: JsonValue, number: int) -> bytes:
        try:
            return orjson.dumps(value)
        except TypeError:
            raise self._wrong_encoding(number) from None

    def _cells(self, row: Sequence[str]) -> list[Any] | None:
        """Return the values of a row's cells; None if they do not fit the header, or a number is none."""
        if len(row) != len(self.header):
            return None
        nulls = self._settings.null_values
        cells: list[Any] = [NO_FIELD if cell in nulls else cell for cell in row]
        for column in self._numbers:
            if cells[column] is not NO_FIELD and (number := _number(cells[column])) is not None:
                cells[column] = number
            elif cells[column] is not NO_FIELD:
                return None
        for column, separator in self._lists:
            if cells[column] is not NO_FIELD:
                cells[column] = split_cell(cells[column], separator)
        return cells

    @contextmanager
    def writer(self, stream: BinaryIO, columns: Mapping[str, WrittenColumn], _: Plan) -> Iterator[WriteLine]:
        """Give a function that writes a masked line as a row, in UTF-8."""
        text = io.TextIOWrapper(stream, encoding="utf-8", newline="", write_through=True)
        rows = csv.writer(text, lineterminator="\n", delimiter=self.delimiter)
        rows.writerow(columns)
        paths = [(column.path, self._settings.lists.get(name, "")) for name, column in columns.items()]
        yield lambda line: rows.writerow([_cell(value_at(orjson.loads(line), path), by) for path, by in paths])
        text.detach()


def split_cell(cell: str, separator: str) -> list[str]:
    """Return the texts of a cell with several; the spaces around them and around ``separator`` do not count."""
    return [text for part in cell.split(separator.strip() or None) if (text := part.strip())]


def _cell(value: JsonValue, separator: str) -> str:
    """Return the text of a value; ``separator``: of the texts of a list, which is JSON without one."""
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, list) and separator:
        return separator.join(_cell(element, "") for element in value)
    return orjson.dumps(value).decode()


def _number(cell: str) -> int | float | None:
    """Return the number of a cell; None if it has none, or one that JSON has not."""
    try:
        number = int(cell)
    except ValueError:
        try:
            real = float(cell)
        except ValueError:
            return None
        return real if math.isfinite(real) else None
    return number if -(1 << 63) <= number < 1 << 64 else None


def _check_names(name: str, head: str, delimiter: str) -> None:
    """Raise ServiceError if a cell of a file's first line looks like the cells below it, or occurs again."""
    header, *rows = [*csv.reader(head.splitlines(), delimiter=delimiter)] or [[]]
    rows = [row for row in rows if len(row) == len(header) and row != header]
    for number, (first, *cells) in enumerate(zip(header, *rows, strict=True), start=1):
        if (what := _value_kind(first.strip(), [cell.strip() for cell in cells])) is not None:
            raise ServiceError(
                f"{name} does not start with a line of column names: the first cell of column {number} is {what} "
                f"below it. Put a line before it that names the {len(header)} columns, with the delimiter "
                f"{delimiter!r}; produce.columns may give them other paths"
            )


def _value_kind(first: str, cells: Sequence[str]) -> str | None:
    """Return what the first cell of a column is if it looks like one of the cells below; None if it may be a name."""
    if first and first in cells:
        return "a text that occurs again"
    given = [cell for cell in cells if cell]
    for kind, form in _VALUES.items():
        if form.fullmatch(first) and 2 * sum(form.fullmatch(cell) is not None for cell in given) > len(given):
            return f"{kind} like those"
    return None
