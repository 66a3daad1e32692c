"""What the topics say: the published versions, and the blocks from a version's window on."""

from __future__ import annotations

import logging
from collections.abc import Callable

from confluent_kafka import OFFSET_BEGINNING, Consumer, Message

from stream_masker.errors import StatisticsError
from stream_masker.pipeline.calibration import History
from stream_masker.pipeline.messages import BlockRange, decode_statistics
from stream_masker.service.calibrator_parts import Parts
from stream_masker.service.calibrator_topics import Extent, extent, read_to_end

log = logging.getLogger(__name__)


def read_history(consumer: Consumer, parts: Parts, stopped: Callable[[], bool]) -> History:
    """The history on the statistics topic. Raises like ``read_to_end``."""
    history = History(parts.subject, parts.settings.baseline)
    for message in read_to_end(consumer, parts.configuration.topics.statistics, stopped=stopped):
        take_version(history, message)
    return history


def take_version(history: History, message: Message) -> None:
    """Adds a message of the statistics topic to the history."""
    key, value = message.key() or b"", message.value()
    version = int(key) if key.isdigit() else 0
    if value is None:
        history.forget({version})
        return
    try:
        history.add(decode_statistics(value))
    except StatisticsError as error:
        history.refuse(version)
        log.warning("statistics at offset %d of %s refused: %s", message.offset(), message.topic(), error)


def resume_from(consumer: Consumer, topic: str, windowed: BlockRange | None) -> tuple[int, BlockRange | None]:
    """Where to read the calibration topic from, and the range that was published, if it is of this topic at all."""
    if windowed is None:
        return OFFSET_BEGINNING, None
    there = extent(consumer, topic)
    if windowed.last >= there.high:
        log.warning("%s ends before the last published block: it is a new topic, read from its start", topic)
        return OFFSET_BEGINNING, None
    _tell_lost(topic, windowed, there)
    return max(windowed.first, there.low), windowed


def _tell_lost(topic: str, windowed: BlockRange, there: Extent) -> None:
    if windowed.first < there.low:
        log.warning("%s no longer has the first blocks of the window: its retention is too short", topic)
