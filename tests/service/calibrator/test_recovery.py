"""Where a calibrator that takes over resumes reading."""

from __future__ import annotations

from typing import Any

import pytest

from stream_masker.pipeline.wire.messages import BlockRange
from stream_masker.service.calibrator.recovery import resume_from


class FakeConsumer:
    def __init__(self, low: int, high: int) -> None:
        self.extent = low, high

    def get_watermark_offsets(self, *_: Any, **__: Any) -> tuple[int, int]:
        return self.extent


@pytest.mark.parametrize(
    ("low", "high", "start", "kept", "message"),
    [
        (0, 50, 10, True, ""),
        (15, 50, 15, True, "retention is too short"),
        (0, 21, 10, True, ""),
        (0, 20, -2, False, "as a new topic"),
    ],
)
def test_reading_resumes_at_the_first_block_of_the_window(
    low: int, high: int, start: int, kept: bool, message: str, caplog: pytest.LogCaptureFixture
) -> None:
    windowed = BlockRange(10, 20, 3)
    found = resume_from(FakeConsumer(low, high), "stream-masker.calibration", windowed)
    assert found == (start, windowed if kept else None)
    assert (message in caplog.text) if message else not caplog.records


def test_without_a_window_reading_starts_from_the_beginning() -> None:
    assert resume_from(FakeConsumer(3, 50), "stream-masker.calibration", None) == (-2, None)
