"""The counts of a sample of records, for a first calibration."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from stream_masker.core.statistics.counts import Counts, merge
from stream_masker.pipeline.reasons import RejectionCause, RejectionCauses, by_reason
from stream_masker.pipeline.style import StyleCounts, add_styles


@dataclass(frozen=True, slots=True)
class SampleCounts:
    """The counts of a sample.

    causes: the number of records that are not counted, by reason and configured path; styles: those of the codes of
    each attribute.
    """

    counts: Counts
    causes: RejectionCauses
    styles: tuple[StyleCounts, ...]

    @property
    def rejected(self) -> dict[str, int]:
        """The number of records that are not counted, by reason."""
        return by_reason(self.causes)

    @classmethod
    def joined(cls, parts: Sequence[SampleCounts]) -> SampleCounts:
        """Join the counts of all parts, at least one."""
        causes = sum((Counter(part.causes) for part in parts), Counter[RejectionCause]())
        styles = add_styles(part.styles for part in parts)
        return cls(merge(part.counts for part in parts), dict(causes), styles)
