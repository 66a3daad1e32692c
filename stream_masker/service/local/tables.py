"""Tables as events: rows of CSV, Parquet, Avro and Protobuf files as lines of JSON, and masked lines as rows again."""

from __future__ import annotations

import csv
import importlib
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path as File
from typing import Any, BinaryIO, Protocol

import orjson

from stream_masker.errors import ConfigurationError, ServiceError, installation_of
from stream_masker.pipeline.fields import field_treatment
from stream_masker.pipeline.paths import IndexStep, JsonValue, NameStep, Path, compile_path
from stream_masker.pipeline.plan import Plan
from stream_masker.pipeline.pseudonyms import Pseudonyms
from stream_masker.service.configuration.fields.sections import ProduceSection
from stream_masker.service.events.event_builder import NO_FIELD, event_tree, row_builder
from stream_masker.service.events.files import EventFile, FileEvent, MalformedLine, key_getter
from stream_masker.service.files.folders import HL7_SUFFIXES, input_files
from stream_masker.service.files.inputs import PROTOBUF_SUFFIXES, InputFile, open_input
from stream_masker.service.files.lines import NumberedLine, WriteLine, numbered_lines
from stream_masker.service.files.outputs import STANDARD_STREAM, open_output, uncompressed_name
from stream_masker.service.local.avro_table import open_avro
from stream_masker.service.local.hl7_table import Hl7Messages, hl7_events
from stream_masker.service.local.protobuf_table import open_protobuf

_SUFFIXES = {
    ".csv": "csv",
    ".tsv": "csv",
    ".parquet": "parquet",
    ".avro": "avro",
    **dict.fromkeys(PROTOBUF_SUFFIXES, "protobuf"),
    **dict.fromkeys(HL7_SUFFIXES, "hl7"),
    **dict.fromkeys(("", ".jsonl", ".ndjson"), ""),
    ".json": "document",
}
BAD_ROW = b"not a row"
"""The line of a malformed row, which the masker rejects."""

PROBE = "value"
TRANSFORMED = "transformed"
"""Stands for the texts of a transformed column, whose transform may not accept ``PROBE``."""

ROW_GROUP = 50_000


class TableSource(Protocol):
    """An open table: its columns, with the path of each in an event, and its rows as events, numbered from 1."""

    kind: str
    columns: Mapping[str, Path]

    def writer(
        self, stream: Any, columns: Mapping[str, WrittenColumn], plan: Plan
    ) -> AbstractContextManager[WriteLine]:
        """Give a function that writes a masked line as a row."""

    def probes(self) -> Sequence[JsonValue]:
        """Return a value for each column, of the shape of the column's values."""

    def lines(self) -> Iterator[NumberedLine]:
        """Yield the rows as lines of JSON."""


@contextmanager
def open_lines(name: str, settings: ProduceSection) -> Iterator[tuple[Iterator[NumberedLine], TableSource | None]]:
    """Open a file of events; give its lines, and the table if it is one.

    ``settings``: the path of each column, and the texts of missing values and numbers, as for
    ``stream-masker produce``. Raises ServiceError if the file cannot be read, ConfigurationError if the settings do
    not fit the columns.
    """
    names = input_files(name)
    if names != [name]:
        with ExitStack() as stack:
            yield _joined([stack.enter_context(open_input(part)) for part in names], name)
        return
    with open_input(name) as file:
        opened = _opened_table(file, settings)
        if opened is None:
            yield numbered_lines(file), None
            return
        with opened as table:
            yield table.lines(), table


def _joined(files: Sequence[InputFile], name: str) -> tuple[Iterator[NumberedLine], TableSource | None]:
    """Return the events of a folder's files, numbered together."""
    kinds = {file.kind for file in files}
    if kinds == {"hl7"}:
        messages = Hl7Messages(files)
        return messages.lines(), messages
    if kinds - {"lines", "array", "document"}:
        raise ServiceError(f"the folder {name} has files of several kinds: give a folder of JSON or of HL7 v2 alone")
    events = (line for file in files for _, line in numbered_lines(file))
    return enumerate(events, start=1), None


def _opened_table(file: InputFile, settings: ProduceSection) -> AbstractContextManager[TableSource] | None:
    if file.kind == "csv":
        return _open_csv(file, settings)
    if file.kind == "avro":
        return open_avro(file)
    if file.kind == "hl7":
        return nullcontext(Hl7Messages([file]))
    if file.kind == "protobuf":
        return open_protobuf(file, settings)
    return _open_parquet(file, settings) if file.kind == "parquet" else None


@contextmanager
def open_events(name: str, settings: ProduceSection) -> Iterator[tuple[InputFile, Iterable[FileEvent | MalformedLine]]]:
    """Open a file of events; give the file, and its events with their message keys. Raises like ``open_lines``."""
    with open_input(name) as file:
        if file.kind == "hl7":
            yield file, hl7_events(file, settings.key)
            return
        opened = _opened_table(file, settings) if file.kind in ("avro", "parquet", "protobuf") else None
        if opened is None:
            yield file, EventFile(file, settings=settings)
            return
        key = key_getter(settings.key)
        with opened as table:
            yield file, (FileEvent(line, key(orjson.loads(line))) for _, line in table.lines())


def written_kind(name: str) -> str:
    """Return the kind of file that a name says: a kind of table, ``hl7``, ``document``, or nothing for JSON lines.

    Raises ServiceError for another suffix.
    """
    suffix = File(uncompressed_name(name)).suffix.lower()
    if suffix not in _SUFFIXES and not _is_device(name):
        known = ", ".join(sorted(filter(None, _SUFFIXES)))
        raise ServiceError(f"{name}: files that end in {suffix} are not written: use {known} (also with .gz or .zst)")
    return _SUFFIXES.get(suffix, "")


def _is_device(name: str) -> bool:
    return name == STANDARD_STREAM or (File(name).exists() and not File(name).is_file())


@contextmanager
def open_writer(name: str, table: TableSource | None, plan: Plan, secret: bytes) -> Iterator[WriteLine]:
    """Open a file for masked lines: what its name says.

    HL7 v2 messages are written as they stood in the input, also to standard output. A table has the columns of
    ``table`` that the field policy does not drop. Raises ServiceError if the file cannot be written, or if the input
    is not of this kind.
    """
    kind = written_kind(name)
    is_hl7 = table is not None and table.kind == "hl7"
    if is_hl7 and _is_device(name):
        kind = "hl7"
    if is_hl7 != (kind == "hl7"):
        remedy = "a name that ends in .hl7" if is_hl7 else "a .jsonl file"
        raise ServiceError(f"{name}: HL7 v2 messages are written from HL7 v2 messages: use {remedy}")
    if kind in ("", "document"):
        with open_output(name) as stream, _documents(stream) if kind else nullcontext(stream.write) as write:
            yield write
        return
    if table is None or table.kind != kind:
        raise ServiceError(f"{name}: a table is written from a table of the same kind: use a .jsonl file")
    columns = _written_columns(table, plan, secret)
    if isinstance(table, CsvTable) and File(uncompressed_name(name)).suffix.lower() == ".tsv":
        table = table.with_delimiter("\t")
    with open_output(name) as stream, table.writer(stream, columns, plan) as write:
        yield write


@contextmanager
def _documents(stream: BinaryIO) -> Iterator[WriteLine]:
    """Give a function that writes lines as one JSON document: a single event as it is, several as an array."""
    first: list[bytes] = []
    count = 0

    def write(line: bytes) -> None:
        nonlocal count
        count += 1
        if count == 1:
            first.append(line)
            return
        if count == 2:
            stream.write(b"[" + first[0].rstrip())
        stream.write(b",\n" + line.rstrip())

    yield write
    stream.write(first[0] if count == 1 else b"]\n" if count else b"[]\n")


@dataclass(frozen=True, slots=True)
class WrittenColumn:
    """A column of the output: its path in an event, and what the field policy makes of ``PROBE`` values in it."""

    path: Path
    treated: JsonValue


def _written_columns(table: TableSource, plan: Plan, secret: bytes) -> dict[str, WrittenColumn]:
    """Return the columns that the field policy does not drop, found by its effect on an event with every column."""
    columns = table.columns
    build = row_builder(event_tree(columns), list(columns))
    treated = field_treatment(plan, Pseudonyms(secret))(build(table.probes()))
    texts = {path.steps for path in plan.fields.transformed}
    all_columns = {
        name: WrittenColumn(path, TRANSFORMED if path.steps in texts else value_at(treated, path))
        for name, path in columns.items()
    }
    return {name: column for name, column in all_columns.items() if column.treated is not None}


def value_at(event: JsonValue, path: Path) -> JsonValue:
    """Return the value at a path of names and indices; None if there is none."""
    for step in path.steps:
        try:
            event = event[step.key if isinstance(step, NameStep) else _position(step)]
        except (LookupError, TypeError):
            return None
    return event


def _position(step: object) -> int:
    if isinstance(step, IndexStep):
        return step.position
    raise ConfigurationError("produce.columns: a path selects several values: use only names and indices")


def column_paths(header: Sequence[str], settings: ProduceSection) -> dict[str, Path]:
    """Return the path of each column: as ``produce.columns`` says, otherwise a field with the name of the column."""
    if not settings.columns:
        return {column: Path(column, (NameStep(column),)) for column in header}
    return {column: compile_path(text) for column, text in settings.columns.items()}


class CsvTable:
    """A CSV file with a header. A malformed row becomes a line that is rejected."""

    kind = "csv"

    def __init__(
        self, file: EventFile, columns: Mapping[str, Path], delimiter: str, separators: Mapping[str, str]
    ) -> None:
        self.columns = columns
        self._file = file
        self._delimiter = delimiter
        self._separators = separators

    def with_delimiter(self, delimiter: str) -> CsvTable:
        """Return the table with another delimiter of its written rows."""
        return CsvTable(self._file, self.columns, delimiter, self._separators)

    def probes(self) -> Sequence[JsonValue]:
        return [[PROBE] if column in self._separators else PROBE for column in self.columns]

    def lines(self) -> Iterator[NumberedLine]:
        for number, event in enumerate(self._file, start=1):
            yield number, event.value if isinstance(event, FileEvent) else BAD_ROW

    @contextmanager
    def writer(self, stream: Any, columns: Mapping[str, WrittenColumn], plan: Plan) -> Iterator[WriteLine]:
        """Give a function that writes a masked line as a row."""
        text = io.TextIOWrapper(stream, encoding="utf-8", newline="", write_through=True)
        rows = csv.writer(text, lineterminator="\n", delimiter=self._delimiter)
        rows.writerow(columns)
        paths = [(column.path, self._separators.get(name, "")) for name, column in columns.items()]
        yield lambda line: rows.writerow([_cell(value_at(orjson.loads(line), path), by) for path, by in paths])
        text.detach()


@contextmanager
def _open_csv(file: InputFile, settings: ProduceSection) -> Iterator[CsvTable]:
    rows = EventFile(file, settings=settings)
    yield CsvTable(rows, column_paths(rows.header, settings), file.delimiter, settings.lists)


def _cell(value: JsonValue, separator: str = "") -> str:
    """Return the text of a value; ``separator``: of the texts of a list, which is JSON without one."""
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, list) and separator:
        return separator.join(map(_cell, value))
    return orjson.dumps(value).decode()


class ParquetTable:
    """A Parquet file. Values that JSON does not have, such as dates, are texts in events."""

    kind = "parquet"

    def __init__(self, arrow: Any, file: Any, columns: Mapping[str, Path]) -> None:
        self.columns = columns
        self._arrow = arrow
        self._file = file

    def probes(self) -> Sequence[JsonValue]:
        return [self._probe(self._file.schema_arrow.field(name).type) for name in self.columns]

    def _probe(self, kind: Any) -> JsonValue:
        types = self._arrow.types
        if types.is_struct(kind):
            return {field.name: self._probe(field.type) for field in kind}
        return [self._probe(kind.value_type)] if types.is_list(kind) or types.is_large_list(kind) else PROBE

    def lines(self) -> Iterator[NumberedLine]:
        header = self._file.schema_arrow.names
        build = row_builder(event_tree(self.columns), header)
        number = 0
        for batch in self._file.iter_batches():
            for row in zip(*(self._values(column) for column in batch.columns), strict=True):
                number += 1
                yield number, orjson.dumps(build([NO_FIELD if cell is None else cell for cell in row]), default=str)

    def _values(self, column: Any) -> list[Any]:
        return list((column.cast("string") if self._is_text(column.type) else column).to_pylist())

    def _is_text(self, kind: Any) -> bool:
        types = self._arrow.types
        return bool(types.is_temporal(kind) or types.is_decimal(kind))

    @contextmanager
    def writer(self, stream: Any, columns: Mapping[str, WrittenColumn], plan: Plan) -> Iterator[WriteLine]:
        """Give a function that adds a masked line to the file; rows are written in groups."""
        schema = self._arrow.schema([(name, self._type(name, column, plan)) for name, column in columns.items()])
        rows: list[JsonValue] = []
        with importlib.import_module("pyarrow.parquet").ParquetWriter(stream, schema) as file:
            yield _collector(rows, lambda: file.write_table(self._table(rows, columns, schema)))
            file.write_table(self._table(rows, columns, schema))

    def _type(self, name: str, column: WrittenColumn, plan: Plan) -> Any:
        """Return the type of a column in the output: its own, unless masking or pseudonyms change it."""
        kind = self._file.schema_arrow.field(name).type
        if isinstance(column.treated, str) and column.treated != PROBE:
            return self._arrow.string()
        if any(number.path == column.path and not number.kind.integer for number in plan.numeric):
            return self._arrow.float64()
        return kind.value_type if self._arrow.types.is_dictionary(kind) else kind

    def _table(self, rows: Sequence[JsonValue], columns: Mapping[str, WrittenColumn], schema: Any) -> Any:
        arrays = [
            self._array(name, [value_at(row, column.path) for row in rows], schema.field(name).type)
            for name, column in columns.items()
        ]
        return self._arrow.table(arrays, schema=schema)

    def _array(self, name: str, values: list[JsonValue], kind: Any) -> Any:
        try:
            if self._is_text(kind):
                return self._arrow.array(values, self._arrow.string()).cast(kind)
            return self._arrow.array(values, kind)
        except self._arrow.ArrowException as error:
            raise ServiceError(f"column {name!r} cannot be written as {kind} ({type(error).__name__})") from None


def _collector(rows: list[JsonValue], write: Callable[[], object]) -> WriteLine:
    """Return a function that collects lines, and writes and forgets them when they fill a row group."""

    def add(line: bytes) -> None:
        rows.append(orjson.loads(line))
        if len(rows) == ROW_GROUP:
            write()
            rows.clear()

    return add


@contextmanager
def _open_parquet(source: InputFile, settings: ProduceSection) -> Iterator[ParquetTable]:
    try:
        arrow, parquet = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    except ModuleNotFoundError:
        raise ServiceError(f"Parquet needs pyarrow: {installation_of('parquet')}") from None
    try:
        opened: AbstractContextManager[Any] = parquet.ParquetFile(_seekable(source))
    except (OSError, arrow.ArrowException) as error:
        raise ServiceError(f"{source.name} cannot be read as Parquet ({type(error).__name__})") from None
    with opened as file:
        header = file.schema_arrow.names
        columns = column_paths(header, settings)
        missing = [column for column in columns if column not in header]
        if missing:
            raise ConfigurationError(f"produce names columns that are not in the file: {missing[0]!r}")
        yield ParquetTable(arrow, file, columns)


def _seekable(source: InputFile) -> Any:
    """Return the file itself if it is one that is not compressed, otherwise its bytes in memory."""
    if source.raw.seekable():
        position = source.raw.tell()
        if source.raw.seek(0) == 0 and source.raw.read(4) == b"PAR1":
            return source.raw
        source.raw.seek(position)
    return io.BytesIO(source.stream.read())
