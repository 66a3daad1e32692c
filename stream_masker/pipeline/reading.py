"""Records read by two readers: most by a compiled plan, and one by one those that it leaves to the literal reader."""

from __future__ import annotations

import logging
from typing import Any

from stream_masker.pipeline.compiled.program import NotCompilableError
from stream_masker.pipeline.compiled.reader import CompiledReader
from stream_masker.pipeline.fields import field_treatment
from stream_masker.pipeline.intake import Reader
from stream_masker.pipeline.plan import Plan
from stream_masker.pipeline.pseudonyms import Pseudonyms
from stream_masker.pipeline.records import Inputs, Rejected
from stream_masker.pipeline.taken import Taken, interleaved

_log = logging.getLogger(__name__)


class RecordReader:
    """Takes records in as a plan says. What comes of them does not depend on which reader took them.

    The literal reader decides about every record that the compiled one is not sure of, and alone rejects any.
    ``emits``: whether records are written again, and their noise keys and alphas read; else they are only counted.
    ``compiled``: False for the literal reader alone.
    """

    def __init__(self, plan: Plan, pseudonyms: Pseudonyms, *, emits: bool = True, compiled: bool = True) -> None:
        self._literal = Reader(plan, treat=field_treatment(plan, pseudonyms) if emits else _nothing, controls=emits)
        self._compiled = _compiled(plan, self._literal, pseudonyms, emits) if compiled else None

    @property
    def is_compiled(self) -> bool:
        """Whether most records are read by a compiled plan; False for plans that cannot be compiled."""
        return self._compiled is not None

    def take(self, records: Inputs) -> Taken:
        """Reads records. Whatever goes wrong with one of them rejects that one only."""
        if self._compiled is None:
            return self._literal.take(records)
        taken, left = self._compiled.take(records)
        if not len(left):
            return taken
        return interleaved(taken, self._literal.take(records.chosen(left.tolist())).at(left))

    def take_literally(self, records: Inputs) -> Taken:
        """As ``take``, by the literal reader alone."""
        return self._literal.take(records)

    def refuse(self, rejected: Rejected) -> Taken:
        """What comes of one record that is rejected unread."""
        return self._literal.refuse(rejected)


def _compiled(plan: Plan, literal: Reader, pseudonyms: Pseudonyms, emits: bool) -> CompiledReader | None:
    try:
        return CompiledReader(plan, literal.attributes, pseudonyms, controls=emits)
    except NotCompilableError as reason:
        if emits:
            _log.warning("records are read one by one, for this configuration cannot be compiled: %s", reason)
        return None


def _nothing(_: dict[str, Any]) -> dict[str, Any]:
    return {}
