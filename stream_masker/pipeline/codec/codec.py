"""Records read by two readers: most by a compiled plan, and one by one those that it leaves to the literal reader."""

from __future__ import annotations

import logging
from typing import Any

from stream_masker.pipeline.codec.decoded import DecodedBatch, interleaved
from stream_masker.pipeline.codec.reference.codec import ReferenceCodec
from stream_masker.pipeline.codec.scanner.codec import ScannerCodec
from stream_masker.pipeline.codec.scanner.program import NotCompilableError
from stream_masker.pipeline.fields import field_treatment
from stream_masker.pipeline.plan import Plan
from stream_masker.pipeline.pseudonyms import Pseudonyms
from stream_masker.pipeline.records import Inputs, Rejected

_log = logging.getLogger(__name__)


class RecordCodec:
    """Takes records in as a plan says. What comes of them does not depend on which reader took them.

    The literal reader decides about every record that the compiled one is not sure of, and alone rejects any.
    ``emits``: whether records are written again, and their noise keys and alphas read; else they are only counted.
    ``compiled``: False for the literal reader alone.
    """

    def __init__(self, plan: Plan, pseudonyms: Pseudonyms, *, emits: bool = True, compiled: bool = True) -> None:
        self._literal = ReferenceCodec(
            plan, treat=field_treatment(plan, pseudonyms) if emits else _nothing, controls=emits
        )
        self._compiled = _compiled(plan, self._literal, pseudonyms, emits) if compiled else None

    @property
    def is_compiled(self) -> bool:
        """Whether most records are read by a compiled plan; False for plans that cannot be compiled."""
        return self._compiled is not None

    def take(self, records: Inputs) -> DecodedBatch:
        """Reads records. Whatever goes wrong with one of them rejects that one only."""
        if self._compiled is None:
            return self._literal.take(records)
        taken, left = self._compiled.take(records)
        if not len(left):
            return taken
        return interleaved(taken, self._literal.take(records.chosen(left.tolist())).at(left))

    def take_literally(self, records: Inputs) -> DecodedBatch:
        """As ``take``, by the literal reader alone."""
        return self._literal.take(records)

    def refuse(self, rejected: Rejected) -> DecodedBatch:
        """What comes of one record that is rejected unread."""
        return self._literal.refuse(rejected)


def _compiled(plan: Plan, literal: ReferenceCodec, pseudonyms: Pseudonyms, emits: bool) -> ScannerCodec | None:
    try:
        return ScannerCodec(plan, literal.attributes, pseudonyms, controls=emits)
    except NotCompilableError as reason:
        if emits:
            _log.warning("records are read one by one, for this configuration cannot be compiled: %s", reason)
        return None


def _nothing(_: dict[str, Any]) -> dict[str, Any]:
    return {}
