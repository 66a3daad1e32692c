"""Parquet files as events: rows become lines of JSON, and masked lines become rows of the same types again."""

from __future__ import annotations

import importlib
import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, BinaryIO, Final

import orjson

from stream_masker.errors import ServiceError, installation_of
from stream_masker.pipeline.paths import JsonValue
from stream_masker.service.files.inputs import FileEvent
from stream_masker.service.files.outputs import WriteLine

ROW_GROUP: Final = 50_000


class ParquetTable:
    """A Parquet file, whose columns are the fields of its events. Values that JSON does not have, such as dates, are
    texts in events.

    ``names``: of the columns. Raises ServiceError without pyarrow, or for a file that is damaged.
    """

    def __init__(self, name: str, stream: io.BufferedReader) -> None:
        """``name``: for messages."""
        try:
            self._arrow, self._parquet = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
        except ModuleNotFoundError:
            raise ServiceError(f"Parquet needs pyarrow: {installation_of('parquet')}") from None
        try:
            seekable = stream if stream.seekable() else io.BytesIO(stream.read())
            self._file = self._parquet.ParquetFile(seekable)
        except (OSError, self._arrow.ArrowException) as error:
            raise ServiceError(f"{name} cannot be read as Parquet ({type(error).__name__})") from None
        self._schema = self._file.schema_arrow
        self.names: list[str] = self._schema.names

    def events(self) -> Iterator[FileEvent]:
        """Yield the rows as lines of JSON; fields without a value are left out."""
        number = 0
        for batch in self._file.iter_batches():
            texts = [self._as_json(column.type) for column in batch.columns]
            columns = [column.cast(kind) for column, kind in zip(batch.columns, texts, strict=True)]
            for row in self._arrow.record_batch(columns, names=self.names).to_pylist():
                number += 1
                event = {name: cell for name, cell in row.items() if cell is not None}
                yield FileEvent(number, orjson.dumps(event, default=str))

    def _as_json(self, kind: Any) -> Any:
        """Return the type of a column in events: a text for dates and decimals, and otherwise its own."""
        types = self._arrow.types
        return self._arrow.string() if types.is_temporal(kind) or types.is_decimal(kind) else kind

    @contextmanager
    def writer(self, stream: BinaryIO, columns: Mapping[str, bool]) -> Iterator[WriteLine]:
        """Give a function that adds a masked line to the file; rows are written in groups.

        columns: the names of those to write, and whether their values become texts.
        """
        schema = self._arrow.schema([(name, self._type(name, is_text)) for name, is_text in columns.items()])
        rows: list[dict[str, JsonValue]] = []
        with self._parquet.ParquetWriter(stream, schema) as file:

            def add(line: bytes) -> None:
                rows.append(orjson.loads(line))
                if len(rows) == ROW_GROUP:
                    file.write_table(self._table(rows, schema))
                    rows.clear()

            yield add
            file.write_table(self._table(rows, schema))

    def _type(self, name: str, is_text: bool) -> Any:
        """Return the type of a column in the output: its own, unless its values become texts."""
        kind = self._schema.field(name).type
        if is_text and not self._arrow.types.is_nested(kind):
            return self._arrow.string()
        return kind.value_type if self._arrow.types.is_dictionary(kind) else kind

    def _table(self, rows: Sequence[Mapping[str, JsonValue]], schema: Any) -> Any:
        """Return rows as a table of a schema, whose dates and decimals are texts in the rows."""
        arrays = []
        for field in schema:
            try:
                cells = self._arrow.array([row.get(field.name) for row in rows], self._as_json(field.type))
                arrays.append(cells.cast(field.type))
            except self._arrow.ArrowException as error:
                text = f"column {field.name!r} cannot be written as {field.type} ({type(error).__name__})"
                raise ServiceError(text) from None
        return self._arrow.table(arrays, schema=schema)
