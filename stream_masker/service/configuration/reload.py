"""A configuration file that may change while the service runs: what of it can be taken up, and what is refused."""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Mapping
from pathlib import Path

from stream_masker.errors import ConfigurationError
from stream_masker.service.configuration import Configuration, load_configuration
from stream_masker.service.configuration.settings import changed_beyond, settings_of, with_settings

log = logging.getLogger(__name__)


class ConfigurationFile:
    """Follows a configuration file. A bad one is refused as a whole, once; the one before it stays.

    ``current``: what holds. ``refused``: why the file as it stands was refused; None when it was not. ``refusals``: how
    often that happened.
    """

    def __init__(self, path: Path, environ: Mapping[str, str] = os.environ) -> None:
        """Raises ConfigurationError like ``load_configuration``."""
        self._path = path
        self._environ = environ
        self._seen = self._digest()
        self.current = load_configuration(path, environ)
        self.refused: str | None = None
        self.refusals = 0

    def look(self, *, again: bool = False) -> bool:
        """Whether the file has changed (or is to be read ``again``) and brought other settings, now in ``current``."""
        digest = self._digest()
        if digest == self._seen and not again:
            return False
        self._seen = digest
        return self._take_up()

    def _take_up(self) -> bool:
        try:
            wanted = self._wanted()
        except ConfigurationError as error:
            self._refuse(error)
            return False
        self.refused = None
        changed = wanted.hash != self.current.hash
        self.current = wanted
        return changed

    def _refuse(self, error: ConfigurationError) -> None:
        self.refused = str(error)
        self.refusals += 1
        log.error("the changed configuration is refused, the one before it stays: %s", error)

    def _wanted(self) -> Configuration:
        """The present configuration with the file's settings. Raises ConfigurationError."""
        found = load_configuration(self._path, self._environ)
        if beyond := changed_beyond(self.current, found):
            raise ConfigurationError(f"{', '.join(beyond)}: what has changed there needs a restart")
        return with_settings(self.current, settings_of(found))

    def _digest(self) -> bytes | None:
        """Of the file's content; None while it cannot be read, as when it is being replaced."""
        try:
            return hashlib.sha256(self._path.read_bytes()).digest()
        except OSError:
            return None
