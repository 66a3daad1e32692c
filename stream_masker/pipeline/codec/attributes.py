"""How an attribute's texts are understood and written, and the integers that stand for values and gaps.

Long-lived is the ``AttributeCodec``, with its caches; of one batch is its ``Ledger`` (``ledgers``), which holds what
was read. The gaps of all attributes are numbered together, in one list: what a gap is for is one integer.
"""

from __future__ import annotations

from typing import Final

from stream_masker.core.ontology import UNKNOWN
from stream_masker.pipeline.paths import JsonValue, NameStep
from stream_masker.pipeline.plan import AttributePlan
from stream_masker.pipeline.reasons import Reason, RecordRejectedError
from stream_masker.pipeline.style import OWN_CASE, STYLE_BITS, Codes, Labels, letter_case, style_of

SHIFT: Final = STYLE_BITS + 1
UNLISTED: Final = 1 << STYLE_BITS
STYLE: Final = UNLISTED - 1
NO_VALUE: Final = -1 << SHIFT
SUPPRESSED: Final = NO_VALUE | UNLISTED
"""A value as one integer: ``position << SHIFT | UNLISTED (known by a prefix only) | style``; or one of these two."""

CODE_PLACEHOLDER: Final = 0
COPY_PLACEHOLDER: Final = 1 << STYLE_BITS
LABEL_PLACEHOLDER: Final = 2 << STYLE_BITS
PLACEHOLDER_KIND: Final = COPY_PLACEHOLDER | LABEL_PLACEHOLDER
PLACEHOLDER_SHIFT: Final = STYLE_BITS + 2
"""A gap: ``(value's number · attributes + attribute) << GAP_SHIFT | kind | style``; a code's style is its value's."""

TEXT_CACHE_SIZE: Final = 200_000


class AttributeCodec:
    """One attribute of a plan, ``number`` of ``total``: how its texts are understood and written."""

    def __init__(self, plan: AttributePlan, number: int, total: int) -> None:
        self.plan = plan
        self.number = number
        self.total = total
        self.known: dict[str, int] = {}
        self.codes = Codes(plan.concepts)
        self.labels = Labels(plan.concepts.taxonomy.labels)
        self.beside = _key_beside(plan)
        self.simple = not plan.copies and (plan.label is None or self.beside is not None)
        self._ids = plan.concepts.taxonomy.ids

    def value(self, text: JsonValue) -> int:
        """A text as a value. Raises Unfit when it is no code."""
        if type(text) is not str:
            raise self.unfit(Reason.NOT_A_CODE)
        known = self.known.get(text)
        return self._look_up(text) if known is None else known

    def _look_up(self, text: str) -> int:
        if not text or text.isspace():
            raise self.unfit(Reason.EMPTY)
        match = self.plan.concepts.find(text)
        if match.position == UNKNOWN:
            return self._unknown()
        style = style_of(text, self._ids[match.position], match.how)
        return self._remember(text, match.position << SHIFT | (UNLISTED if match.how == "ancestor" else 0) | style)

    def _unknown(self) -> int:
        if self.plan.concepts.unknown != "suppress":
            raise self.unfit(Reason.UNKNOWN_CODE)
        return SUPPRESSED

    def _remember(self, text: str, value: int) -> int:
        if len(self.known) >= TEXT_CACHE_SIZE:
            self.known.clear()
        self.known[text] = value
        return value

    def aside(self, text: JsonValue, *, is_label: bool) -> int:
        """The kind and style of what is to replace a label or a copy that reads so."""
        if is_label:
            return LABEL_PLACEHOLDER | (letter_case(text) if type(text) is str else OWN_CASE)
        match = self.plan.concepts.find(text) if type(text) is str else None
        if match is None or match.position == UNKNOWN:
            return CODE_PLACEHOLDER
        return COPY_PLACEHOLDER | style_of(text, self._ids[match.position], match.how)

    def unfit(self, reason: Reason) -> RecordRejectedError:
        """The exception that blames this attribute."""
        return RecordRejectedError(reason, self.plan.path.text)


def _key_beside(plan: AttributePlan) -> str | None:
    """The label's name where it stands in the same object as the code; otherwise None."""
    if plan.label is None or plan.label.steps[:-1] != plan.path.steps[:-1]:
        return None
    code, label = plan.path.steps[-1], plan.label.steps[-1]
    return label.key if isinstance(code, NameStep) and isinstance(label, NameStep) else None
