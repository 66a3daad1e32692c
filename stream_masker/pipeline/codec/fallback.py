"""The scanner combined with the reference codec, which decides about the records that the scanner leaves undecided."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from stream_masker.core.batch import MaskedBatch
from stream_masker.pipeline.codec.base import RecordCodec
from stream_masker.pipeline.codec.decoded import DecodedBatch
from stream_masker.pipeline.codec.interleaving import insertion_places, interleave, spliced, split_masked
from stream_masker.pipeline.codec.reference.codec import ReferenceCodec, ReferenceTemplates
from stream_masker.pipeline.codec.scanner.codec import ScannedBatch, ScannerCodec
from stream_masker.pipeline.codec.scanner.program import NotCompilableError
from stream_masker.pipeline.codec.self_check import scanner_agrees
from stream_masker.pipeline.plan import Plan
from stream_masker.pipeline.pseudonyms import Pseudonyms
from stream_masker.pipeline.records import Inputs
from stream_masker.pipeline.style import Style

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
            _log.warning("this configuration cannot be compiled, so records are decoded one by one: %s", reason)
        return reference
