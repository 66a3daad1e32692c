"""JSON Schema validation with a bounded number of steps.

A schema whose ``anyOf`` contains itself doubles the work with each level of a record, and ``uniqueItems`` compares each
pair of items. A step is one keyword that is applied to one value; a pattern takes more for long texts. A record may
take as many steps as it has bytes, and ``FREE_STEPS`` more: no record takes longer than ordinary ones of its size.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from functools import wraps
from typing import Any

from stream_masker.errors import StreamMaskerError
from stream_masker.service.formats.json_schema.patterns import LinearPatterns

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
    found = [*map(_comparable, items)]
    return len({*found}) < len(found)


def _comparable(value: Any) -> Hashable:
    """Return what is equal for equal JSON: 1 equals 1.0, but neither true nor the text 1."""
    if isinstance(value, dict):
        return frozenset((name, _comparable(one)) for name, one in value.items())
    if isinstance(value, list):
        return tuple(map(_comparable, value))
    return ("", value) if isinstance(value, (bool, type(None))) else value
