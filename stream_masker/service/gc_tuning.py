"""Python's search for reference cycles, made rare.

A search starts whenever so many objects were made and are still there, and looks at all of them. Messages set it off
again and again, a batch of them each time, though they are in no cycle: it took a tenth of a worker's time.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

COLLECTION_BATCHES: Final = 20
"""More than are ever on their way at once: what is left of so many may well be in cycles."""

MIN_ALLOCATIONS: Final = 100_000
"""Objects that are no reason for a search, however small the batches are."""


@contextmanager
def infrequent_collections(records: int) -> Iterator[None]:
    """Inside, for the whole process, a search waits for the objects of many batches of so many records."""
    usual = gc.get_threshold()
    gc.set_threshold(max(MIN_ALLOCATIONS, COLLECTION_BATCHES * records), *usual[1:])
    try:
        yield
    finally:
        gc.set_threshold(*usual)
