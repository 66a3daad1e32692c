"""The patterns of a JSON Schema, matched in time linear in the text.

``jsonschema`` matches patterns with Python's ``re``, which backtracks: a text of 40 characters can take hours. RE2 does
not backtrack. It has neither references to groups nor conditions on what precedes or follows, which JSON Schema advises
against. Its classes such as ``\\d`` are those of ASCII and ``$`` is the end of the text only, as in ECMA-262.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from functools import lru_cache
from types import FunctionType, SimpleNamespace
from typing import Any, Final

from stream_masker.errors import StreamMaskerError
from stream_masker.service.observability.repeats import RepeatFilter

log = logging.getLogger(__name__)
log.addFilter(RepeatFilter())

PATTERN_BYTES: Final = 1 << 20
"""The maximum memory of a compiled pattern and its cache."""

MAX_PATTERNS: Final = 64
"""The number of compiled patterns that are kept."""

COMPILE_CHARACTERS: Final = 100
"""The cost of a match without its text, in characters."""

STEP_INSTRUCTIONS: Final = 1_000
"""The number of instructions of RE2 that count as one step: those of its program for each character of the text."""

MATCHING_FUNCTIONS: Final = {"find_additional_properties", "find_evaluated_property_keys_by_schema"}
"""The functions of jsonschema with which keywords match the names of properties."""

ESCAPE: Final = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|.)", re.DOTALL)


class UnsupportedPatternError(StreamMaskerError):
    """A schema has a pattern that cannot be matched in linear time."""


class LinearPatterns:
    """Stands for the module ``re`` in the functions of jsonschema. ``spend`` takes the steps of a match."""

    def __init__(self, spend: Callable[[int], None]) -> None:
        self._spend = spend
        self._bound: dict[Callable[..., Any], Callable[..., Any]] = {}

    def search(self, pattern: str, text: str) -> Any:
        """Return a match of an ECMA-262 pattern, or None. Raises UnsupportedPatternError."""
        compiled = _compiled(pattern)
        self._spend(compiled.programsize * (len(text) + COMPILE_CHARACTERS) // STEP_INSTRUCTIONS)
        return compiled.search(text)

    def within(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function of jsonschema that matches patterns here, as do the functions that it calls."""
        if not isinstance(function, FunctionType) or function in self._bound:
            return self._bound.get(function, function)
        names: dict[str, Any] = {**function.__globals__, "re": SimpleNamespace(search=self.search)}
        bound = FunctionType(function.__code__, names, function.__name__, function.__defaults__, function.__closure__)
        self._bound[function] = bound
        for name in MATCHING_FUNCTIONS & names.keys():
            names[name] = self._counted(self.within(names[name]))
        return bound

    def _counted(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any) -> Any:
            self._spend(1)
            return function(*arguments)

        return counted


@lru_cache(MAX_PATTERNS)
def _compiled(pattern: str) -> Any:
    import re2

    options = re2.Options()
    options.log_errors, options.max_mem = False, PATTERN_BYTES
    try:
        return re2.compile(ESCAPE.sub(_escape, pattern), options)
    except re2.error:
        log.warning("records of a JSON Schema are rejected: RE2 does not support its pattern %.100r", pattern)
        raise UnsupportedPatternError(f"RE2 does not support the pattern {pattern[:100]!r}") from None


def _escape(escape: re.Match[str]) -> str:
    """Return an escape in the syntax of RE2."""
    return f"\\x{{{escape[1]}}}" if escape[1] else escape[0]
