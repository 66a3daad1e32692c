"""The job of every stream frame: decode an event, blank its principal diagnosis, encode it; or copy it."""

from __future__ import annotations

import json
import sys
from typing import NamedTuple

import orjson


class Stream(NamedTuple):
    """Where to read and write.

    ``batch``: records a transaction. ``copies``: events are copied as they are. ``headers``: those of each written
    record.
    """

    bootstrap: str
    source: str
    target: str
    batch: int
    copies: bool = False
    headers: dict[str, str] | None = None


def stream() -> Stream:
    return Stream(**json.loads(sys.argv[1]))


COPIES = stream().copies


def masked(value: bytes) -> bytes:
    if COPIES:
        return value
    event = orjson.loads(value)
    event["diagnoses"]["principal"]["code"] = "masked"
    return orjson.dumps(event)
