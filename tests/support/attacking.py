"""What repeated masking of a batch of two attributes shows: distances, correlation, and what an attacker guesses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from stream_masker.core.batch import Batch, Column
from stream_masker.core.mechanisms import WindowedMechanism
from stream_masker.core.random import PositionKeys
from stream_masker.core.statistics import compute_statistics, count_batch

CORRELATIONS = 3
"""The number of repetitions from which the correlation is computed."""


@dataclass(frozen=True)
class Attacked:
    """Figures of masked records.

    * ``rmse``: (2,) √E[sd²]. ``kept``: the share of sdCor that is left.
    * ``own``, ``given_record``: the share of values of the first attribute that are guessed right, from their own mask
      and from both masks of the record. Guesses are learned from one half of the repetitions and counted in the other,
      so both figures are, apart from sampling errors, lower bounds of the vulnerability.
    """

    rmse: np.ndarray
    kept: float
    own: float
    given_record: float


def attacked(made: WindowedMechanism[Any], batch: Batch, *, repeats: int, group: int) -> Attacked:
    """Mask a batch repeatedly, by mechanisms that need a group in random groups of ``group`` records."""
    masks = np.array([masked_once(made, batch, number, group) for number in range(repeats)])
    originals = [column.codes for column in batch.columns]
    pairs = zip(made.distances, originals, masks.swapaxes(0, 1), strict=True)
    squares = [np.mean([d.pairs(codes, m) ** 2 for m in new]) for d, codes, new in pairs]
    size = len(made.distances[0].taxonomy)
    truth = np.tile(originals[0], repeats).astype(np.int64)
    first, second = (masks[:, j].ravel().astype(np.int64) for j in range(2))
    left = np.mean([correlation(made, m) for m in masks[:CORRELATIONS]]) / correlation(made, originals)
    own, both = (right_guesses(seen, truth, size) for seen in (first, first * size + second))
    return Attacked(np.sqrt(squares), float(left), own, both)


def masked_once(made: WindowedMechanism[Any], batch: Batch, number: int, group: int) -> np.ndarray:
    """(2, n) int32: the masks of a batch under one secret."""
    order = np.random.default_rng(number).permutation(batch.size)
    secret = b"secret %d of many bytes" % number
    masked = np.empty((2, batch.size), np.int32)
    for rows in np.array_split(order, batch.size // group) if made.needs_group else [order]:
        part = Batch(rows.size, tuple(Column(column.codes[rows]) for column in batch.columns))
        result = made.mask_batch(part, PositionKeys(secret, "attack", 0, rows.astype(np.int64)))
        masked[:, rows] = [column.codes for column in result.columns]
    return masked


def correlation(made: WindowedMechanism[Any], codes: Any) -> float:
    """SdCor of two columns of codes."""
    batch = Batch(len(codes[0]), tuple(Column(np.ascontiguousarray(column)) for column in codes))
    counts = count_batch(batch, [len(d.taxonomy) for d in made.distances])
    return float(compute_statistics(counts, made.attributes, made.distances, version=1).correlation[0, 1])


def right_guesses(seen: np.ndarray, truth: np.ndarray, size: int) -> float:
    """The share of right guesses in the second half of the records; ``truth``: below ``size``."""
    half = truth.size // 2
    cells, counts = np.unique(seen[:half] * size + truth[:half], return_counts=True)
    order = np.lexsort((-counts, cells // size))
    known, places = np.unique(cells[order] // size, return_index=True)
    guesses = cells[order][places] % size
    found = np.minimum(np.searchsorted(known, seen[half:]), known.size - 1)
    return float(((known[found] == seen[half:]) & (guesses[found] == truth[half:])).mean())
