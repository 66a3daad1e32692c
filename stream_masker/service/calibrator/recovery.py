"""Recovery of the calibrator's state from the topics: published versions, and where their window's blocks begin."""

from __future__ import annotations

import logging
from collections.abc import Callable

from confluent_kafka import OFFSET_BEGINNING, Consumer, Message

from stream_masker.errors import StatisticsError
from stream_masker.pipeline.calibration.history import History
from stream_masker.pipeline.wire.chunks import Versions, chunk_position, count_chunks
from stream_masker.pipeline.wire.sealing import SealError
from stream_masker.pipeline.wire.statistics import BlockRange, decode_statistics
from stream_masker.service.calibrator.components import CalibratorComponents
from stream_masker.service.kafka.messages import MessageOpener
from stream_masker.service.kafka.topic_reader import OffsetRange, offset_range, read_to_end

log = logging.getLogger(__name__)


def read_history(consumer: Consumer, components: CalibratorComponents, stopped: Callable[[], bool]) -> History:
    """Read the history from the statistics topic. Raises like ``read_to_end``."""
    reader = HistoryReader(History(components.subject, components.settings.baseline), components.versions)
    for message in read_to_end(consumer, components.configuration.topics.statistics, stopped=stopped):
        reader.take(message)
    return reader.history


class HistoryReader:
    """Assembles versions from the messages of the statistics topic, in order, and adds them to ``history``.

    A message that is not authentic changes only the history's counts, because even its number cannot be trusted.
    """

    def __init__(self, history: History, opener: MessageOpener) -> None:
        self.history = history
        self._opener = opener
        self._versions = Versions()

    def take(self, message: Message) -> None:
        """Process the next message: buffer a chunk; add a version when its head, or its single message, arrives."""
        try:
            value = None if message.value() is None else self._opener.open(message.key(), message.value())
        except SealError as error:
            self.history.unauthentic[error.cause] += 1
        else:
            self._take(message, value)

    def _take(self, message: Message, value: bytes | None) -> None:
        version, number = chunk_position(message.key()) or (0, None)
        if number is not None:
            self._buffer_chunk(version, number, value)
            return
        self._versions.take(version, None, value)
        if value is None:
            self.history.forget({version})
        else:
            self._add_version(version, value, message)

    def _buffer_chunk(self, version: int, number: int, value: bytes | None) -> None:
        """Buffer a chunk. Chunks precede their head; a chunk of a version that is complete is ignored."""
        if version > self.history.newest:
            self._versions.take(version, number, value)

    def _add_version(self, version: int, head: bytes, message: Message) -> None:
        chunks = self._versions.pop(version)
        try:
            self.history.add(decode_statistics(chunks.message()), chunks=count_chunks(head))
        except StatisticsError as error:
            self.history.refuse(version, chunks=count_chunks(head))
            log.warning("refused the statistics at offset %d of %s: %s", message.offset(), message.topic(), error)


def resume_from(consumer: Consumer, topic: str, windowed: BlockRange | None) -> tuple[int, BlockRange | None]:
    """Return the offset to read the calibration topic from, and the published range if it belongs to this topic."""
    if windowed is None:
        return OFFSET_BEGINNING, None
    offsets = offset_range(consumer, topic)
    if windowed.last >= offsets.high:
        log.warning("%s ends before the last published block; reading it from the start, as a new topic", topic)
        return OFFSET_BEGINNING, None
    _log_lost_blocks(topic, windowed, offsets)
    return max(windowed.first, offsets.low), windowed


def _log_lost_blocks(topic: str, windowed: BlockRange, offsets: OffsetRange) -> None:
    if windowed.first < offsets.low:
        log.warning("%s no longer has the first blocks of the window; its retention is too short", topic)
