"""The share of rejected records among the latest ones, and its most frequent causes."""

from __future__ import annotations

from collections import Counter, deque

from stream_masker.pipeline.reasons import RejectionCause, causes_text
from stream_masker.service.worker.batch import TransactionCounts

LATEST_RECORDS = 10_000
"""The share is that of the latest transactions which together have at least this many records."""

LEAST_RECORDS = 100
"""The share of fewer records than this is not reported."""

MOST_CAUSES = 3


class RejectionShare:
    """Counts the records of the latest transactions; ``limit``: the share of rejected ones that is still acceptable."""

    def __init__(self, limit: float) -> None:
        self._limit = limit
        self._latest: deque[tuple[int, Counter[RejectionCause]]] = deque()
        self._records = 0
        self._causes: Counter[RejectionCause] = Counter()

    def add(self, written: TransactionCounts) -> None:
        """Count a committed transaction, and forget old ones."""
        self._latest.append((written.records, written.causes.copy()))
        self._records += written.records
        self._causes.update(written.causes)
        while self._records - self._latest[0][0] >= LATEST_RECORDS:
            records, causes = self._latest.popleft()
            self._records -= records
            self._causes.subtract(causes)
            self._causes = +self._causes

    @property
    def share(self) -> float:
        """The share of rejected records; 0 below ``LEAST_RECORDS``."""
        return self._causes.total() / self._records if self._records >= LEAST_RECORDS else 0.0

    @property
    def above_limit(self) -> bool:
        """Whether more records are rejected than the limit allows."""
        return self.share > self._limit

    @property
    def reason(self) -> str | None:
        """Why the worker is not ready, with causes and paths; None if the share is acceptable."""
        if not self.above_limit:
            return None
        causes = causes_text(self._causes, MOST_CAUSES)
        return (
            f"{self._causes.total():,} of the last {self._records:,} records were rejected: {causes}. Check these "
            f"paths in the configuration, or raise limits.rejected_share ({self._limit:g})"
        )
