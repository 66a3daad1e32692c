"""The scanner codec: records are read and written as bytes, without a Python object for any of their values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from struct import Struct
from typing import Any, Final

import numpy as np

from stream_masker.core.batch import Batch, MaskedBatch
from stream_masker.core.dtypes import Float64Array, Int8Array, Int32Array, Int64Array, Int64Matrix, UInt8Array
from stream_masker.pipeline.codec.attributes import (
    AttributeCodec,
    ExtractedColumn,
    array_column,
    masked_positions,
    scalar_column,
)
from stream_masker.pipeline.codec.base import DecodedBatch, RecordCodec
from stream_masker.pipeline.codec.numbers import alpha_column, default_alpha, header_alpha
from stream_masker.pipeline.codec.scanner.buffers import (
    DECODED,
    NO_KIND,
    PSEUDONYM_KIND,
    REWRITTEN_KIND,
    UNDECIDED,
    ScanBuffers,
    buffers_for,
    buffers_have_room,
    grown_buffers,
    growth_of,
    slices_of,
    transformed_places,
)
from stream_masker.pipeline.codec.scanner.lookups import InternTable
from stream_masker.pipeline.codec.scanner.program import Program, compile_plan
from stream_masker.pipeline.codec.scanner.render import (
    NUMBER_TEXT,
    RenderCache,
    TransformedTexts,
    measure_all,
    number_texts,
    render_all,
    rewritten_numbers,
)
from stream_masker.pipeline.codec.scanner.scan import scan_all
from stream_masker.pipeline.codec.scanner.tokens import PADDING
from stream_masker.pipeline.plan import MIN_RECORD_ALPHA, Plan
from stream_masker.pipeline.pseudonyms import Pseudonyms
from stream_masker.pipeline.reasons import RecordRejectedError
from stream_masker.pipeline.records import Inputs
from stream_masker.pipeline.style import CANONICAL, Style
from stream_masker.pipeline.transforms import TransformContext

TOMBSTONE: Final = 9
"""The outcome of a record without a value."""

MAX_SCANS: Final = 3
"""The maximum number of scans of one batch. After that, the whole batch is left undecided."""

MAX_INTERRUPTIONS: Final = 10
"""The maximum number of interruptions at one record; after that, it is left undecided. It is more than the intern table
needs to grow from its first size to its largest one, twice as large each time."""


@dataclass(frozen=True, slots=True)
class ScannedBatch:
    """The output records of a batch before masking. data: the input's bytes; columns: each attribute's values;
    transformed: the texts of transformed values, in the order of their placeholders."""

    data: UInt8Array
    buffers: ScanBuffers
    columns: Sequence[ExtractedColumn]
    transformed: Sequence[bytes]


@dataclass(frozen=True, slots=True)
class _Scan:
    """A batch to scan. data: all records' bytes; bounds: (n + 1,), the start of each record and the end of the last;
    outcomes: (n,), 0 for a record that is still to be scanned. When scanned: ``keys``, the noise key of each decoded
    record, and ``transformed``, see ``ScannedBatch``."""

    data: UInt8Array
    bounds: Int64Array
    outcomes: Int8Array
    buffers: ScanBuffers
    keys: Sequence[bytes] = ()
    transformed: Sequence[bytes] = ()


class ScannerCodec(RecordCodec[ScannedBatch]):
    """Scans records by the tables of a compiled plan. Records that the tables do not cover are left undecided.

    writes: see ``ReferenceCodec``. Raises NotCompilableError for a plan that tables cannot express.
    """

    def __init__(
        self, plan: Plan, attributes: Sequence[AttributeCodec], pseudonyms: Pseudonyms, *, writes: bool = True
    ) -> None:
        self._program: Program = compile_plan(plan, writes=writes)
        self._plan = plan
        self._attributes = attributes
        self._pseudonyms = pseudonyms
        least_alpha = MIN_RECORD_ALPHA if plan.alpha is None else plan.alpha.least
        self._interned = InternTable(attributes, least_alpha, plan.counted)
        self._styles: Sequence[Style] = [CANONICAL] * len(attributes)
        self._rendered = RenderCache(attributes)
        context = TransformContext(pseudonyms.of_bytes, pseudonyms.offset_hash)
        self._transforms = TransformedTexts(list(plan.fields.transformed.values()) if writes else [], context)
        self._alpha = plan.alpha if writes else None
        self._has_noise_key = plan.noise_key is not None
        self._header_alpha = header_alpha(self._alpha) if self._alpha is not None and self._alpha.header else None

    def set_styles(self, styles: Sequence[Style]) -> None:
        for attribute, style in zip(self._attributes, styles, strict=True):
            attribute.set_style(style)
        if list(styles) != self._styles:
            self._styles, self._rendered = list(styles), RenderCache(self._attributes)

    def set_shared(self, shared: Mapping[str, Int32Array]) -> None:
        self._transforms.set_shared(shared)

    def read(self, records: Inputs) -> DecodedBatch[ScannedBatch]:
        text, bounds, outcomes = _concatenate(records.values)
        header_alphas = self._header_alphas(records, outcomes)
        scan = self._scan(text, bounds, outcomes)
        indices = np.flatnonzero(scan.outcomes == DECODED)
        columns, kinds = self._columns(scan.buffers), self._kinds(scan.buffers)
        alphas = self._alphas(scan.buffers, header_alphas, indices)
        return DecodedBatch(
            indices=indices,
            batch=Batch(
                len(indices),
                tuple(extracted.column for extracted in columns),
                alphas,
                _numbers(scan.buffers),
                context=self._plan.contexts_of(kinds),
                rolled=self._plan.rolled_of(kinds),
            ),
            keys=list(scan.keys),
            rejected={},
            undecided=np.flatnonzero(scan.outcomes == UNDECIDED),
            unknown=[column.unknown for column in columns],
            lost=[column.lost for column in columns],
            styles=[column.styles for column in columns],
            templates=ScannedBatch(scan.data, scan.buffers, columns, scan.transformed),
        )

    def render(self, decoded: DecodedBatch[ScannedBatch], masked: MaskedBatch) -> list[bytes]:
        scanned = decoded.templates
        buffers = scanned.buffers
        uses = buffers.placeholder_uses[: buffers.placeholders]
        numbers, number_bytes = number_texts(masked.numeric, [number.kind for number in self._plan.numeric])
        positions, firsts = _masked_positions(scanned.columns, masked)
        texts = self._rendered.locate(uses, positions, firsts, numbers)
        slices = slices_of(uses)
        number_bytes = _add_input_texts(scanned, slices, texts, number_bytes)
        bounds = np.empty(buffers.decoded + 1, np.int64)
        measure_all(buffers.ends, texts, bounds)
        pseudonyms = self._pseudonym_digits(scanned, slices)
        size = int(bounds[-1])
        return split_rendered(
            render_all(buffers, texts, self._rendered.table.texts, number_bytes, pseudonyms, size), bounds
        )

    def _header_alphas(self, records: Inputs, outcomes: Int8Array) -> Float64Array | None:
        """Return the alphas in headers, (n,). Records whose header is not an alpha are left undecided."""
        if self._header_alpha is None:
            return None
        alphas = np.empty(len(records))
        for index in range(len(records)):
            try:
                alphas[index] = self._header_alpha(records.record(index))
            except RecordRejectedError:
                outcomes[index] = outcomes[index] or UNDECIDED
        return alphas

    def _scan(self, text: bytes, bounds: Int64Array, outcomes: Int8Array) -> _Scan:
        """Scan a batch. Scan it again if a text was refused after records had been decoded with it, or if transforms
        drop values: records with such values are left undecided."""
        data = np.frombuffer(text, np.uint8)
        for _ in range(MAX_SCANS):
            scan = self._scan_once(_Scan(data, bounds, outcomes.copy(), self._buffers(bounds)))
            if scan is None:
                continue
            keys = self._keys(text, scan.buffers)
            texts, owners = self._transforms.of_batch(text, scan.buffers, keys)
            kept = [transformed for transformed in texts if transformed is not None]
            if len(kept) == len(texts):
                return replace(scan, keys=keys, transformed=kept)
            dropped = owners[[transformed is None for transformed in texts]]
            outcomes[np.flatnonzero(scan.outcomes == DECODED)[dropped]] = UNDECIDED
        undecided = np.where(outcomes == 0, UNDECIDED, outcomes).astype(np.int8)
        return _Scan(data, bounds, undecided, self._buffers(bounds))

    def _buffers(self, bounds: Int64Array) -> ScanBuffers:
        limits, sizes = self._plan.limits, np.diff(bounds)
        largest = int(min(sizes.max(initial=0), limits.record_bytes))
        return buffers_for(self._program, len(sizes), int(bounds[-1]), largest, limits.depth)

    def _scan_once(self, scan: _Scan) -> _Scan | None:
        """Scan all records. Return None if a text that occurs in decoded records was refused."""
        first, interruptions, refused = 0, Counter[int](), False
        while (first := self._scan_from(scan, first)) < len(scan.outcomes):
            refused |= not self._interned.resolve(scan.buffers)
            interruptions[first] += 1
            if interruptions[first] > MAX_INTERRUPTIONS:
                scan.outcomes[first] = UNDECIDED
            elif buffers_have_room(scan.buffers, int(scan.bounds[first + 1] - scan.bounds[first])):
                self._interned.make_room()
            else:
                scan = replace(scan, buffers=grown_buffers(scan.buffers))
        refused |= not self._interned.resolve(scan.buffers)
        return None if refused else scan

    def _scan_from(self, scan: _Scan, first: int) -> int:
        """Scan records from ``first`` on. Return the index of the record at which the scan was interrupted, or n."""
        limits, growth = self._plan.limits, growth_of(self._program)
        interned, buffers = self._interned.table, scan.buffers
        return int(
            scan_all(
                scan.data,
                scan.bounds,
                scan.outcomes,
                first,
                self._program,
                interned,
                buffers,
                growth,
                limits.record_bytes,
                limits.depth,
            )
        )

    def _columns(self, buffers: ScanBuffers) -> list[ExtractedColumn]:
        done = buffers.decoded
        values = [row[:count] for row, count in zip(buffers.values, buffers.value_counts, strict=True)]
        return [
            array_column(row, lengths[:done]) if attribute.plan.is_array else scalar_column(row)
            for attribute, row, lengths in zip(self._attributes, values, buffers.lengths, strict=True)
        ]

    def _alphas(
        self, buffers: ScanBuffers, in_headers: Float64Array | None, indices: Int64Array
    ) -> Float64Array | None:
        if self._alpha is None:
            return None
        if in_headers is not None:
            return alpha_column(in_headers[indices])
        alphas = buffers.alphas[: len(indices)].view(np.float64)
        return alpha_column(np.where(alphas == 0, default_alpha(self._alpha), alphas))

    def _kinds(self, buffers: ScanBuffers) -> Int64Matrix:
        """Return (n, fields): the kinds of the counted fields."""
        kinds = buffers.kinds[:, : buffers.decoded].T
        others = np.array([field.other for field in self._plan.counted], np.int64)
        return np.where(kinds == NO_KIND, others, kinds)

    def _keys(self, data: bytes, buffers: ScanBuffers) -> list[bytes]:
        if not self._has_noise_key:
            return []
        done = buffers.decoded
        starts = buffers.key_starts[:done]
        ends = starts + buffers.key_sizes[:done]
        return [data[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]

    def _pseudonym_digits(self, scanned: ScannedBatch, slices: tuple[Int64Array, Int64Array]) -> UInt8Array:
        """Return the digits of the pseudonyms, one after another."""
        kinds, starts = slices
        pseudonymized = np.flatnonzero(kinds == PSEUDONYM_KIND)
        sizes = scanned.buffers.placeholder_sizes[pseudonymized]
        return self._pseudonyms.of_slices(scanned.data, starts[pseudonymized], sizes)


def _add_input_texts(
    scanned: ScannedBatch, slices: tuple[Int64Array, Int64Array], texts: Int64Array, number_bytes: UInt8Array
) -> UInt8Array:
    """Set the texts of transformed values and of numbers that the encoder writes in another way. Return
    ``number_bytes`` followed by these texts."""
    kinds, starts = slices
    joined = [number_bytes]
    rewritten = np.flatnonzero(kinds == REWRITTEN_KIND)
    if len(rewritten):
        places, added = rewritten_numbers(scanned.data, starts[rewritten], scanned.buffers.placeholder_sizes[rewritten])
        _append(joined, texts, rewritten, places, added)
    if scanned.transformed:
        sizes = np.fromiter(map(len, scanned.transformed), np.int64, len(scanned.transformed))
        places = np.stack([np.cumsum(sizes) - sizes, sizes], axis=1)
        _append(joined, texts, transformed_places(kinds), places, b"".join(scanned.transformed))
    return number_bytes if len(joined) == 1 else np.concatenate(joined)


def _append(
    joined: list[UInt8Array], texts: Int64Array, placeholders: Int64Array, places: Int64Array, added: bytes
) -> None:
    """Append texts to ``joined``, and set them as those of some placeholders. places: (m, 2), start in ``added`` and
    size."""
    texts[placeholders] = places
    texts[placeholders, 0] += NUMBER_TEXT + sum(map(len, joined))
    joined.append(np.frombuffer(added + bytes(PADDING), np.uint8))


def _masked_positions(columns: Sequence[ExtractedColumn], masked: MaskedBatch) -> tuple[Int64Array, Int64Array]:
    """Return (m,): the masked position of every value, -1 for none; and (p,): each attribute's first value."""
    positions = [masked_positions(extracted, column) for extracted, column in zip(columns, masked.columns, strict=True)]
    return np.concatenate(positions), np.cumsum([0, *(len(column) for column in positions[:-1])])


def _numbers(buffers: ScanBuffers) -> Float64Array | None:
    """Return (n, q): the values of the numeric attributes; None if there are none."""
    return buffers.numbers[:, : buffers.decoded].T.copy() if len(buffers.numbers) else None


def _concatenate(values: Sequence[bytes | None]) -> tuple[bytes, Int64Array, Int8Array]:
    """Return all values, followed by ``PADDING``; their bounds, (n + 1,); and the outcomes, TOMBSTONE or 0."""
    pieces: list[Any] = [*values, bytes(PADDING)]
    outcomes = np.zeros(len(values), np.int8)
    try:
        data = b"".join(pieces)
    except TypeError:
        outcomes[[index for index, piece in enumerate(pieces) if piece is None]] = TOMBSTONE
        pieces = [piece or b"" for piece in pieces]
        data = b"".join(pieces)
    bounds = np.zeros(len(values) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, pieces), np.int64, len(values)), out=bounds[1:])
    return data, bounds, outcomes


def split_rendered(rendered: UInt8Array, bounds: Int64Array) -> list[bytes]:
    """Return the slices of an array of bytes between consecutive bounds."""
    sizes = tuple(np.diff(bounds).tolist())
    return list(Struct("%ds" * len(sizes) % sizes).unpack_from(rendered.data))
