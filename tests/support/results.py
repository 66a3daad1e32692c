"""Masking results, built from outcomes, and how they were masked."""

from __future__ import annotations

from collections.abc import Sequence

from stream_masker.pipeline.records import Block, Masked, RecordOutcome, Rejected, Result
from stream_masker.pipeline.wire.reports import Protection

PROTECTION = Protection(
    statistics_version=7,
    mechanism="semantic_transport",
    configuration="0123456789abcdef",
    secret_id="fedcba9876543210",
    certainty=0.5,
    alpha={"principal": 1.0, "secondary": None},
)


def result_of(outcomes: Sequence[RecordOutcome], blocks: Sequence[Block] = ()) -> Result:
    """Return the result with these outcomes."""
    masked = [one if isinstance(one, Masked) else Masked(one.offset, None, None, [], -1) for one in outcomes]
    return Result(
        offsets=[one.offset for one in masked],
        values=[one.value for one in masked],
        keys=[one.key for one in masked],
        headers=[one.headers for one in masked],
        timestamps=[one.timestamp for one in masked],
        rejected={index: one for index, one in enumerate(outcomes) if isinstance(one, Rejected)},
        blocks=blocks,
    )
