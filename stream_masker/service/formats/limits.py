"""What bounds the work for one record: time, and the number of items where a few bytes of Avro may claim any."""

from __future__ import annotations

import io
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from stream_masker.errors import StreamMaskerError
from stream_masker.pipeline.reasons import Reason, RecordRejectedError

RECORD_SECONDS: Final = 2.0
"""The processor time of the process in which a record must be decoded, or validated and encoded."""

_AGAIN_SECONDS: Final = 0.1

FREE_ITEMS: Final = 10_000
"""The items that a record may have beyond its number of bytes."""


class TimeLimitError(StreamMaskerError):
    """A record took longer than ``RECORD_SECONDS``."""


@contextmanager
def time_limit(seconds: float = RECORD_SECONDS) -> Iterator[None]:
    """Raise TimeLimitError in the block once it takes this processor time.

    A schema may validate a record in a time that grows exponentially with its depth, and a pattern may backtrack for
    hours; both heed signals. Only the main thread, which masks, has a limit.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(*_: object) -> None:
        raise TimeLimitError("a record takes too long")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds, _AGAIN_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def is_unbounded(schema: Any, named: Mapping[str, Any]) -> bool:
    """Return whether a few bytes of an Avro schema may claim any number of items or levels.

    Such a schema has an array of items that take no bytes, or a record that contains itself. schema, named: parsed by
    ``fastavro.parse_schema``.
    """
    return _is_unbounded(schema, named, frozenset(), set())


def _is_unbounded(schema: Any, named: Mapping[str, Any], above: frozenset[str], visited: set[str]) -> bool:
    part = named.get(schema, schema) if isinstance(schema, str) else schema
    if isinstance(part, str):
        return False
    if isinstance(part, dict) and part["type"] in ("record", "error"):
        name = part["name"]
        if name in above or name in visited:
            return name in above
        visited.add(name)
        above |= {name}
    if isinstance(part, dict) and part["type"] == "array" and _takes_no_bytes(part["items"], named):
        return True
    return any(_is_unbounded(inner, named, above, visited) for inner in _contained(part))


def _contained(part: Any) -> list[Any]:
    """Return the types that a type consists of."""
    if isinstance(part, list):
        return part
    if "fields" in part:
        return [field["type"] for field in part["fields"]]
    inner = part.get("items", part.get("values", part["type"]))
    return [] if part["type"] in ("enum", "fixed") else [inner]


def _takes_no_bytes(schema: Any, named: Mapping[str, Any], above: frozenset[str] = frozenset()) -> bool:
    part = named.get(schema, schema) if isinstance(schema, str) else schema
    kind = part["type"] if isinstance(part, dict) else part
    if kind in ("record", "error"):
        inner = above | {part["name"]}
        fields = part["fields"]
        return part["name"] in above or all(_takes_no_bytes(field["type"], named, inner) for field in fields)
    return kind == "null" or (kind == "fixed" and int(part["size"]) == 0)


def bounded_datum(data: bytes, schema: Any, named: Mapping[str, Any]) -> Any:
    """Read an Avro value of an unbounded schema. Raises RecordRejectedError for too many items, and RecursionError.

    A value has at most as many items as it has bytes, and ``FREE_ITEMS`` more. fastavro's compiled reader has no such
    bound, and its recursion overflows the stack of the process.
    """
    from fastavro._read_py import read_data
    from fastavro.io.binary_decoder import BinaryDecoder

    class BoundedDecoder(BinaryDecoder):  # type: ignore[misc]
        """A decoder that counts the items of all arrays and maps."""

        left = FREE_ITEMS + len(data)

        def iter_array(self) -> Iterator[None]:
            for _ in self._iter_array_or_map():
                self.left -= 1
                if self.left < 0:
                    raise RecordRejectedError(Reason.TOO_LARGE)
                yield

        iter_map = iter_array

    return read_data(BoundedDecoder(io.BytesIO(data)), schema, {"writer": named, "reader": {}}, None, {})
