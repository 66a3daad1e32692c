"""Checks of parameters, each raising ``ParameterError`` with what was given and what is allowed."""

from __future__ import annotations

import numpy as np

from stream_masker.errors import ParameterError


def require_one_of(name: str, given: object, allowed: tuple[str, ...]) -> None:
    """Raises ParameterError unless ``given`` is one of the allowed words."""
    if given not in allowed:
        raise ParameterError(f"{name}={given!r} is not allowed: use {' or '.join(allowed)}")


def require_type(what: str, given: object, wanted: type) -> None:
    """Raises ParameterError unless ``given`` is of the type."""
    if not isinstance(given, wanted):
        raise ParameterError(f"{what} is a {type(given).__name__}: use a {wanted.__name__}")


def number_between(name: str, given: object, low: float, high: float) -> float:
    """A number from ``low`` to ``high``, both allowed. Raises ParameterError."""
    if isinstance(given, bool) or not isinstance(given, int | float | np.number) or not low <= float(given) <= high:
        raise ParameterError(f"{name}={given!r} is not allowed: use a number from {low:g} to {high:g}")
    return float(given)


def whole_number(name: str, given: object, low: int, high: int) -> int:
    """A whole number from ``low`` to ``high``, both allowed. Raises ParameterError."""
    if isinstance(given, bool) or not isinstance(given, int | np.integer) or not low <= given <= high:
        raise ParameterError(f"{name}={given!r} is not allowed: use a whole number from {low} to {high}")
    return int(given)
