"""The job of every stream frame: decode an event, blank its principal diagnosis, encode it."""

from __future__ import annotations

import json
import sys
from typing import NamedTuple

import orjson


class Stream(NamedTuple):
    """Where to read and write; ``batch``: records a transaction."""

    bootstrap: str
    source: str
    target: str
    batch: int


def stream() -> Stream:
    return Stream(**json.loads(sys.argv[1]))


def masked(value: bytes) -> bytes:
    event = orjson.loads(value)
    event["diagnoses"]["principal"]["code"] = "masked"
    return orjson.dumps(event)
