"""Reading of sealed messages: refusals are logged once per cause, without content."""

from __future__ import annotations

import logging

from stream_masker.pipeline.wire.sealing import RefusalCause, SealError, TopicSeal

log = logging.getLogger(__name__)


class MessageOpener:
    """Opens the messages of one topic. It logs the first refusal of each cause; callers count all of them."""

    def __init__(self, seal: TopicSeal) -> None:
        self._seal = seal
        self._logged: set[RefusalCause] = set()

    def open(self, key: bytes | None, sealed: bytes) -> bytes:
        """Return the message. Raises SealError if it is not authentic."""
        try:
            return self._seal.open(key, sealed)
        except SealError as error:
            self._log_once(error)
            raise

    def _log_once(self, error: SealError) -> None:
        if error.cause not in self._logged:
            self._logged.add(error.cause)
            log.error("refused a message on %s: %s; further ones are only counted", self._seal.topic, error)
