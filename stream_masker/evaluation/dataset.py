"""Helpers of the tables: masking a data set with its own statistics, and Markdown output."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from stream_masker.core.batch import Batch, MaskedBatch
from stream_masker.core.mechanisms.windowed import WindowedMechanism
from stream_masker.core.random.keys import PositionKeys
from stream_masker.core.statistics import count_batch

DATASET_NAME = "evaluation"
"""Replaces the topic in the keys of records."""


def keys_of(secret: bytes, start: int, size: int) -> PositionKeys:
    """The keys of ``size`` records of the data set, from record ``start`` on."""
    return PositionKeys(secret, DATASET_NAME, 0, np.arange(start, start + size, dtype=np.int64))


def mask_whole(mechanism: WindowedMechanism[Any], batch: Batch, secret: bytes) -> MaskedBatch:
    """Mask a data set as one batch, with its own statistics. Raises like ``compute`` and ``mask_batch``."""
    counts = count_batch(batch, [len(d.taxonomy) for d in mechanism.distances])
    mechanism.restore(mechanism.snapshot_of(mechanism.compute(counts, version=1)))
    return mechanism.mask_batch(batch, keys_of(secret, 0, batch.size))


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table with a header row."""
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [header, ["---"] * len(header), *rows])
