"""The secret from which noise and pseudonyms are derived. It never appears in a message."""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Mapping
from pathlib import Path

from stream_masker.errors import ConfigurationError
from stream_masker.service.configuration.model import Configuration

MIN_SECRET_BYTES = 16
"""The minimum length of a secret: 128 bits."""

log = logging.getLogger(__name__)


def read_secret(configuration: Configuration, environ: Mapping[str, str] = os.environ) -> bytes:
    """Read the secret from the configured file or environment variable, without a final line break.

    Logs a warning if every user can read the file. Raises ConfigurationError if there is no secret or it is shorter
    than ``MIN_SECRET_BYTES``.
    """
    source = configuration.secret
    if source is None:
        raise ConfigurationError("secret: required for masking: use a mapping with file or env")
    if source.file is not None:
        return _checked("secret.file", _from_file(configuration.resolve(source.file)))
    return _checked("secret.env", _from_environment(str(source.env), environ))


def _from_file(path: Path) -> bytes:
    try:
        raw = path.read_bytes()
        mode = path.stat().st_mode
    except OSError as error:
        raise ConfigurationError(f"secret.file: {path} cannot be read: {error.strerror}") from None
    if mode & stat.S_IROTH:
        log.warning("secret.file: every user can read %s; restrict its permissions (chmod o-r)", path)
    return raw


def _from_environment(name: str, environ: Mapping[str, str]) -> bytes:
    if name not in environ:
        raise ConfigurationError(f"secret.env: the environment variable {name} is not set")
    return os.fsencode(environ[name])


def _checked(key: str, raw: bytes) -> bytes:
    secret = raw.removesuffix(b"\n").removesuffix(b"\r")
    if len(secret) < MIN_SECRET_BYTES:
        raise ConfigurationError(f"{key}: the secret has {len(secret)} bytes: use at least {MIN_SECRET_BYTES}")
    return secret
