"""Masking results, built from outcomes."""

from __future__ import annotations

from collections.abc import Sequence

from stream_masker.pipeline.records import Block, Masked, RecordOutcome, Rejected, Result


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
