"""The way in by a compiled plan: most records of a batch read and written without an object of Python for any value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from struct import Struct
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.batch import Batch, MaskedBatch
from stream_masker.core.dtypes import Float64Array, Int64Array
from stream_masker.pipeline.codec.attributes import AttributeCodec
from stream_masker.pipeline.codec.controls import OWN_ALPHA_ABSENT, own_alpha
from stream_masker.pipeline.codec.decoded import DecodedBatch, alpha_column
from stream_masker.pipeline.codec.reference.columns import (
    ExtractedColumn,
    array_column,
    masked_positions,
    scalar_column,
    shared_styles,
)
from stream_masker.pipeline.codec.scanner.buffers import (
    DONE,
    GAPS,
    LEFT,
    TAKEN,
    VALUES,
    ScanBuffers,
    buffers_for,
    buffers_have_room,
    grown_buffers,
    growth_of,
)
from stream_masker.pipeline.codec.scanner.intern_table import InternTable
from stream_masker.pipeline.codec.scanner.program import Program, compile_plan
from stream_masker.pipeline.codec.scanner.render import measure_all, render_all
from stream_masker.pipeline.codec.scanner.render_cache import RenderCache, number_texts
from stream_masker.pipeline.codec.scanner.scan import scan_all
from stream_masker.pipeline.codec.scanner.tokens import PADDING
from stream_masker.pipeline.plan import Plan
from stream_masker.pipeline.pseudonyms import Pseudonyms
from stream_masker.pipeline.reasons import RecordRejectedError
from stream_masker.pipeline.records import Inputs

TOMBSTONE: Final = 9
PATIENCE_BATCHES: Final = 3
"""After so many stops at one record, or so many readings of one batch, it is left to others."""


@dataclass(frozen=True, slots=True)
class _Scan:
    """A batch that was read: its bytes, what became of each record, and what was written of those taken."""

    data: NDArray[np.uint8]
    bounds: Int64Array
    fates: NDArray[np.int8]
    work: ScanBuffers


class ScannerCodec:
    """Takes records in as a plan says, by its tables; those that the tables do not settle are left to others.

    Raises NotCompilableError for a plan that they cannot express.
    """

    def __init__(
        self, plan: Plan, attributes: Sequence[AttributeCodec], pseudonyms: Pseudonyms, *, controls: bool = True
    ) -> None:
        self._program: Program = compile_plan(plan, controls=controls)
        self._plan = plan
        self._attributes = attributes
        self._pseudonyms = pseudonyms
        self._known = InternTable(attributes)
        self._written = RenderCache(attributes)
        self._alpha = plan.alpha if controls else None
        self._keyed = controls and plan.noise_key is not None
        self._header_alpha = own_alpha(self._alpha) if self._alpha is not None and self._alpha.header else None

    def take(self, records: Inputs) -> tuple[DecodedBatch, Int64Array]:
        """Reads records; what came of them, and the indices of those left to others."""
        data, bounds, fates = _joined(records.values)
        alphas = self._alphas_of_headers(records, fates)
        scan = self._scan(data, bounds, fates)
        indices = np.flatnonzero(scan.fates == TAKEN)
        readings = self._readings(scan.work)
        columns = tuple(reading.column for reading in readings)
        taken = DecodedBatch(
            indices=indices,
            batch=Batch(len(indices), columns, self._alphas(scan.work, alphas, indices), _numbers(scan.work)),
            keys=self._keys(scan),
            rejected={},
            unknown=[reading.unknown for reading in readings],
            lost=[reading.lost for reading in readings],
            write=self._writer(scan, readings),
        )
        return taken, np.flatnonzero(scan.fates == LEFT)

    def _alphas_of_headers(self, records: Inputs, fates: NDArray[np.int8]) -> Float64Array | None:
        """Alphas that headers give; records of which they cannot be read are left to others."""
        if self._header_alpha is None:
            return None
        alphas = np.empty(len(records))
        for index in range(len(records)):
            try:
                alphas[index] = self._header_alpha({}, records.record(index))
            except RecordRejectedError:
                fates[index] = fates[index] or LEFT
        return alphas

    def _scan(self, data: NDArray[np.uint8], bounds: Int64Array, fates: NDArray[np.int8]) -> _Scan:
        for _ in range(PATIENCE_BATCHES):
            scan = self._read_all(_Scan(data, bounds, fates.copy(), self._work(bounds)))
            if scan is not None:
                return scan
        return _Scan(data, bounds, np.where(fates == 0, LEFT, fates).astype(np.int8), self._work(bounds))

    def _work(self, bounds: Int64Array) -> ScanBuffers:
        limits, sizes = self._plan.limits, np.diff(bounds)
        largest = int(min(sizes.max(initial=0), limits.record_bytes))
        return buffers_for(self._program, len(sizes), int(bounds[-1]), largest, limits.depth)

    def _read_all(self, scan: _Scan) -> _Scan | None:
        """All records read; None when texts turned out to be refused that records were taken with."""
        first, stops, refused = 0, Counter[int](), False
        while (first := self._read(scan, first)) < len(scan.fates):
            refused |= not self._known.settle(scan.work)
            stops[first] += 1
            if stops[first] > PATIENCE_BATCHES:
                scan.fates[first] = LEFT
            elif buffers_have_room(scan.work, int(scan.bounds[first + 1] - scan.bounds[first])):
                self._known.make_room()
            else:
                scan = replace(scan, work=grown_buffers(scan.work))
        refused |= not self._known.settle(scan.work)
        return None if refused else scan

    def _read(self, scan: _Scan, first: int) -> int:
        limits, growth = self._plan.limits, growth_of(self._program)
        most, depth = limits.record_bytes, limits.depth
        known, work = self._known.table, scan.work
        return int(scan_all(scan.data, scan.bounds, scan.fates, first, self._program, known, work, growth, most, depth))

    def _readings(self, work: ScanBuffers) -> list[ExtractedColumn]:
        done = int(work.counters[DONE])
        values = [row[:count] for row, count in zip(work.values, work.counters[VALUES:], strict=True)]
        return [
            array_column(row, lengths[:done]) if attribute.plan.is_array else scalar_column(row)
            for attribute, row, lengths in zip(self._attributes, values, work.lengths, strict=True)
        ]

    def _alphas(self, work: ScanBuffers, given: Float64Array | None, indices: Int64Array) -> Float64Array | None:
        if self._alpha is None:
            return None
        if given is not None:
            return alpha_column(given[indices])
        own = work.alphas[: len(indices)].view(np.float64)
        default = OWN_ALPHA_ABSENT if self._alpha.default is None else self._alpha.default
        return alpha_column(np.where(own == 0, default, own))

    def _keys(self, scan: _Scan) -> list[bytes]:
        if not self._keyed:
            return []
        done = int(scan.work.counters[DONE])
        starts = scan.work.key_starts[:done]
        whole, ends = scan.data.tobytes(), starts + scan.work.key_sizes[:done]
        return [whole[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]

    def _writer(self, scan: _Scan, readings: Sequence[ExtractedColumn]) -> Callable[[MaskedBatch], list[bytes]]:
        """A function that writes the records taken, once they are masked."""

        def write(masked: MaskedBatch) -> list[bytes]:
            work = scan.work
            done, gaps = int(work.counters[DONE]), int(work.counters[GAPS])
            numbers, digits = number_texts(masked.numeric, [one.kind for one in self._plan.numeric])
            values, firsts = self._values(readings, masked)
            places = self._written.places(work.gap_uses[:gaps], values, firsts, numbers)
            bounds = np.empty(done + 1, np.int64)
            measure_all(work.ends, places, bounds)
            pseudonyms = self._pseudonyms_of(scan, work.gap_uses[:gaps])
            return split_rendered(
                render_all(work, places, self._written.table.texts, digits, pseudonyms, int(bounds[-1])), bounds
            )

        return write

    def _pseudonyms_of(self, scan: _Scan, uses: Int64Array) -> NDArray[np.uint8]:
        """The digits that fill the gaps of texts to pseudonymize."""
        gaps = np.flatnonzero(uses < 0)
        return self._pseudonyms.of_pieces(scan.data, -1 - uses[gaps], scan.work.gap_sizes[gaps])

    def _values(self, readings: Sequence[ExtractedColumn], masked: MaskedBatch) -> tuple[Int64Array, Int64Array]:
        """(m, 2): of every value the masked position (-1: none) and the style; where each attribute's values begin."""
        styles = shared_styles(self._attributes, readings)
        positions = [
            masked_positions(reading, column) for reading, column in zip(readings, masked.columns, strict=True)
        ]
        firsts = np.cumsum([0, *(len(column) for column in positions[:-1])])
        return np.stack([np.concatenate(positions), np.concatenate(styles)], axis=1), firsts


def _numbers(work: ScanBuffers) -> Float64Array | None:
    """(n, q): the numeric attributes' values; None where there are no such attributes."""
    return work.numbers[:, : work.counters[DONE]].T.copy() if len(work.numbers) else None


def _joined(values: Sequence[bytes | None]) -> tuple[NDArray[np.uint8], Int64Array, NDArray[np.int8]]:
    """Values one after another and then ``PADDING``; where each begins, and the last ends; each one's fate."""
    pieces: list[Any] = [*values, bytes(PADDING)]
    fates = np.zeros(len(values), np.int8)
    try:
        whole = b"".join(pieces)
    except TypeError:
        fates[[index for index, piece in enumerate(pieces) if piece is None]] = TOMBSTONE
        pieces = [piece or b"" for piece in pieces]
        whole = b"".join(pieces)
    bounds = np.zeros(len(values) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, pieces), np.int64, len(values)), out=bounds[1:])
    return np.frombuffer(whole, np.uint8), bounds, fates


def split_rendered(whole: NDArray[np.uint8], bounds: Int64Array) -> list[bytes]:
    """The pieces of bytes between bounds."""
    sizes = tuple(np.diff(bounds).tolist())
    return list(Struct("%ds" * len(sizes) % sizes).unpack_from(whole.data))
