"""Records in another format than JSON, for any codec.

The format decodes a record to JSON before the codec reads it, and encodes the JSON that the codec renders.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, Protocol, TypeAlias, TypeVar

import orjson

from stream_masker.core.batch import MaskedBatch
from stream_masker.core.dtypes import Int32Array
from stream_masker.errors import StreamMaskerError
from stream_masker.pipeline.codec.base import DecodedBatch, RecordCodec
from stream_masker.pipeline.reasons import Reason, RecordRejectedError
from stream_masker.pipeline.records import Inputs, Rejected
from stream_masker.pipeline.style import Style

EncodeRecord: TypeAlias = Callable[[bytes], bytes]
"""Encodes the JSON of a masked record. Raises RecordRejectedError if the record does not fit its schema."""

KEY_FIELD: Final = "message.key"
"""The configured path that a rejection names if the record's key is the cause."""

AnyTemplates = TypeVar("AnyTemplates")


class RecordFormat(Protocol):
    """A format of the values and keys of records.

    Its functions raise RecordRejectedError for a record that is not in the format, and FormatUnavailableError while
    they cannot obtain what they need to decide that.
    """

    records: ClassVar[str]
    """What records in the format are called in log lines."""

    def prepare(self, messages: Iterable[bytes]) -> None:
        """Obtain together what decoding these values or keys needs. Raises only FormatUnavailableError."""

    def decode(self, value: bytes) -> tuple[bytes, EncodeRecord]:
        """Return the JSON of a record, and the function that encodes it once it is masked."""

    @property
    def decodes_keys(self) -> bool:
        """Whether keys are in the format too; if not, a key is bytes."""

    def decode_key(self, key: bytes) -> tuple[bytes, EncodeRecord]:
        """Return the JSON of a key, and the function that encodes it once it is masked."""


class ValueFormat:
    """The base of formats of values whose keys are bytes, and which need nothing to decode a value."""

    __slots__ = ()

    def prepare(self, messages: Iterable[bytes]) -> None:
        """Nothing is needed."""

    @property
    def decodes_keys(self) -> bool:
        return False

    def decode_key(self, key: bytes) -> tuple[bytes, EncodeRecord]:
        raise RecordRejectedError(Reason.NOT_IN_FORMAT)


class FormatUnavailableError(StreamMaskerError):
    """Records cannot be decoded or encoded now, for a reason outside of them. Mask them again later."""


class UnwritableRecordsError(StreamMaskerError):
    """Masked records do not fit the schema that they are written with. rejected: their rejections, by index."""

    def __init__(self, rejected: Mapping[int, Rejected]) -> None:
        super().__init__(f"{len(rejected)} masked records do not fit their schema")
        self.rejected = rejected


MaskKeyText: TypeAlias = Callable[[bytes], str]
"""Masks a text of a key, in UTF-8."""

CACHED_KEY_BYTES = 8 * 2**20
"""The maximum size of the cached keys and their masks. A key that is larger than a thousandth of it is not cached."""

KEY_OVERHEAD_BYTES = 200
"""The size of the objects of a cached key beside its bytes."""


class FormattedKeys:
    """Masks keys in a format: each text, number and truth value in a key, at any depth. Null stays null."""

    def __init__(self, record_format: RecordFormat, mask: MaskKeyText) -> None:
        self._format = record_format
        self._mask = mask
        self._masked: dict[bytes, bytes | RecordRejectedError] = {}
        self._cached_bytes = 0

    def masked(self, key: bytes) -> bytes:
        """Return the masked key. Raises RecordRejectedError, and the errors of the format."""
        outcome = self._masked.get(key)
        if outcome is None:
            outcome = self._attempt(key)
            self._cache(key, outcome)
        if isinstance(outcome, RecordRejectedError):
            raise RecordRejectedError(outcome.reason, outcome.field)
        return outcome

    def _cache(self, key: bytes, masked: bytes | RecordRejectedError) -> None:
        """Cache a masked key, unless it is large; clear the cache first if it is full."""
        size = KEY_OVERHEAD_BYTES + len(key) + (len(masked) if isinstance(masked, bytes) else 0)
        if size > CACHED_KEY_BYTES // 1000:
            return
        if self._cached_bytes + size > CACHED_KEY_BYTES:
            self._masked.clear()
            self._cached_bytes = 0
        self._masked[key] = masked
        self._cached_bytes += size

    def all_masked(self, keys: Sequence[bytes | None], rejected: Mapping[int, Rejected]) -> list[bytes | None]:
        """Return the masked keys of records; None for those that are rejected, by index."""
        return [None if key is None or index in rejected else self.masked(key) for index, key in enumerate(keys)]

    def _attempt(self, key: bytes) -> bytes | RecordRejectedError:
        try:
            document, encode = self._format.decode_key(key)
            return encode(orjson.dumps(self._treat(orjson.loads(document))))
        except RecordRejectedError as error:
            return RecordRejectedError(error.reason, KEY_FIELD)
        except orjson.JSONDecodeError:
            return RecordRejectedError(Reason.NOT_IN_FORMAT, KEY_FIELD)

    def _treat(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {name: self._treat(member) for name, member in value.items()}
        if isinstance(value, list):
            return [self._treat(element) for element in value]
        if value is None:
            return None
        return self._mask(value.encode() if isinstance(value, str) else orjson.dumps(value))


@dataclass(frozen=True, slots=True)
class FormattedTemplates:
    """The batch of the inner codec. encoders, offsets: those of the k records that can be masked."""

    inner: DecodedBatch[Any]
    encoders: Sequence[EncodeRecord]
    offsets: Sequence[int]


class FormattedCodec(RecordCodec[FormattedTemplates]):
    """A codec for records in another format than JSON; ``inner`` reads and renders their JSON."""

    def __init__(self, inner: RecordCodec[Any], record_format: RecordFormat, keys: FormattedKeys | None = None) -> None:
        """keys: masks the records' keys; None if keys are not in the format, or are not masked."""
        self._inner = inner
        self._format = record_format
        self._keys = keys

    def set_styles(self, styles: Sequence[Style]) -> None:
        self._inner.set_styles(styles)

    def set_shared(self, shared: Mapping[str, Int32Array]) -> None:
        self._inner.set_shared(shared)

    def read(self, records: Inputs) -> DecodedBatch[FormattedTemplates]:
        documents: list[bytes | None] = [None] * len(records)
        encoders: dict[int, EncodeRecord] = {}
        rejected = {}
        self._prepare(records)
        for index, (value, key) in enumerate(zip(records.values, records.keys, strict=True)):
            try:
                if key is not None and self._keys is not None:
                    self._keys.masked(key)
                if value is not None:
                    documents[index], encoders[index] = self._format.decode(value)
            except RecordRejectedError as error:
                rejected[index] = Rejected(records.offsets[index], error.reason.value, error.field)
        inner = self._inner.read(replace(records, values=documents))
        indices = inner.indices.tolist()
        templates = FormattedTemplates(inner, [encoders[i] for i in indices], [records.offsets[i] for i in indices])
        return replace(inner.with_templates(templates), rejected={**inner.rejected, **rejected})

    def _prepare(self, records: Inputs) -> None:
        """Prepare the format for all values, and keys if they are in the format, at once."""
        keys = () if self._keys is None else records.keys
        self._format.prepare(message for message in (*records.values, *keys) if message is not None)

    def render(self, decoded: DecodedBatch[FormattedTemplates], masked: MaskedBatch) -> list[bytes]:
        """Return the encoded records. Raises UnwritableRecordsError if some of them do not fit their schema."""
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
    """Decode records, except those that are already rejected (by index)."""
    if not rejected:
        return codec.read(records)
    values = [None if index in rejected else value for index, value in enumerate(records.values)]
    decoded = codec.read(replace(records, values=values))
    return replace(decoded, rejected={**decoded.rejected, **rejected})
