"""The memory limit of the process, as its control group sets it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

LIMIT_FILES: Final = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
"""The limits of version 2 and of version 1 of control groups, as a container sees them."""

UNLIMITED: Final = 1 << 60
"""Version 1 has a number beyond this one for no limit."""


def memory_limit(files: Iterable[Path] = LIMIT_FILES) -> int | None:
    """Return the limit in bytes; None if there is none, or if it cannot be read."""
    limits = [limit for file in files if (limit := _limit(file)) is not None]
    return min(limits, default=None)


def _limit(file: Path) -> int | None:
    try:
        limit = int(file.read_text())
    except (OSError, ValueError):
        return None
    return limit if limit < UNLIMITED else None
