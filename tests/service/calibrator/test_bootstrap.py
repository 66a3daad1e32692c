"""Samples of the input topic: when they are complete."""

from __future__ import annotations

import numpy as np

from stream_masker.core.batch import Batch, Column
from stream_masker.core.statistics.counts import count_batch
from stream_masker.pipeline.calibration.counting import SampleCounts
from stream_masker.pipeline.calibration.window import CalibrationSettings
from stream_masker.pipeline.style import StyleCounts
from stream_masker.service.calibrator.bootstrap import SAMPLE_SECONDS, InputSample


def some(records: int) -> SampleCounts:
    counts = count_batch(Batch(records, (Column(np.zeros(records, dtype=np.int32)),)), (2,))
    return SampleCounts(counts, {}, (StyleCounts(codes=records),))


def test_sample_is_complete_when_it_fills_the_window() -> None:
    sample = InputSample(CalibrationSettings(window_records=30, min_records=10, every_seconds=60))
    sample.add(some(20), now=0)
    assert (sample.remaining, sample.is_complete(0, at_end=False)) == (10, False)
    sample.add(some(10), now=1)
    assert sample.is_complete(1, at_end=False)
    assert (sample.counts().counts.records, sample.counts().styles) == (30, (StyleCounts(codes=30),))


def test_sample_of_min_records_is_complete_at_the_end_of_the_topic_or_soon() -> None:
    sample = InputSample(CalibrationSettings(window_records=30, min_records=10, every_seconds=60))
    sample.add(some(9), now=0)
    assert not sample.is_complete(1000, at_end=True)
    sample.add(some(1), now=1000)
    assert sample.is_complete(1000, at_end=True)
    sample.add(some(1), now=1001)
    assert not sample.is_complete(1000 + SAMPLE_SECONDS - 0.1, at_end=False)
    assert sample.is_complete(1000 + SAMPLE_SECONDS, at_end=False)
