"""Files of HL7 v2 messages as events; masked messages are written as they stood in the file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any

from stream_masker.pipeline.hl7v2 import Hl7Format, hl7_path
from stream_masker.pipeline.paths import JsonValue, Path, compile_path
from stream_masker.pipeline.plan import Plan
from stream_masker.pipeline.reasons import RecordRejectedError
from stream_masker.service.events.files import FileEvent, GetKey, key_getter
from stream_masker.service.files.hl7 import hl7_messages, message_writer
from stream_masker.service.files.inputs import InputFile, read_errors
from stream_masker.service.files.lines import NumberedLine, WriteLine


class Hl7Messages:
    """The messages of files; ``is_framed``: whether they have the frames of MLLP. They have no columns."""

    kind = "hl7"

    def __init__(self, files: Sequence[InputFile]) -> None:
        self.columns: Mapping[str, Path] = {}
        self._files = files

    def probes(self) -> Sequence[JsonValue]:
        return []

    def lines(self) -> Iterator[NumberedLine]:
        """Yield the messages with their numbers. Raises ServiceError for a file that cannot be read to its end."""
        yield from enumerate(chain.from_iterable(map(_messages, self._files)), start=1)

    @contextmanager
    def writer(self, stream: Any, columns: Mapping[str, Any], plan: Plan) -> Iterator[WriteLine]:
        """Give a function that writes a masked message, in a frame if the messages of the input have frames."""
        yield message_writer(stream.write, framed=any(file.is_framed for file in self._files))


def _messages(file: InputFile) -> Iterator[bytes]:
    with read_errors(file.name):
        yield from hl7_messages(file.stream)


def hl7_events(file: InputFile, key: str | None) -> Iterator[FileEvent]:
    """Yield the messages of a file to publish. ``key``: the path of the message key, such as ``PID.3.1``."""
    get = key_getter(None if key is None else hl7_path(compile_path(key), first=True))
    return (FileEvent(message, _key(message, get)) for message in _messages(file))


def _key(message: bytes, get: GetKey) -> bytes | None:
    try:
        return get(Hl7Format().decode(message)[0])
    except RecordRejectedError:
        return None
