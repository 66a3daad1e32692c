"""Decoded batches of disjoint parts of the same records, interleaved into one batch and split again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.batch import Batch, Column, Distortion, MaskedBatch
from stream_masker.core.dtypes import Float64Array, Int64Array
from stream_masker.pipeline.codec.decoded import DecodedBatch, TemplatesT


def interleave(first: DecodedBatch[Any], second: DecodedBatch[Any], templates: TemplatesT) -> DecodedBatch[TemplatesT]:
    """Return the records of both batches in the order of their indices. The second decides what the first leaves
    undecided.

    The second batch is expected to be small: its records are inserted into the first.
    """
    places = insertion_places(first, second)
    return DecodedBatch(
        indices=np.insert(first.indices, places, second.indices),
        batch=_join(first.batch, second.batch, places),
        keys=spliced(first.keys, second.keys, places) if len(first.keys) or len(second.keys) else [],
        rejected={**first.rejected, **second.rejected},
        undecided=second.undecided,
        unknown=[a + b for a, b in zip(first.unknown, second.unknown, strict=True)],
        lost=[a + b for a, b in zip(first.lost, second.lost, strict=True)],
        styles=[a + b for a, b in zip(first.styles, second.styles, strict=True)],
        templates=templates,
        emptied=second.emptied,
    )


def insertion_places(first: DecodedBatch[Any], second: DecodedBatch[Any]) -> Int64Array:
    """Return (m,) int64, ascending: for each record of the second batch, how many of the first are before it."""
    return np.searchsorted(first.indices, second.indices)


def split_masked(masked: MaskedBatch, places: Int64Array, size: int) -> tuple[MaskedBatch, MaskedBatch]:
    """Return the masked records of the first batch, which has ``size`` records, and those of the second."""
    inserted = np.zeros(size + len(places), np.bool_)
    inserted[places + np.arange(len(places))] = True
    return _select(masked, ~inserted), _select(masked, inserted)


def spliced(first: Sequence[bytes], second: Sequence[bytes], places: Int64Array) -> list[bytes]:
    """Interleave the items of both batches."""
    items: list[bytes] = []
    start = 0
    for item, place in zip(second, places.tolist(), strict=True):
        items += first[start:place]
        items.append(item)
        start = place
    items += first[start:]
    return items


def _join(first: Batch, second: Batch, places: Int64Array) -> Batch:
    columns = [_insert(a, b, places) for a, b in zip(first.columns, second.columns, strict=True)]
    numeric = None
    if first.numeric is not None and second.numeric is not None:
        numeric = np.insert(first.numeric, places, second.numeric, axis=0)
    return Batch(first.size + second.size, tuple(columns), _join_alphas(first, second, places), numeric)


def _join_alphas(first: Batch, second: Batch, places: Int64Array) -> Float64Array | None:
    if first.alpha is None and second.alpha is None:
        return None
    own, other = (np.full(b.size, np.nan) if b.alpha is None else b.alpha for b in (first, second))
    return np.insert(own, places, other)


def _insert(first: Column, second: Column, places: Int64Array) -> Column:
    if first.offsets is None or second.offsets is None:
        return Column(np.insert(first.codes, places, second.codes))
    lengths = np.diff(second.offsets)
    codes = np.insert(first.codes, np.repeat(first.offsets[places], lengths), second.codes)
    return Column(codes, _offsets_of(np.insert(np.diff(first.offsets), places, lengths)))


def _select(masked: MaskedBatch, chosen: NDArray[np.bool_]) -> MaskedBatch:
    columns = tuple(_chosen(column, chosen) for column in masked.columns)
    numeric = None if masked.numeric is None else masked.numeric[chosen]
    return MaskedBatch(columns, (Distortion(),) * len(columns), numeric)


def _chosen(column: Column, chosen: NDArray[np.bool_]) -> Column:
    if column.offsets is None:
        return Column(column.codes[chosen])
    lengths = np.diff(column.offsets)
    return Column(column.codes[np.repeat(chosen, lengths)], _offsets_of(lengths[chosen]))


def _offsets_of(lengths: Int64Array) -> Int64Array:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
