"""The scanner combined with the reference codec, which decides about the records that the scanner leaves undecided."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.batch import Batch, Column, Distortion, MaskedBatch
from stream_masker.core.dtypes import Float64Array, Int32Array, Int64Array
from stream_masker.pipeline.codec.base import RecordCodec
from stream_masker.pipeline.codec.decoded import DecodedBatch, TemplatesT
from stream_masker.pipeline.codec.reference.codec import ReferenceCodec, ReferenceTemplates
from stream_masker.pipeline.codec.scanner.codec import ScannedBatch, ScannerCodec
from stream_masker.pipeline.codec.scanner.program import NotCompilableError
from stream_masker.pipeline.codec.self_check import scanner_agrees
from stream_masker.pipeline.plan import Plan
from stream_masker.pipeline.pseudonyms import Pseudonyms
from stream_masker.pipeline.records import Inputs
from stream_masker.pipeline.style import Style


def interleave(first: DecodedBatch[Any], second: DecodedBatch[Any], templates: TemplatesT) -> DecodedBatch[TemplatesT]:
    """Return the records of both batches in the order of their indices. The second decides what the first leaves
    undecided.

    The second batch is expected to be small: its records are inserted into the first.
    """
    places = insertion_places(first, second)
    return DecodedBatch(
        indices=np.insert(first.indices, places, second.indices),
        batch=_join(first.batch, second.batch, places),
        keys=spliced(first.keys, second.keys, places) if len(first.keys) or len(second.keys) else [],
        rejected={**first.rejected, **second.rejected},
        undecided=second.undecided,
        unknown=[a + b for a, b in zip(first.unknown, second.unknown, strict=True)],
        lost=[a + b for a, b in zip(first.lost, second.lost, strict=True)],
        styles=[a + b for a, b in zip(first.styles, second.styles, strict=True)],
        templates=templates,
        emptied=second.emptied,
    )


def insertion_places(first: DecodedBatch[Any], second: DecodedBatch[Any]) -> Int64Array:
    """Return (m,) int64, ascending: for each record of the second batch, how many of the first are before it."""
    return np.searchsorted(first.indices, second.indices)


def split_masked(masked: MaskedBatch, places: Int64Array, size: int) -> tuple[MaskedBatch, MaskedBatch]:
    """Return the masked records of the first batch, which has ``size`` records, and those of the second."""
    inserted = np.zeros(size + len(places), np.bool_)
    inserted[places + np.arange(len(places))] = True
    return _select(masked, ~inserted), _select(masked, inserted)


def spliced(first: Sequence[bytes], second: Sequence[bytes], places: Int64Array) -> list[bytes]:
    """Interleave the items of both batches."""
    items: list[bytes] = []
    start = 0
    for item, place in zip(second, places.tolist(), strict=True):
        items += first[start:place]
        items.append(item)
        start = place
    items += first[start:]
    return items


def _join(first: Batch, second: Batch, places: Int64Array) -> Batch:
    columns = [_insert(a, b, places) for a, b in zip(first.columns, second.columns, strict=True)]
    numeric = None
    if first.numeric is not None and second.numeric is not None:
        numeric = np.insert(first.numeric, places, second.numeric, axis=0)
    context = None
    if first.context is not None and second.context is not None:
        context = np.insert(first.context, places, second.context)
    rolled = {key: np.insert(concepts, places, second.rolled[key]) for key, concepts in first.rolled.items()}
    alphas = _join_alphas(first, second, places)
    return Batch(first.size + second.size, tuple(columns), alphas, numeric, context=context, rolled=rolled)


def _join_alphas(first: Batch, second: Batch, places: Int64Array) -> Float64Array | None:
    if first.alpha is None and second.alpha is None:
        return None
    own, other = (np.full(b.size, np.nan) if b.alpha is None else b.alpha for b in (first, second))
    return np.insert(own, places, other)


def _insert(first: Column, second: Column, places: Int64Array) -> Column:
    if first.offsets is None or second.offsets is None:
        return Column(np.insert(first.codes, places, second.codes))
    lengths = np.diff(second.offsets)
    codes = np.insert(first.codes, np.repeat(first.offsets[places], lengths), second.codes)
    return Column(codes, _offsets_of(np.insert(np.diff(first.offsets), places, lengths)))


def _select(masked: MaskedBatch, chosen: NDArray[np.bool_]) -> MaskedBatch:
    columns = tuple(_chosen(column, chosen) for column in masked.columns)
    numeric = None if masked.numeric is None else masked.numeric[chosen]
    return MaskedBatch(columns, (Distortion(),) * len(columns), numeric)


def _chosen(column: Column, chosen: NDArray[np.bool_]) -> Column:
    if column.offsets is None:
        return Column(column.codes[chosen])
    lengths = np.diff(column.offsets)
    return Column(column.codes[np.repeat(chosen, lengths)], _offsets_of(lengths[chosen]))


def _offsets_of(lengths: Int64Array) -> Int64Array:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FallbackTemplates:
    """The batches of both codecs; each codec renders its own. ``rest``: None if the scanner decoded all records."""

    scanned: DecodedBatch[ScannedBatch]
    rest: DecodedBatch[ReferenceTemplates] | None


class FallbackCodec(RecordCodec[FallbackTemplates]):
    """The scanner for most records, and the reference codec for the others. Only the latter rejects records."""

    def __init__(self, scanner: ScannerCodec, reference: ReferenceCodec) -> None:
        self.scanner = scanner
        self.reference = reference

    def set_styles(self, styles: Sequence[Style]) -> None:
        self.reference.set_styles(styles)
        self.scanner.set_styles(styles)

    def set_shared(self, shared: Mapping[str, Int32Array]) -> None:
        self.reference.set_shared(shared)
        self.scanner.set_shared(shared)

    def read(self, records: Inputs) -> DecodedBatch[FallbackTemplates]:
        scanned = self.scanner.read(records)
        undecided = scanned.undecided
        if not len(undecided):
            return scanned.with_templates(FallbackTemplates(scanned, None))
        rest = self.reference.read(records.chosen(undecided.tolist())).reindexed(undecided)
        return interleave(scanned, rest, FallbackTemplates(scanned, rest))

    def render(self, decoded: DecodedBatch[FallbackTemplates], masked: MaskedBatch) -> list[bytes]:
        scanned, rest = decoded.templates.scanned, decoded.templates.rest
        if rest is None:
            return self.scanner.render(scanned, masked)
        places = insertion_places(scanned, rest)
        first, second = split_masked(masked, places, len(scanned.indices))
        return spliced(self.scanner.render(scanned, first), self.reference.render(rest, second), places)


def fastest_codec(reference: ReferenceCodec, plan: Plan, pseudonyms: Pseudonyms) -> RecordCodec[Any]:
    """Return the scanner with the reference codec as its fallback.

    For a plan that cannot be compiled, or if the scanner fails its self-check, return the reference codec alone.
    """
    if not scanner_agrees():
        return reference
    try:
        return FallbackCodec(ScannerCodec(plan, reference.attributes, pseudonyms, writes=reference.writes), reference)
    except NotCompilableError as reason:
        if reference.writes:
            _log.info("this configuration cannot be compiled, so records are decoded one by one: %s", reason)
        return reference
