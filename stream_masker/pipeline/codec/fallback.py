"""The scanner combined with the reference codec, which decides about the records that the scanner leaves undecided."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.batch import Batch, Column, Distortion, MaskedBatch
from stream_masker.core.dtypes import Int32Array, Int64Array
from stream_masker.pipeline.blocks import masked_rows
from stream_masker.pipeline.codec.base import DecodedBatch, RecordCodec, TemplatesT
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
    undecided."""
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
    none = (Distortion(),) * len(masked.columns)
    first, second = (masked_rows(masked, np.flatnonzero(part), none) for part in (~inserted, inserted))
    return first, second


def spliced(first: Sequence[bytes], second: Sequence[bytes], places: Int64Array) -> list[bytes]:
    """Interleave the items of both batches."""
    items = [*first, *second]
    return [items[row] for row in _order(places, len(first)).tolist()]


def _order(places: Int64Array, size: int) -> Int64Array:
    """Return (n + m,) int64: the interleaved order of the n records of the first batch and the m of the second."""
    return np.insert(np.arange(size), places, size + np.arange(len(places)))


def _join(first: Batch, second: Batch, places: Int64Array) -> Batch:
    columns = tuple(map(_joined, first.columns, second.columns))
    both = Batch(
        first.size + second.size,
        columns,
        numeric=_concatenated(first.numeric, second.numeric),
        context=_concatenated(first.context, second.context),
        rolled={key: np.concatenate([concepts, second.rolled[key]]) for key, concepts in first.rolled.items()},
    )
    order, alphas = _order(places, first.size), None
    if first.alpha is not None or second.alpha is not None:
        alphas = np.concatenate([np.full(b.size, np.nan) if b.alpha is None else b.alpha for b in (first, second)])
    return replace(both.take(order), alpha=None if alphas is None else alphas[order])


def _concatenated(first: NDArray[Any] | None, second: NDArray[Any] | None) -> NDArray[Any] | None:
    return None if first is None or second is None else np.concatenate([first, second])


def _joined(first: Column, second: Column) -> Column:
    codes = np.concatenate([first.codes, second.codes])
    if first.offsets is None or second.offsets is None:
        return Column(codes)
    return Column(codes, np.concatenate([first.offsets, first.offsets[-1] + second.offsets[1:]]))


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
        rest = self.reference.read(records.at(undecided.tolist())).reindexed(undecided)
        return interleave(scanned, rest, FallbackTemplates(scanned, rest))

    def render(self, decoded: DecodedBatch[FallbackTemplates], masked: MaskedBatch) -> list[bytes]:
        scanned, rest = decoded.templates.scanned, decoded.templates.rest
        if rest is None:
            return self.scanner.render(scanned, masked)
        places = insertion_places(scanned, rest)
        first, second = split_masked(masked, places, len(scanned.indices))
        return spliced(self.scanner.render(scanned, first), self.reference.render(rest, second), places)


def fastest_codec(
    reference: ReferenceCodec, plan: Plan, pseudonyms: Pseudonyms, records: str = "records"
) -> RecordCodec[Any]:
    """Return the scanner with the reference codec as its fallback.

    For a plan that cannot be compiled, or if the scanner fails its self-check, return the reference codec alone.
    records: what they are called in the log.
    """
    if not scanner_agrees():
        return reference
    try:
        return FallbackCodec(ScannerCodec(plan, reference.attributes, pseudonyms, writes=reference.writes), reference)
    except NotCompilableError as reason:
        if reference.writes:
            kind = records if plan.fhir is None else "FHIR resources and Bundles"
            _log.info("%s are read by the reference codec, one by one: %s", kind, reason)
        return reference
