"""Less frequent garbage collection of reference cycles.

Python's cyclic garbage collector runs whenever a number of new objects have survived, and visits all of them. The
messages of a batch triggered it constantly although they form no cycles; it took a tenth of a worker's time.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

COLLECTION_BATCHES: Final = 20
"""The number of batches whose objects may accumulate before a collection; greater than the number in flight."""

MIN_ALLOCATIONS: Final = 100_000
"""The minimum allocation threshold, for small batches."""


@contextmanager
def infrequent_collections(records: int) -> Iterator[None]:
    """Raise the process-wide allocation threshold inside the block, according to the number of records in a batch."""
    usual = gc.get_threshold()
    gc.set_threshold(max(MIN_ALLOCATIONS, COLLECTION_BATCHES * records), *usual[1:])
    try:
        yield
    finally:
        gc.set_threshold(*usual)
