"""Avro object container files as events: their records as lines of JSON, and masked lines as records again."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import orjson

from stream_masker.errors import ServiceError, installation_of
from stream_masker.pipeline.paths import JsonValue, Path
from stream_masker.pipeline.plan import Plan
from stream_masker.pipeline.reasons import RecordRejectedError
from stream_masker.service.files.inputs import InputFile
from stream_masker.service.files.lines import NumberedLine, WriteLine
from stream_masker.service.formats.avro_values import ToAvro, avro_converter, avro_document


class AvroTable:
    """An Avro file. Its fields are those of the events; it has no columns that ``produce.columns`` could name."""

    kind = "avro"

    def __init__(self, fastavro: Any, file: InputFile) -> None:
        """Raises ServiceError for a file that does not start like an Avro file."""
        self.columns: Mapping[str, Path] = {}
        self._fastavro = fastavro
        self._name = file.name
        try:
            self._reader = fastavro.reader(file.stream)
            self._definition = json.loads(self._reader.metadata["avro.schema"])
        except Exception as error:  # noqa: BLE001 - fastavro raises many kinds of errors for a damaged file
            raise ServiceError(f"{file.name} cannot be read as Avro ({type(error).__name__})") from None

    def probes(self) -> Sequence[JsonValue]:
        return []

    def lines(self) -> Iterator[NumberedLine]:
        """Yield the records as lines of JSON. Raises ServiceError for a file that cannot be read to its end."""
        records = enumerate(self._reader, start=1)
        while True:
            try:
                number, record = next(records)
                line = avro_document(record)
            except StopIteration:
                return
            except Exception as error:  # noqa: BLE001 - as above
                raise ServiceError(
                    f"{self._name} cannot be read to its end: it is not a complete Avro file ({type(error).__name__})"
                ) from None
            yield number, line

    @cached_property
    def _parsed(self) -> tuple[Any, ToAvro]:
        named: dict[str, Any] = {}
        schema = self._fastavro.parse_schema(self._definition, named)
        return schema, avro_converter(schema, named)

    def row(self, line: bytes) -> Any:
        """Return the record of a masked line. Raises RecordRejectedError, with the field, if it does not fit."""
        return self._parsed[1](orjson.loads(line))

    @contextmanager
    def writer(self, stream: Any, columns: Mapping[str, Any], plan: Plan) -> Iterator[WriteLine]:
        """Give a function that writes a masked line as a record, with the schema and codec of the file.

        The function raises ServiceError, with the field, for a record that does not fit the schema.
        """
        file = self._fastavro.write.Writer(stream, self._parsed[0], codec=self._reader.codec)

        def write(line: bytes) -> None:
            field: str | None = None
            try:
                return file.write(self.row(line))  # type: ignore[no-any-return]
            except RecordRejectedError as error:
                field = error.field
            except Exception:  # noqa: BLE001 - its text may contain a value
                field = None
            where = f" at {field}" if field else ""
            raise ServiceError(f"a masked record does not fit the schema of {self._name}{where}: write a .jsonl file")

        yield write
        file.flush()


@contextmanager
def open_avro(file: InputFile) -> Iterator[AvroTable]:
    """Open an Avro file. Raises ServiceError if it cannot be read, or if the extra ``registry`` is not installed."""
    try:
        import fastavro
    except ModuleNotFoundError:
        raise ServiceError(f"Avro needs fastavro: {installation_of('registry')}") from None
    yield AvroTable(fastavro, file)
