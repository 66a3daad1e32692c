"""Files of events and results: inputs recognised by their content, and outputs that appear complete or not at all.

``streams`` opens files, ``events`` recognises and reads their events, and ``tables`` has those of rows. ``masking``
masks them, and ``fields`` says what becomes of their fields.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:  # it imports numpy, which `stream-masker --help` does not need
    from stream_masker.pipeline.records import Rejected


class FileEvent(NamedTuple):
    """An event of a file: its number, from 1, and its bytes, without a line break at the end.

    problem: why it is rejected before anything else reads it, such as a row with too many cells; None if it is not.
    """

    number: int
    value: bytes
    problem: Rejected | None = None
