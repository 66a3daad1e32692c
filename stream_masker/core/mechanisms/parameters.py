"""Parameters of mechanisms: frozen dataclasses that validate themselves."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from stream_masker.core.validation import number_between, require_one_of, require_type
from stream_masker.errors import ParameterError

MIN_ALPHA, MAX_ALPHA = 0.01, 10.0
"""The least and the greatest noise level α. Less noise would leave nearly all values unchanged."""


def parameter(default: Any, description: str, **limits: float) -> Any:
    """Return the field of a parameter. ``limits``: ``ge``, ``le``, of a mapping those of each entry."""
    return field(default=default, metadata={"description": description, **limits})


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """The parameters that all mechanisms share. Subclasses add those of one mechanism.

    The fields are the keyword arguments of a mechanism's constructor, and the keys of its section in a configuration.
    Types, defaults, ranges and descriptions are stated here alone. Raises ParameterError for other values.
    """

    distance: str = parameter("wu_palmer", "The semantic distance.")
    window: int = parameter(10_000, "The number of records of the calibration window.", ge=1)

    def __post_init__(self) -> None:
        hints = get_type_hints(type(self))
        for each in fields(self):
            hint = hints[each.name]
            kinds = (hint,) if get_origin(hint) in (None, Literal, Mapping) else get_args(hint)
            _check(each.name, getattr(self, each.name), kinds, each.metadata)


def own_first(parameters: type[Parameters]) -> list[Field[Any]]:
    """Return the fields of parameters, those that all mechanisms share last."""
    shared = {each.name for each in fields(Parameters)}
    return sorted(fields(parameters), key=lambda each: each.name in shared)


def _check(name: str, given: object, kinds: tuple[Any, ...], limits: Mapping[str, Any]) -> None:
    """Raise ParameterError unless a number, bool or choice is of one of these types, and within its limits."""
    low, high = limits.get("ge", -math.inf), limits.get("le", math.inf)
    if given is None and NoneType in kinds:
        return
    if float in kinds and isinstance(given, Mapping) and len(kinds) > 1:
        for key, number in given.items():
            number_between(f"{name} of {key!r}", number, low, high, float)
    elif float in kinds:
        number_between(name, given, low, high, float)
    elif int in kinds:
        number_between(name, given, low, high, int)
    elif bool in kinds:
        require_type(name, given, bool)
    elif get_origin(kinds[0]) is Literal:
        require_one_of(name, given, get_args(kinds[0]))


def per_attribute(name: str, given: object, attributes: tuple[str, ...]) -> dict[str, Any]:
    """Return the value of a parameter for each attribute, in order, from one for all or a mapping.

    Raises ParameterError if the mapping does not name exactly the attributes.
    """
    each = given if isinstance(given, Mapping) else dict.fromkeys(attributes, given)
    if set(each) != set(attributes):
        names = ", ".join(map(repr, each)) or "no attribute"
        raise ParameterError(f"{name} is given for {names}: give one number, or one for each of {attributes}")
    return {attribute: each[attribute] for attribute in attributes}
