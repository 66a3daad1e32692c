"""What came of records on their way in, whoever read them: codes as a batch, rejections, and how to write the rest."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from stream_masker.core.batch import Batch, Column, MaskedBatch, Tally
from stream_masker.core.dtypes import Float64Array, Int64Array
from stream_masker.pipeline.records import Rejected


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodedBatch:
    """Of n records those that can be masked, and those that cannot.

    indices: (k,) int64 ascending, of the first; batch: their codes; keys: of their noise, where the plan has such;
    rejected: by index; unknown, lost: each attribute's values that found no concept, those of rejected records
    included, and those of them that are not in the batch; write: from the masked batch to the k records' JSON.
    Tombstones are in neither.
    """

    indices: Int64Array
    batch: Batch
    keys: Sequence[bytes]
    rejected: Mapping[int, Rejected]
    unknown: Sequence[int]
    lost: Sequence[int]
    write: Callable[[MaskedBatch], list[bytes]]

    def at(self, indices: Int64Array) -> DecodedBatch:
        """The same records where they stand among others: record i at ``indices[i]``."""
        rejected = {int(indices[index]): one for index, one in self.rejected.items()}
        return replace(self, indices=indices[self.indices], rejected=rejected)


def alpha_column(alphas: Sequence[float] | Float64Array) -> Float64Array | None:
    """Records' own alphas, (k,) float64; None when no record gives any."""
    column = np.asarray(alphas, dtype=np.float64)
    return None if np.isnan(column).all() else column


def interleaved(one: DecodedBatch, other: DecodedBatch) -> DecodedBatch:
    """Two disjoint parts of the same records together, in the records' order."""
    indices = np.concatenate([one.indices, other.indices])
    order = np.argsort(indices)
    places = np.argsort(order)
    first, second = places[: len(one.indices)], places[len(one.indices) :]

    def write(masked: MaskedBatch) -> list[bytes]:
        values = [*one.write(_chosen(masked, first)), *other.write(_chosen(masked, second))]
        return [values[k] for k in order.tolist()]

    keys = [*one.keys, *other.keys]
    return DecodedBatch(
        indices=indices[order],
        batch=_joined(one.batch, other.batch, order),
        keys=[keys[k] for k in order.tolist()] if keys else keys,
        rejected={**one.rejected, **other.rejected},
        unknown=[a + b for a, b in zip(one.unknown, other.unknown, strict=True)],
        lost=[a + b for a, b in zip(one.lost, other.lost, strict=True)],
        write=write,
    )


def _joined(one: Batch, other: Batch, order: Int64Array) -> Batch:
    columns = [_ordered(_stacked(a, b), order) for a, b in zip(one.columns, other.columns, strict=True)]
    numeric = None
    if one.numeric is not None and other.numeric is not None:
        numeric = np.concatenate([one.numeric, other.numeric])[order]
    return Batch(len(order), tuple(columns), _joined_alphas(one, other, order), numeric)


def _joined_alphas(one: Batch, other: Batch, order: Int64Array) -> Float64Array | None:
    if one.alpha is None and other.alpha is None:
        return None
    parts = [np.full(part.size, np.nan) if part.alpha is None else part.alpha for part in (one, other)]
    return np.concatenate(parts)[order]


def _stacked(one: Column, other: Column) -> Column:
    codes = np.concatenate([one.codes, other.codes])
    if one.offsets is None or other.offsets is None:
        return Column(codes)
    return Column(codes, np.concatenate([one.offsets, other.offsets[1:] + one.offsets[-1]]))


def _ordered(column: Column, order: Int64Array) -> Column:
    """A column's records in another order, or some of them."""
    if column.offsets is None:
        return Column(column.codes[order])
    lengths = np.diff(column.offsets)[order]
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    shifts = np.repeat(column.offsets[:-1][order] - offsets[:-1], lengths)
    return Column(column.codes[np.arange(offsets[-1]) + shifts], offsets)


def _chosen(masked: MaskedBatch, chosen: Int64Array) -> MaskedBatch:
    columns = tuple(_ordered(column, chosen) for column in masked.columns)
    numeric = None if masked.numeric is None else masked.numeric[chosen]
    return MaskedBatch(columns, (Tally(),) * len(columns), numeric)
