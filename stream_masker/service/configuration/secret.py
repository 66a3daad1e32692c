"""The secret from which noise, pseudonyms and the keys of the internal topics derive. It appears in no message.

A variable with a secret is removed from the environment once it has been read, because child processes inherit it.
"""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path

from stream_masker.core.validation import MIN_SEED_BYTES, checked_seed
from stream_masker.errors import ConfigurationError
from stream_masker.pipeline.messages import TopicSeal, key_id
from stream_masker.service.configuration.model import Configuration
from stream_masker.service.configuration.service import SecretSource

_taken: dict[str, bytes] = {}
"""The variables that have been removed from the environment, with their values."""


def read_secret(configuration: Configuration) -> bytes:
    """Read the secret from the configured file or environment variable, without a final line break.

    The variable is removed from the environment of the process. Raises ConfigurationError if there is no secret, if it
    is shorter than ``MIN_SEED_BYTES``, or if other users have access to the file.
    """
    if configuration.secret is None:
        raise ConfigurationError("secret: required for masking: use a mapping with file or env")
    return read_source(configuration, configuration.secret, "secret")


def masking_secret(configuration: Configuration, topic: str) -> bytes:
    """Return the secret from which noise and pseudonyms derive: one for each input topic.

    Producers of another topic learn nothing by sending records of their own. Raises ConfigurationError like
    ``read_secret``.
    """
    secret, name = checked_seed(read_secret(configuration)), topic.encode()
    return hashlib.blake2b(name, digest_size=32, key=secret, person=b"masker-linkage").digest()


def secret_id(secret: bytes) -> str:
    """Return the id of a secret, 16 hexadecimal digits, by which processes find out that theirs differ.

    It stands in the clear on the internal topics, and confirms a guess of the secret.
    """
    return key_id(secret).hex()


def topic_seal(configuration: Configuration, topic: str) -> TopicSeal:
    """Return the seal of an internal topic, with the current secret and those that are accepted for reading.

    Raises ConfigurationError like ``read_secret``.
    """
    previous = [
        read_source(configuration, source, f"previous_secrets[{i}]")
        for i, source in enumerate(configuration.previous_secrets)
    ]
    return TopicSeal(topic, [read_secret(configuration), *previous])


def read_source(configuration: Configuration, source: SecretSource, key: str) -> bytes:
    """Return a secret without a final line break; ``key``: where it is configured.

    Raises ConfigurationError like ``read_secret``.
    """
    if source.file is not None:
        key, raw = f"{key}.file", _from_file(f"{key}.file", configuration.resolve(source.file))
    elif (value := _take_variable(str(source.env))) is not None:
        key, raw = f"{key}.env", value
    else:
        raise ConfigurationError(f"{key}.env: the environment variable {source.env} is not set")
    secret = raw.removesuffix(b"\n").removesuffix(b"\r")
    if len(secret) < MIN_SEED_BYTES:
        raise ConfigurationError(f"{key}: the secret has {len(secret)} bytes: use at least {MIN_SEED_BYTES}")
    return secret


def _from_file(key: str, path: Path) -> bytes:
    """Return the content of a file. Raises ConfigurationError if other users may read or write it.

    The group may have access to a file of another owner: Kubernetes mounts secrets as files of root, which the process
    reads as a member of the group of the volume.
    """
    try:
        raw, status = path.read_bytes(), path.stat()
    except OSError as error:
        is_missing = key == "secret.file" and isinstance(error, FileNotFoundError)
        advice = f"; create one with `head -c 32 /dev/urandom > {path} && chmod 600 {path}`" if is_missing else ""
        raise ConfigurationError(f"{key}: {path} cannot be read: {error.strerror}{advice}") from None
    everyone, group = status.st_mode & stat.S_IRWXO, status.st_mode & stat.S_IRWXG
    if everyone or (group and status.st_uid == os.geteuid()):
        who = "every user" if everyone else "a group"
        raise ConfigurationError(f"{key}: {who} has access to {path}: restrict its permissions (chmod 600)")
    return raw


def _take_variable(name: str) -> bytes | None:
    """Remove a variable from the environment of the process; return its value, also later. None if it was never set."""
    value = os.environb.pop(os.fsencode(name), None)
    if value is not None:
        _taken[name] = value
    return _taken.get(name)
