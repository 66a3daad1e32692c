"""Samples of the input topic: when they are complete."""

from __future__ import annotations

import numpy as np

from stream_masker.core.batch import Batch, Column
from stream_masker.core.statistics.counts import count_batch
from stream_masker.pipeline.calibration.window import CalibrationSettings
from stream_masker.pipeline.masker import SampleCounts
from stream_masker.pipeline.style import StyleCounts
from stream_masker.service.calibrator.bootstrap import InputSample


def some(records: int) -> SampleCounts:
    counts = count_batch(Batch(records, (Column(np.zeros(records, dtype=np.int32)),)), (2,))
    return SampleCounts(counts, {}, (StyleCounts(codes=records),))


def test_sample_is_complete_when_it_fills_the_window() -> None:
    sample = InputSample(CalibrationSettings(window_records=30, min_records=10, every_seconds=60))
    sample.add(some(20), now=0)
    assert (sample.remaining, sample.is_complete(59)) == (10, False)
    sample.add(some(10), now=1)
    assert sample.is_complete(1)
    assert (sample.counts().counts.records, sample.counts().styles) == (30, (StyleCounts(codes=30),))


def test_sample_is_complete_every_seconds_after_min_records() -> None:
    sample = InputSample(CalibrationSettings(window_records=30, min_records=10, every_seconds=60))
    sample.add(some(9), now=0)
    assert not sample.is_complete(1000)
    sample.add(some(1), now=1000)
    sample.add(some(1), now=1050)
    assert not sample.is_complete(1059.9)
    assert sample.is_complete(1060)
