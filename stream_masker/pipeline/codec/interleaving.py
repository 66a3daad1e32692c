"""Decoded batches of disjoint parts of the same records, interleaved into one batch and split again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from stream_masker.core.batch import Batch, Column, Distortion, MaskedBatch
from stream_masker.core.dtypes import Float64Array, Int64Array
from stream_masker.pipeline.codec.decoded import DecodedBatch, TemplatesT


def interleave(first: DecodedBatch[Any], second: DecodedBatch[Any], templates: TemplatesT) -> DecodedBatch[TemplatesT]:
    """The records of both batches in the order of their indices. The second decides what the first leaves undecided."""
    order = interleaved_order(first, second)
    keys = [*first.keys, *second.keys]
    return DecodedBatch(
        indices=np.concatenate([first.indices, second.indices])[order],
        batch=_join(first.batch, second.batch, order),
        keys=[keys[k] for k in order.tolist()] if keys else keys,
        rejected={**first.rejected, **second.rejected},
        undecided=second.undecided,
        unknown=[a + b for a, b in zip(first.unknown, second.unknown, strict=True)],
        lost=[a + b for a, b in zip(first.lost, second.lost, strict=True)],
        styles=[a + b for a, b in zip(first.styles, second.styles, strict=True)],
        templates=templates,
    )


def interleaved_order(first: DecodedBatch[Any], second: DecodedBatch[Any]) -> Int64Array:
    """(k,) int64: interleaved record i is number ``order[i]`` of the first and then the second batch's records."""
    return np.argsort(np.concatenate([first.indices, second.indices]))


def split_masked(masked: MaskedBatch, order: Int64Array, size: int) -> tuple[MaskedBatch, MaskedBatch]:
    """The masked records of the first batch, which has ``size`` records, and those of the second."""
    places = np.argsort(order)
    return _select(masked, places[:size]), _select(masked, places[size:])


def join_rendered(first: Sequence[bytes], second: Sequence[bytes], order: Int64Array) -> list[bytes]:
    """The rendered records of both batches, interleaved."""
    rendered = [*first, *second]
    return [rendered[k] for k in order.tolist()]


def _join(first: Batch, second: Batch, order: Int64Array) -> Batch:
    columns = [_reorder(_concatenate(a, b), order) for a, b in zip(first.columns, second.columns, strict=True)]
    numeric = None
    if first.numeric is not None and second.numeric is not None:
        numeric = np.concatenate([first.numeric, second.numeric])[order]
    return Batch(len(order), tuple(columns), _join_alphas(first, second, order), numeric)


def _join_alphas(first: Batch, second: Batch, order: Int64Array) -> Float64Array | None:
    if first.alpha is None and second.alpha is None:
        return None
    alphas = [np.full(batch.size, np.nan) if batch.alpha is None else batch.alpha for batch in (first, second)]
    return np.concatenate(alphas)[order]


def _concatenate(first: Column, second: Column) -> Column:
    codes = np.concatenate([first.codes, second.codes])
    if first.offsets is None or second.offsets is None:
        return Column(codes)
    return Column(codes, np.concatenate([first.offsets, second.offsets[1:] + first.offsets[-1]]))


def _reorder(column: Column, order: Int64Array) -> Column:
    """The records ``order`` of a column, in that order."""
    if column.offsets is None:
        return Column(column.codes[order])
    lengths = np.diff(column.offsets)[order]
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    shifts = np.repeat(column.offsets[:-1][order] - offsets[:-1], lengths)
    return Column(column.codes[np.arange(offsets[-1]) + shifts], offsets)


def _select(masked: MaskedBatch, records: Int64Array) -> MaskedBatch:
    columns = tuple(_reorder(column, records) for column in masked.columns)
    numeric = None if masked.numeric is None else masked.numeric[records]
    return MaskedBatch(columns, (Distortion(),) * len(columns), numeric)
