"""The number of calls that a function makes: a measure of its work that does not depend on the machine."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any


def calls(function: Callable[..., Any], *arguments: Any) -> int:
    """Return the number of calls, of functions in Python and in C, that a function makes."""
    made = list[None]()

    def profile(_frame: Any, event: str, _argument: Any) -> None:
        if event in ("call", "c_call"):
            made.append(None)

    sys.setprofile(profile)
    try:
        function(*arguments)
    finally:
        sys.setprofile(None)
    return len(made)
