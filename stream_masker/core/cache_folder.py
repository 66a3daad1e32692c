"""The folders of everything that is computed once: compiled ontologies and kernels."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

SHIPPED: Final = Path(__file__).parents[1] / "compiled"
"""What was compiled when the package was installed, for what the cache folder does not contain; a checkout has none."""


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
