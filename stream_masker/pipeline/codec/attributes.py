"""How an attribute's texts are interpreted and written, and the integers that stand for values and placeholders.

An ``AttributeCodec`` exists as long as its plan and holds the caches. The values read from one batch are held by an
``AttributeExtractor`` of the reference codec or by the ``ScanBuffers`` of the scanner. The placeholders of all
attributes are numbered together: one integer identifies what a placeholder stands for.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from stream_masker.core.ontology import UNKNOWN
from stream_masker.core.ontology.mapping import LONGEST_CACHED
from stream_masker.pipeline.paths import JsonValue
from stream_masker.pipeline.plan import AttributePlan
from stream_masker.pipeline.reasons import Reason, RecordRejectedError
from stream_masker.pipeline.style import CANONICAL, STYLE_BITS, Codes, Labels, Style, style_of

SHIFT: Final = STYLE_BITS + 1
UNLISTED: Final = 1 << STYLE_BITS
TRAITS: Final = UNLISTED - 1
NO_VALUE: Final = -1 << SHIFT
SUPPRESSED: Final = NO_VALUE | UNLISTED
"""A value as one integer: ``position << SHIFT | UNLISTED | traits``, where UNLISTED marks a code that is known by its
prefix only, and the traits of its text are counted (``pipeline.style``); or NO_VALUE, for an absent value, or
SUPPRESSED, for an unknown code under ``unknown: suppress`` and an empty one under ``missing: keep``."""

CODE_PLACEHOLDER: Final = 0
LABEL_PLACEHOLDER: Final = 1
PLACEHOLDER_SHIFT: Final = 1
"""A placeholder as one integer: ``(value's number · attributes + attribute) << PLACEHOLDER_SHIFT | kind``. A copy's
kind is that of the code."""

TEXT_CACHE_SIZE: Final = 200_000


class AttributeCodec:
    """One attribute of a plan, ``number`` of ``total``: how its texts are interpreted and written."""

    def __init__(self, plan: AttributePlan, number: int, total: int) -> None:
        self.plan = plan
        self.number = number
        self.total = total
        self.codes = Codes(plan.concepts, CANONICAL)
        self.labels = Labels(plan.concepts.taxonomy.labels)
        self._ids = plan.concepts.taxonomy.ids
        self._values: dict[str, int] = {}

    def set_style(self, style: Style) -> None:
        """Set the style that codes are written in from now on."""
        if style != self.codes.style:
            self.codes = Codes(self.plan.concepts, style)

    def value(self, text: JsonValue) -> int:
        """Return the value that a text stands for. Raises RecordRejectedError if it is not a code."""
        if type(text) is not str:
            raise self.rejection(Reason.NOT_A_CODE)
        value = self._values.get(text)
        return self._look_up(text) if value is None else value

    def prefetch(self, texts: Iterable[JsonValue]) -> None:
        """Look up the texts that have not occurred before. Looking up many at once costs less than one by one."""
        new = {text for text in texts if type(text) is str and text not in self._values}
        if new:
            self.plan.concepts.prefetch(new)

    def _look_up(self, text: str) -> int:
        if not text or text.isspace():
            if self.plan.missing == "reject":
                raise self.rejection(Reason.EMPTY)
            return self._remember(text, SUPPRESSED)
        match = self.plan.concepts.find(text)
        if match.position == UNKNOWN:
            return self._remember(text, self._unknown())
        traits = style_of(text, self._ids[match.position], match.how)
        return self._remember(text, match.position << SHIFT | (UNLISTED if match.how == "ancestor" else 0) | traits)

    def _unknown(self) -> int:
        if self.plan.concepts.unknown != "suppress":
            raise self.rejection(Reason.UNKNOWN_CODE)
        return SUPPRESSED

    def _remember(self, text: str, value: int) -> int:
        if len(text) <= LONGEST_CACHED:
            if len(self._values) >= TEXT_CACHE_SIZE:
                self._values.clear()
            self._values[text] = value
        return value

    def rejection(self, reason: Reason) -> RecordRejectedError:
        """Return the exception that rejects a record because of this attribute."""
        return RecordRejectedError(reason, self.plan.path.text)
