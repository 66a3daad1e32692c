"""Checks of parameters. The message of each ParameterError states the given value and the allowed ones."""

from __future__ import annotations

import numpy as np

from stream_masker.errors import ParameterError


def require_one_of(name: str, given: object, allowed: tuple[str, ...]) -> None:
    """Raise ParameterError unless ``given`` is one of ``allowed``."""
    if given not in allowed:
        raise ParameterError(f"{name}={given!r} is not allowed: use {' or '.join(allowed)}")


def require_type(description: str, given: object, wanted: type) -> None:
    """Raise ParameterError unless ``given`` is an instance of ``wanted``."""
    if not isinstance(given, wanted):
        raise ParameterError(f"{description} is a {type(given).__name__}: use a {wanted.__name__}")


def number_between(name: str, given: object, low: float, high: float) -> float:
    """Return ``given`` as a float. Raises ParameterError unless it is a number with low ≤ given ≤ high."""
    if isinstance(given, bool) or not isinstance(given, int | float | np.number) or not low <= float(given) <= high:
        raise ParameterError(f"{name}={given!r} is not allowed: use a number from {low:g} to {high:g}")
    return float(given)


def whole_number(name: str, given: object, low: int, high: int) -> int:
    """Return ``given`` as an int. Raises ParameterError unless it is a whole number with low ≤ given ≤ high."""
    if isinstance(given, bool) or not isinstance(given, int | np.integer) or not low <= given <= high:
        raise ParameterError(f"{name}={given!r} is not allowed: use a whole number from {low} to {high}")
    return int(given)
