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
from stream_masker.service.files.inputs import InputFile, NumberedLine, WriteLine

ROW_GROUP: Final = 50_000


class ParquetTable:
    """A Parquet file, whose columns are the fields of its events. Values that JSON does not have, such as dates, are
    texts in events.

    Raises ServiceError without pyarrow, or for a file that is damaged.
    """

    kind = "parquet"

    def __init__(self, source: InputFile) -> None:
        try:
            self._arrow, self._parquet = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
        except ModuleNotFoundError:
            raise ServiceError(f"Parquet needs pyarrow: {installation_of('parquet')}") from None
        is_plain = source.stream is source.raw and source.raw.seekable()
        try:
            self._file = self._parquet.ParquetFile(source.raw if is_plain else io.BytesIO(source.stream.read()))
        except (OSError, self._arrow.ArrowException) as error:
            raise ServiceError(f"{source.name} cannot be read as Parquet ({type(error).__name__})") from None
        self._schema = self._file.schema_arrow

    @property
    def probes(self) -> dict[str, JsonValue]:
        """A value of each column, of the shape of its values."""
        return {name: self._probe(self._schema.field(name).type) for name in self._schema.names}

    def _probe(self, kind: Any) -> JsonValue:
        types = self._arrow.types
        if types.is_struct(kind):
            return {field.name: self._probe(field.type) for field in kind}
        return [self._probe(kind.value_type)] if types.is_list(kind) or types.is_large_list(kind) else "value"

    def lines(self) -> Iterator[NumberedLine]:
        """Yield the rows as lines of JSON with their numbers; fields without a value are left out."""
        names, number = self._schema.names, 0
        for batch in self._file.iter_batches():
            columns = [(column.cast("string") if self._is_text(column.type) else column) for column in batch.columns]
            for row in zip(*(column.to_pylist() for column in columns), strict=True):
                number += 1
                event = {name: cell for name, cell in zip(names, row, strict=True) if cell is not None}
                yield number, orjson.dumps(event, default=str)

    def _is_text(self, kind: Any) -> bool:
        types = self._arrow.types
        return bool(types.is_temporal(kind) or types.is_decimal(kind))

    @contextmanager
    def writer(self, stream: BinaryIO, columns: Mapping[str, bool], plan: Plan) -> Iterator[WriteLine]:
        """Give a function that adds a masked line to the file; rows are written in groups.

        columns: the names of those to write, and whether their values become texts.
        """
        kinds = [self._type(name, is_text) for name, is_text in columns.items()]
        schema = self._arrow.schema(list(zip(columns, kinds, strict=True)))
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
        """Return the type of a column in the output: its own, unless masking or pseudonyms change it."""
        kind = self._schema.field(name).type
        if is_text:
            return self._arrow.string()
        return kind.value_type if self._arrow.types.is_dictionary(kind) else kind

    def _table(self, rows: Sequence[Mapping[str, JsonValue]], schema: Any) -> Any:
        arrays = [self._array(field.name, [row.get(field.name) for row in rows], field.type) for field in schema]
        return self._arrow.table(arrays, schema=schema)

    def _array(self, name: str, values: list[JsonValue], kind: Any) -> Any:
        try:
            if self._is_text(kind):
                return self._arrow.array(values, self._arrow.string()).cast(kind)
            return self._arrow.array(values, kind)
        except self._arrow.ArrowException as error:
            raise ServiceError(f"column {name!r} cannot be written as {kind} ({type(error).__name__})") from None
