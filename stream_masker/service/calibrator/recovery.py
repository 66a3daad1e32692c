"""What the topics say: the published versions, and the blocks from a version's window on."""

from __future__ import annotations

import logging
from collections.abc import Callable

from confluent_kafka import OFFSET_BEGINNING, Consumer, Message

from stream_masker.errors import StatisticsError
from stream_masker.pipeline.calibration.versions import History
from stream_masker.pipeline.wire.chunks import Versions, chunk_position, count_chunks
from stream_masker.pipeline.wire.messages import BlockRange, decode_statistics
from stream_masker.service.calibrator.components import CalibratorComponents
from stream_masker.service.kafka.topic_reader import OffsetRange, extent, read_to_end

log = logging.getLogger(__name__)


def read_history(consumer: Consumer, parts: CalibratorComponents, stopped: Callable[[], bool]) -> History:
    """The history on the statistics topic. Raises like ``read_to_end``."""
    recovery = HistoryReader(History(parts.subject, parts.settings.baseline))
    for message in read_to_end(consumer, parts.configuration.topics.statistics, stopped=stopped):
        recovery.take(message)
    return recovery.history


class HistoryReader:
    """Puts versions together out of the statistics topic's messages, in their order, and adds them to ``history``."""

    def __init__(self, history: History) -> None:
        self.history = history
        self._versions = Versions()

    def take(self, message: Message) -> None:
        """Takes the next message: a part waits for its head, and a head, or a whole message, is added."""
        version, number = chunk_position(message.key()) or (0, None)
        value = message.value()
        if number is not None:
            self._take_part(version, number, value)
            return
        self._versions.take(version, None, value)
        if value is None:
            self.history.forget({version})
        else:
            self._add(version, value, message)

    def _take_part(self, version: int, number: int, value: bytes | None) -> None:
        """Parts are written before their head: one that comes after it is of no use."""
        if version > self.history.newest:
            self._versions.take(version, number, value)

    def _add(self, version: int, head: bytes, message: Message) -> None:
        pieces = self._versions.pop(version)
        try:
            self.history.add(decode_statistics(pieces.message()), chunks=count_chunks(head))
        except StatisticsError as error:
            self.history.refuse(version, chunks=count_chunks(head))
            log.warning("statistics at offset %d of %s refused: %s", message.offset(), message.topic(), error)


def resume_from(consumer: Consumer, topic: str, windowed: BlockRange | None) -> tuple[int, BlockRange | None]:
    """Where to read the calibration topic from, and the range that was published, if it is of this topic at all."""
    if windowed is None:
        return OFFSET_BEGINNING, None
    there = extent(consumer, topic)
    if windowed.last >= there.high:
        log.warning("%s ends before the last published block: it is a new topic, read from its start", topic)
        return OFFSET_BEGINNING, None
    _log_lost_blocks(topic, windowed, there)
    return max(windowed.first, there.low), windowed


def _log_lost_blocks(topic: str, windowed: BlockRange, there: OffsetRange) -> None:
    if windowed.first < there.low:
        log.warning("%s no longer has the first blocks of the window: its retention is too short", topic)
