"""The secrets from which noise, pseudonyms and the keys of the internal topics derive. They appear in no message."""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from stream_masker.errors import ConfigurationError
from stream_masker.pipeline.wire.sealing import TopicSeal
from stream_masker.service.configuration.model import Configuration, SecretSource

MIN_SECRET_BYTES = 16
"""The minimum length of a secret: 128 bits."""

log = logging.getLogger(__name__)


def read_secret(configuration: Configuration, environ: Mapping[str, str] = os.environ) -> bytes:
    """Read the secret from the configured file or environment variable, without a final line break.

    Logs a warning if every user can read the file. Raises ConfigurationError if there is no secret or it is shorter
    than ``MIN_SECRET_BYTES``.
    """
    if configuration.secret is None:
        raise ConfigurationError("secret: required for masking: use a mapping with file or env")
    return _read(configuration, configuration.secret, "secret", environ)


def read_encryption_secret(configuration: Configuration, environ: Mapping[str, str] = os.environ) -> bytes:
    """Read the secret of encrypted fields.

    Raises ConfigurationError if there is none, it is too short, or it is the secret of noise and pseudonyms: people who
    may reveal fields would then know the noise too.
    """
    if configuration.encryption_secret is None:
        raise ConfigurationError("encryption_secret: required for encrypted fields: use a mapping with file or env")
    found = _read(configuration, configuration.encryption_secret, "encryption_secret", environ)
    if configuration.secret is not None and found == read_secret(configuration, environ):
        raise ConfigurationError("encryption_secret: is the same as secret: use another one")
    return found


def read_topic_secrets(configuration: Configuration, environ: Mapping[str, str] = os.environ) -> list[bytes]:
    """Read the secrets of the internal topics, the current one first; none if the topics are not encrypted.

    Raises ConfigurationError like ``read_secret``.
    """
    section = configuration.internal_topics
    if not section.encryption:
        return []
    own = section.secret
    source, key = (configuration.secret, "secret") if own is None else (own, "internal_topics.secret")
    if source is None:
        raise ConfigurationError(
            "internal_topics: encryption needs a secret: use secret or internal_topics.secret, with file or env"
        )
    previous = enumerate(section.previous_secrets)
    return [
        _read(configuration, source, key, environ),
        *(_read(configuration, other, f"internal_topics.previous_secrets[{i}]", environ) for i, other in previous),
    ]


def topic_seal(configuration: Configuration, topic: str, environ: Mapping[str, str] = os.environ) -> TopicSeal:
    """Return the seal of an internal topic. Raises ConfigurationError like ``read_topic_secrets``."""
    secrets = read_topic_secrets(configuration, environ)
    return TopicSeal(topic, secrets, accept_plain=configuration.internal_topics.accept_plaintext)


def warn_about_plain_topics(configuration: Configuration) -> None:
    """Log a warning if the internal topics are not encrypted, or accept messages that are not."""
    section = configuration.internal_topics
    if not section.encryption:
        log.warning("internal_topics.encryption is off: the topics disclose counts of original values, and are open")
    elif section.accept_plaintext:
        log.warning("internal_topics.accept_plaintext is on: remove it once the old messages have been read")


def _read(configuration: Configuration, source: SecretSource, key: str, environ: Mapping[str, str]) -> bytes:
    if source.file is not None:
        return _checked(f"{key}.file", _from_file(f"{key}.file", configuration.resolve(source.file)))
    return _checked(f"{key}.env", _from_environment(f"{key}.env", str(source.env), environ))


def _from_file(key: str, path: Path) -> bytes:
    try:
        raw = path.read_bytes()
        mode = path.stat().st_mode
    except OSError as error:
        raise ConfigurationError(f"{key}: {path} cannot be read: {error.strerror}") from None
    if mode & stat.S_IROTH:
        _warn_once(key, path)
    return raw


@cache
def _warn_once(key: str, path: Path) -> None:
    """Log that every user can read a file, once for each, although several parts of a process read it."""
    log.warning("%s: every user can read %s; restrict its permissions (chmod o-r)", key, path)


def _from_environment(key: str, name: str, environ: Mapping[str, str]) -> bytes:
    if name not in environ:
        raise ConfigurationError(f"{key}: the environment variable {name} is not set")
    return os.fsencode(environ[name])


def _checked(key: str, raw: bytes) -> bytes:
    secret = raw.removesuffix(b"\n").removesuffix(b"\r")
    if len(secret) < MIN_SECRET_BYTES:
        raise ConfigurationError(f"{key}: the secret has {len(secret)} bytes: use at least {MIN_SECRET_BYTES}")
    return secret
