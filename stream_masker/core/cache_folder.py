"""The folder of compiled ontologies."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """Return ``$STREAM_MASKER_CACHE`` if set; otherwise ``stream-masker`` in ``$XDG_CACHE_HOME`` or ``~/.cache``."""
    configured = os.environ.get("STREAM_MASKER_CACHE")
    if configured:
        return Path(configured)
    return Path(os.environ.get("XDG_CACHE_HOME") or _home() / ".cache") / "stream-masker"


def _home() -> Path:
    """Return the home of the user; ``/`` for a user without one, such as an arbitrary one of OpenShift."""
    try:
        return Path.home()
    except RuntimeError:
        return Path("/")
