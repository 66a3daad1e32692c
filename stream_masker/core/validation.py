"""Checks of parameters. The message of each ParameterError states the given value and the allowed ones."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Sequence
from numbers import Integral, Real
from typing import Any, Final, TypeVar

from stream_masker.errors import ParameterError

Number = TypeVar("Number", int, float)


def require_one_of(name: str, given: object, allowed: tuple[str, ...]) -> None:
    """Raise ParameterError unless ``given`` is one of ``allowed``."""
    if given not in allowed:
        raise ParameterError(f"{name}={given!r} is not allowed: use {' or '.join(allowed)}")


def require_type(name: str, given: object, wanted: type, text: str | None = None) -> None:
    """Raise ParameterError unless ``given`` is an instance of ``wanted``; ``text``: says what to use."""
    if not isinstance(given, wanted):
        raise ParameterError(f"{name} is of type {type(given).__name__}: use a {text or wanted.__name__}")


def require_known(names: Collection[str], allowed: Collection[str], whose: str) -> None:
    """Raise ParameterError for a parameter that does not exist; ``whose``: what has the allowed ones."""
    for name in names:
        if name not in allowed:
            raise ParameterError(f"{whose} has no parameter {name!r}: use {', '.join(allowed)}")


def require_keys(keys: object, size: int) -> None:
    """Raise ParameterError unless there is one key of bytes for each of ``size`` records."""
    kinds = bytes | bytearray | memoryview
    if not (isinstance(keys, Sequence) and len(keys) == size and all(isinstance(key, kinds) for key in keys)):
        raise ParameterError(f"keys must be bytes, as text.encode() gives, one for each of the {size} records")


def number_between(name: str, given: Any, low: float, high: float, kind: type[Number]) -> Number:
    """Return ``given`` as a float or an int, which ``kind`` says. Raises ParameterError unless it is a number of this
    kind with low ≤ given ≤ high."""
    types: Any = Integral if kind is int else Real
    if isinstance(given, bool) or not isinstance(given, types) or not low <= given <= high:
        words = "whole number" if kind is int else "number"
        start, end = (str(bound) if isinstance(bound, int) else f"{bound:g}" for bound in (low, high))
        limits = f"of {start} or more" if math.isinf(high) else f"from {start} to {end}"
        raise ParameterError(f"{name}={given!r} is not allowed: use a {words} {limits}")
    return kind(given)


MIN_SEED_BYTES: Final = 16
"""The minimum length of a secret: 128 bits."""


def checked_seed(seed: object) -> bytes:
    """Return a secret as a key of BLAKE2b. One of more than 64 bytes, the longest key, is hashed.

    Raises ParameterError unless it is at least ``MIN_SEED_BYTES`` bytes.
    """
    if not isinstance(seed, bytes) or len(seed) < MIN_SEED_BYTES:
        given = f"{len(seed)} bytes" if isinstance(seed, bytes) else f"of type {type(seed).__name__}"
        raise ParameterError(
            f"seed is {given}: use at least {MIN_SEED_BYTES} secret bytes, such as secrets.token_bytes(32)"
        )
    return seed if len(seed) <= hashlib.blake2b.MAX_KEY_SIZE else hashlib.blake2b(seed).digest()
