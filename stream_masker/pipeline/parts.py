"""Parts of runs that were masked one after another, and what blocks count of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stream_masker.core.batch import Batch, Column, Distortion, MaskedBatch
from stream_masker.core.dtypes import Float64Array
from stream_masker.pipeline.blocks import CountedRecords, limit_elements
from stream_masker.pipeline.codec import DecodedBatch
from stream_masker.pipeline.style import add_styles


@dataclass(frozen=True, slots=True)
class MaskedPart:
    """Masked records: what was decoded, the masks, and the values to write, None for those without."""

    decoded: DecodedBatch
    masked: MaskedBatch
    values: list[bytes | None]


def counted_records(parts: Sequence[MaskedPart], *, has_keys: bool) -> CountedRecords:
    """Return what blocks count of consecutive records."""
    starts = np.cumsum([0, *(len(part.values) for part in parts)]).tolist()
    decoded = [part.decoded for part in parts]
    columns = [limit_elements(part.decoded.batch.columns) for part in parts]
    masks = [limit_elements(part.masked.columns) for part in parts]
    contexts = [one.batch.context for one in decoded if one.batch.context is not None]
    return CountedRecords(
        Batch(
            sum(one.batch.size for one in decoded),
            tuple(map(_joined_columns, zip(*columns, strict=True))),
            numeric=_joined_numbers([one.batch.numeric for one in decoded]),
            context=np.concatenate(contexts) if contexts else None,
        ),
        MaskedBatch(
            tuple(map(_joined_columns, zip(*masks, strict=True))),
            tuple(sum(each, Distortion()) for each in zip(*(part.masked.distortions for part in parts), strict=True)),
            _joined_numbers([part.masked.numeric for part in parts]),
        ),
        np.concatenate([one.indices + start for one, start in zip(decoded, starts, strict=False)]),
        {start + k: one for start, part in zip(starts, decoded, strict=False) for k, one in part.rejected.items()},
        np.sum([one.unknown for one in decoded], axis=0).tolist(),
        np.sum([one.lost for one in decoded], axis=0).tolist(),
        add_styles(one.styles for one in decoded),
        noise_keys=[key for one in decoded for key in one.keys] if has_keys else None,
    )


def _joined_columns(columns: Sequence[Column]) -> Column:
    codes = np.concatenate([column.codes for column in columns])
    if columns[0].offsets is None:
        return Column(codes)
    return Column(codes, np.cumsum([0, *np.concatenate([column.lengths for column in columns])]))


def _joined_numbers(parts: Sequence[Float64Array | None]) -> Float64Array | None:
    present = [part for part in parts if part is not None]
    return np.concatenate(present) if present else None
