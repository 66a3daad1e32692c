r"""JSON Schema validation with a bounded number of steps.

A schema whose ``anyOf`` contains itself doubles the work with each level of a record, and ``uniqueItems`` compares each
pair of items. A step is one keyword that is applied to one value; a pattern takes more for long texts. A record may
take as many steps as it has bytes, and ``FREE_STEPS`` more: no record takes longer than ordinary ones of its size.

``jsonschema`` matches patterns with Python's ``re``, which backtracks: a text of 40 characters can take hours. RE2 does
not backtrack. It has neither references to groups nor conditions on what precedes or follows, which JSON Schema advises
against. Its classes such as ``\d`` are those of ASCII and ``$`` is the end of the text only, as in ECMA-262.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Hashable, Iterable, Iterator
from functools import lru_cache, wraps
from types import FunctionType, SimpleNamespace
from typing import Any, Final

from stream_masker.errors import StreamMaskerError
from stream_masker.service.observability.logs import RepeatFilter

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


FREE_STEPS = 20_000


class TooManyStepsError(StreamMaskerError):
    """A record takes too many steps to validate."""


class StepBudget:
    """The steps that are left for the record that is validated."""

    def __init__(self) -> None:
        self._left = FREE_STEPS

    def renew(self, size: int) -> None:
        """Allow the steps of the next record; ``size`` in bytes."""
        self._left = FREE_STEPS + size

    def spend(self, steps: int = 1) -> None:
        """Count steps. Raises TooManyStepsError if there were too many."""
        self._left -= steps
        if self._left < 0:
            raise TooManyStepsError("a record takes too many steps to validate")


def bounded_validator(validator: Any, budget: StepBudget) -> Any:
    """Return a validator class of jsonschema that spends steps of the budget for keywords and patterns."""
    from jsonschema.validators import extend

    patterns = LinearPatterns(budget.spend)
    keywords = {name: patterns.within(keyword) for name, keyword in validator.VALIDATORS.items()}
    keywords["uniqueItems"] = _unique_items
    return extend(
        validator,
        {  # type: ignore[no-untyped-call]
            name: _counted(keyword, budget) for name, keyword in keywords.items()
        },
    )


def _counted(keyword: Callable[..., Any], budget: StepBudget) -> Callable[..., Any]:
    @wraps(keyword)
    def counted(*arguments: Any) -> Any:
        budget.spend()
        return keyword(*arguments)

    return counted


def _unique_items(validator: Any, required: Any, instance: Any, schema: Any) -> Iterator[Any]:
    """Yield an error if two items are equal, in time linear in the size of the items."""
    from jsonschema import ValidationError

    if required and validator.is_type(instance, "array") and _has_repeats(instance):
        yield ValidationError("the items are not unique")


def _has_repeats(items: Iterable[Any]) -> bool:
    comparable = [*map(_comparable, items)]
    return len({*comparable}) < len(comparable)


def _comparable(value: Any) -> Hashable:
    """Return what is equal for equal JSON: 1 equals 1.0, but neither true nor the text 1."""
    if isinstance(value, dict):
        return frozenset((name, _comparable(member)) for name, member in value.items())
    if isinstance(value, list):
        return tuple(map(_comparable, value))
    return ("", value) if isinstance(value, (bool, type(None))) else value
