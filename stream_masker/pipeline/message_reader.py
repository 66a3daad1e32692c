"""Reading of JSON messages, field by field. An error names the field and what is allowed, never the field's value."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NoReturn

import numpy as np
import orjson

from stream_masker.core.dtypes import Int64Array
from stream_masker.errors import StatisticsError

MESSAGE_FORMAT: Final = 1
"""The format of all JSON messages of stream-masker. Readers refuse any other."""

MAX_COUNT: Final = 1 << 40
"""The greatest number in a block. The sum over a window of millions of blocks fits into 64 bits."""


@dataclass(frozen=True, slots=True)
class MessageReader:
    """One JSON object of a message. where: its name in errors, such as ``block: original.``."""

    data: Mapping[str, Any]
    where: str

    @classmethod
    def of(cls, raw: bytes | str, what: str) -> MessageReader:
        """Parse a message. Raises StatisticsError unless it is a JSON object of this format."""
        try:
            data = orjson.loads(raw)
        except orjson.JSONDecodeError:
            raise StatisticsError(f"{what}: not JSON") from None
        reader = cls({"": data}, f"{what}").child("")
        if reader.data.get("format") != MESSAGE_FORMAT:
            reader.fail("format", f"{MESSAGE_FORMAT}")
        return reader

    def fail(self, key: str, allowed: str) -> NoReturn:
        """Raise StatisticsError for a field that is missing or invalid."""
        raise StatisticsError(f"{self.where}{key} is missing or not {allowed}")

    def integer(self, key: str, *, least: int = 0, most: int = 2**63 - 1) -> int:
        """Return an integer from ``least`` to ``most``."""
        value = self.data.get(key)
        if type(value) is not int or not least <= value <= most:
            self.fail(key, f"an integer from {least} to {most}")
        return value

    def number(self, key: str) -> float:
        """Return a finite number of at least 0."""
        value = self.data.get(key)
        if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value) or value < 0:
            self.fail(key, "a number of at least 0")
        return float(value)

    def text(self, key: str) -> str:
        """Return a string."""
        value = self.data.get(key)
        if not isinstance(value, str):
            self.fail(key, "a string")
        return value

    def choice(self, key: str, allowed: Sequence[str]) -> str:
        """Return one of the allowed strings."""
        if (value := self.text(key)) not in allowed:
            self.fail(key, " | ".join(allowed))
        return value

    def optional_text(self, key: str) -> str | None:
        """Return a string; None if it is missing."""
        return None if self.data.get(key) is None else self.text(key)

    def child(self, key: str) -> MessageReader:
        """Return an object."""
        value, where = self.data.get(key), f"{self.where}{key}"
        if not isinstance(value, dict):
            raise StatisticsError(f"{where} is missing or not an object")
        return MessageReader(value, f"{where}." if key else f"{where}: ")

    def optional(self, key: str) -> MessageReader | None:
        """Return an object; None if the field is null or missing."""
        return None if self.data.get(key) is None else self.child(key)

    def integers(self, key: str, *, least: int = 0, most: int = MAX_COUNT) -> Int64Array:
        """Return a list of integers from ``least`` to ``most``: (n,) int64."""
        value = self.data.get(key)
        if not isinstance(value, list) or set(map(type, value)) - {int}:
            self.fail(key, "a list of integers")
        if value and not least <= min(value) <= max(value) <= most:
            self.fail(key, f"a list of integers from {least} to {most}")
        return np.array(value, np.int64)

    def by_name(self, key: str) -> dict[str, int]:
        """Return an object of integers of at least 0."""
        group = self.child(key)
        return {name: group.integer(name, most=MAX_COUNT) for name in group.data}

    def texts_by_name(self, key: str) -> dict[str, str]:
        """Return an object of strings."""
        group = self.child(key)
        return {name: group.text(name) for name in group.data}
