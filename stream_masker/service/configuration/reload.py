"""Configuration reload: watches the file while the service runs and applies the changes that need no restart."""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Mapping
from pathlib import Path

from stream_masker.errors import ConfigurationError
from stream_masker.service.configuration import Configuration, load_configuration
from stream_masker.service.configuration.mutable_settings import (
    changes_needing_restart,
    check_not_looser,
    mutable_settings,
    with_settings,
)

log = logging.getLogger(__name__)


class ConfigurationFile:
    """A watched configuration file.

    An invalid change is refused as a whole, and the previous configuration stays. ``current``: the configuration in
    force. ``refused``: the reason why the file's present content was refused, or None. ``refusals``: the number of
    refused changes.
    """

    def __init__(self, path: Path, environ: Mapping[str, str] = os.environ) -> None:
        """Load the file. Raises ConfigurationError like ``load_configuration``."""
        self._path = path
        self._environ = environ
        self._loaded_digest = self._digest()
        self.current = self._initial = load_configuration(path, environ)
        self.refused: str | None = None
        self.refusals = 0

    def reload_if_changed(self, *, force: bool = False) -> bool:
        """Apply the file's settings if its content changed, or in any case with ``force``.

        Return whether ``current`` changed.
        """
        digest = self._digest()
        if digest == self._loaded_digest and not force:
            return False
        self._loaded_digest = digest
        return self._apply()

    def _apply(self) -> bool:
        try:
            loaded = self._load_settings()
        except ConfigurationError as error:
            self._refuse(error)
            return False
        self.refused = None
        changed = loaded.hash != self.current.hash
        self.current = loaded
        return changed

    def _refuse(self, error: ConfigurationError) -> None:
        self.refused = str(error)
        self.refusals += 1
        log.error("refused the changed configuration; the previous one stays in force: %s", error)

    def _load_settings(self) -> Configuration:
        """Return the current configuration with the file's settings. Raises ConfigurationError.

        Workers refuse settings that are looser than their own files, so those need a restart, of the workers first.
        """
        configuration = load_configuration(self._path, self._environ)
        if keys := changes_needing_restart(self.current, configuration):
            raise ConfigurationError(f"{', '.join(keys)}: a change here needs a restart")
        check_not_looser(self._initial, configuration)
        return with_settings(self.current, mutable_settings(configuration))

    def _digest(self) -> bytes | None:
        """Return the digest of the file's content; None while it cannot be read, for example during replacement."""
        try:
            return hashlib.sha256(self._path.read_bytes()).digest()
        except OSError:
            return None
