"""Records in another format than JSON, for any codec.

The format decodes a record to JSON before the codec reads it, and encodes the JSON that the codec renders.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias, TypeVar

from stream_masker.core.batch import MaskedBatch
from stream_masker.errors import StreamMaskerError
from stream_masker.pipeline.codec.base import RecordCodec
from stream_masker.pipeline.codec.decoded import DecodedBatch
from stream_masker.pipeline.reasons import RecordRejectedError
from stream_masker.pipeline.records import Inputs, Rejected
from stream_masker.pipeline.style import Style

EncodeRecord: TypeAlias = Callable[[bytes], bytes]
"""Encodes the JSON of a masked record. Raises RecordRejectedError if the record does not fit its schema."""

AnyTemplates = TypeVar("AnyTemplates")


class RecordFormat(Protocol):
    """A format of records' values. It does no I/O."""

    def decode(self, value: bytes) -> tuple[bytes, EncodeRecord]:
        """The JSON of a record, and the function that encodes it once it is masked. Raises RecordRejectedError."""


class UnwritableRecordsError(StreamMaskerError):
    """Masked records do not fit the schema that they are written with. rejected: their rejections, by index."""

    def __init__(self, rejected: Mapping[int, Rejected]) -> None:
        super().__init__(f"{len(rejected)} masked records do not fit their schema")
        self.rejected = rejected


@dataclass(frozen=True, slots=True)
class FormattedTemplates:
    """The batch of the inner codec. encoders, offsets: of the k records that can be masked."""

    inner: DecodedBatch[Any]
    encoders: Sequence[EncodeRecord]
    offsets: Sequence[int]


class FormattedCodec(RecordCodec[FormattedTemplates]):
    """A codec for records in another format than JSON; ``inner`` reads and renders their JSON."""

    def __init__(self, inner: RecordCodec[Any], record_format: RecordFormat) -> None:
        self._inner = inner
        self._format = record_format

    def set_styles(self, styles: Sequence[Style]) -> None:
        self._inner.set_styles(styles)

    def read(self, records: Inputs) -> DecodedBatch[FormattedTemplates]:
        documents: list[bytes | None] = [None] * len(records)
        encoders: dict[int, EncodeRecord] = {}
        rejected = {}
        for index, value in enumerate(records.values):
            if value is not None:
                try:
                    documents[index], encoders[index] = self._format.decode(value)
                except RecordRejectedError as error:
                    rejected[index] = Rejected(records.offsets[index], error.reason.value, error.field)
        inner = self._inner.read(replace(records, values=documents))
        indices = inner.indices.tolist()
        templates = FormattedTemplates(inner, [encoders[i] for i in indices], [records.offsets[i] for i in indices])
        return replace(inner.with_templates(templates), rejected={**inner.rejected, **rejected})

    def render(self, decoded: DecodedBatch[FormattedTemplates], masked: MaskedBatch) -> list[bytes]:
        """The encoded records. Raises UnwritableRecordsError if some of them do not fit their schema."""
        templates, values, rejected = decoded.templates, [], {}
        for k, document in enumerate(self._inner.render(templates.inner, masked)):
            try:
                values.append(templates.encoders[k](document))
            except RecordRejectedError as error:
                index = int(decoded.indices[k])
                rejected[index] = Rejected(templates.offsets[k], error.reason.value, error.field)
        if rejected:
            raise UnwritableRecordsError(rejected)
        return values


def read_except(
    codec: RecordCodec[AnyTemplates], records: Inputs, rejected: Mapping[int, Rejected]
) -> DecodedBatch[AnyTemplates]:
    """Decodes records, except those that are already rejected (by index)."""
    if not rejected:
        return codec.read(records)
    values = [None if index in rejected else value for index, value in enumerate(records.values)]
    decoded = codec.read(replace(records, values=values))
    return replace(decoded, rejected={**decoded.rejected, **rejected})
