"""Parquet files as events: rows as lines of JSON, and masked lines as rows of the same types again."""

from __future__ import annotations

import importlib
import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, BinaryIO, Final

import orjson

from stream_masker.errors import ServiceError, installation_of
from stream_masker.pipeline.paths import JsonValue
from stream_masker.pipeline.plan import Plan
from stream_masker.service.configuration.fields.sections import ProduceSection
from stream_masker.service.files.columns import NO_FIELD, WrittenColumn, column_paths, row_builder, value_at
from stream_masker.service.files.inputs import InputFile
from stream_masker.service.files.text import NumberedLine, WriteLine

ROW_GROUP: Final = 50_000


class ParquetTable:
    """A Parquet file. Values that JSON does not have, such as dates, are texts in events.

    ``columns``: the path of each column in an event. Raises ServiceError without pyarrow or for a file that is damaged,
    ConfigurationError if the settings of ``produce`` do not fit its columns.
    """

    kind = "parquet"

    def __init__(self, source: InputFile, settings: ProduceSection) -> None:
        try:
            self._arrow, self._parquet = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
        except ModuleNotFoundError:
            raise ServiceError(f"Parquet needs pyarrow: {installation_of('parquet')}") from None
        try:
            self._file = self._parquet.ParquetFile(_seekable(source))
        except (OSError, self._arrow.ArrowException) as error:
            raise ServiceError(f"{source.name} cannot be read as Parquet ({type(error).__name__})") from None
        self._schema = self._file.schema_arrow
        self.columns = column_paths(self._schema.names, settings)

    def probes(self) -> Sequence[JsonValue]:
        """Return a value for each column, of the shape of its values."""
        return [self._probe(self._schema.field(name).type) for name in self.columns]

    def _probe(self, kind: Any) -> JsonValue:
        types = self._arrow.types
        if types.is_struct(kind):
            return {field.name: self._probe(field.type) for field in kind}
        return [self._probe(kind.value_type)] if types.is_list(kind) or types.is_large_list(kind) else "value"

    def lines(self) -> Iterator[NumberedLine]:
        """Yield the rows as lines of JSON with their numbers."""
        build = row_builder(self.columns, self._schema.names)
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
    def writer(self, stream: BinaryIO, columns: Mapping[str, WrittenColumn], plan: Plan) -> Iterator[WriteLine]:
        """Give a function that adds a masked line to the file; rows are written in groups."""
        schema = self._arrow.schema([(name, self._type(name, column, plan)) for name, column in columns.items()])
        rows: list[JsonValue] = []
        with self._parquet.ParquetWriter(stream, schema) as file:

            def add(line: bytes) -> None:
                rows.append(orjson.loads(line))
                if len(rows) == ROW_GROUP:
                    file.write_table(self._table(rows, columns, schema))
                    rows.clear()

            yield add
            file.write_table(self._table(rows, columns, schema))

    def _type(self, name: str, column: WrittenColumn, plan: Plan) -> Any:
        """Return the type of a column in the output: its own, unless masking or pseudonyms change it."""
        kind = self._schema.field(name).type
        if column.is_text:
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


def _seekable(source: InputFile) -> BinaryIO:
    """Return the file itself if it is one that is not compressed, otherwise its bytes in memory."""
    is_plain = source.stream is source.raw and source.raw.seekable()
    return source.raw if is_plain else io.BytesIO(source.stream.read())
