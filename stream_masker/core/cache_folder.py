"""The folder of everything that is computed once for a machine: compiled ontologies and kernels."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """``$STREAM_MASKER_CACHE`` if set; otherwise ``stream-masker`` in ``$XDG_CACHE_HOME`` or ``~/.cache``."""
    configured = os.environ.get("STREAM_MASKER_CACHE")
    if configured:
        return Path(configured)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "stream-masker"
