"""Recovery: where a calibrator resumes reading, and the history that it reads."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from calibration_session import SessionBench, in_chunks, published

from stream_masker.pipeline.calibration.history import History
from stream_masker.pipeline.wire.statistics import BlockRange, StatisticsMessage, encode_statistics
from stream_masker.service.calibrator.bootstrap import HistoryReader, resume_from


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


class FakeMessage:
    def __init__(self, key: bytes | None, value: bytes | None) -> None:
        self.contents = key, value

    def key(self) -> bytes | None:
        return self.contents[0]

    def value(self) -> bytes | None:
        return self.contents[1]

    def offset(self) -> int:
        return 17

    def topic(self) -> str:
        return "stream-masker.statistics"


def read_back(bench: SessionBench, *messages: tuple[bytes | None, bytes | None]) -> History:
    reader = HistoryReader(History(bench.components.subject), bench.components.versions)
    for key, value in messages:
        reader.take(FakeMessage(key, value))
    return reader.history


def test_history_is_read_back_from_versions(bench: SessionBench, caplog: pytest.LogCaptureFixture) -> None:
    message = published(bench)
    history = read_back(
        bench,
        (b"1", encode_statistics(message)),
        (b"2", encode_statistics(replace(message, version=2, mechanism="other"))),
        (b"3", b'{"format": 1, "mechanism": "SECRET"}'),
        (None, b"SECRET"),
    )
    assert (history.newest, history.latest, history.versions) == (3, message, {0, 1, 2, 3})
    assert history.refused == 3
    assert "offset 17" in caplog.text
    assert "SECRET" not in caplog.text


FAR = 1_000_000
"""The farthest a version may be above the newest one."""


def versions_from(message: StatisticsMessage, *numbers: int) -> list[tuple[bytes, bytes]]:
    made = [replace(message, version=number) for number in numbers]
    return [(m.key, encode_statistics(m)) for m in made]


def test_version_far_above_the_newest_is_refused_and_its_number_stays_free(bench: SessionBench) -> None:
    message = published(bench)
    history = read_back(bench, *versions_from(message, 1, 2, 3, 3 + FAR + 1, 4))
    assert (history.newest, history.versions, history.refused) == (4, {1, 2, 3, 4}, 1)
    assert history.expired(2) == (2,)
    history = read_back(bench, *versions_from(message, 1, 2, 3), (b"%d" % (9 * FAR), b"not a message"))
    assert (history.newest, history.versions, history.refused) == (3, {1, 2, 3}, 1)


def test_version_far_above_its_baseline_is_used_if_nothing_else_is_left(bench: SessionBench) -> None:
    history = read_back(bench, *versions_from(published(bench), 1, 5 * FAR))
    assert (history.newest, history.refused) == (5 * FAR, 0)


def test_deleted_version_is_forgotten(bench: SessionBench) -> None:
    history = read_back(bench, (b"1", encode_statistics(published(bench))), (b"1", None))
    assert history.versions == set()


def test_chunked_versions_are_read_back(bench: SessionBench) -> None:
    message = published(bench)
    chunks = in_chunks(message)
    history = read_back(bench, *chunks)
    assert (history.latest, history.chunks, history.refused) == (message, {1: len(chunks) - 1}, 0)
    removed = [piece.key for piece in history.removal([1])]
    assert sorted(removed) == sorted(key for key, _ in chunks)
    assert read_back(bench, *chunks, (b"1", None)).chunks == {}


def test_incomplete_version_is_refused_and_its_number_stays_used(
    bench: SessionBench, caplog: pytest.LogCaptureFixture
) -> None:
    first, *rest = in_chunks(published(bench))
    for chunks in (rest, [(first[0], b"x" * 512), *rest], [first, (first[0], None), *rest]):
        history = read_back(bench, *chunks)
        assert (history.latest, history.newest, history.refused, history.chunks) == (None, 1, 1, {1: len(rest)})
    assert "a chunk is missing, or is not the one that was written" in caplog.text


def test_chunks_without_a_head_are_ignored(bench: SessionBench) -> None:
    history = read_back(bench, *in_chunks(published(bench))[:-1])
    assert (history.newest, history.versions, history.refused) == (0, set(), 0)
