"""Parameters of mechanisms: frozen dataclasses that validate themselves; and the card that describes a mechanism.

The fields of such a class are the keyword arguments of a mechanism's constructor, and the keys of its section in the
service's configuration. Their types, defaults, ranges and descriptions are stated there and nowhere else.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields
from inspect import Parameter, Signature
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from stream_masker.core.distance import DistanceChoice
from stream_masker.core.validation import number_between, require_known, require_one_of, require_type, whole_number
from stream_masker.errors import ParameterError

MIN_ALPHA = 0.01
"""The smallest allowed noise level α. Less noise would leave nearly all values unchanged."""

MAX_ALPHA = 10.0
"""The largest allowed noise level α."""


def parameter(default: Any, description: str, **limits: float) -> Any:
    """Return the field of a parameter.

    ``limits``: ``ge`` and ``le``, the least and the greatest number; of a mapping, that of each entry.
    """
    return field(default=default, metadata={"description": description, **limits})


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodCard:
    """What a mechanism does, preserves and costs, for readers who choose one; phrases without a full stop.

    * ``source``: the paper and section.
    * ``attributes``: how many attributes it takes, and of which kind. ``taxonomies``: what it requires of theirs.
    * ``preserves``: the properties of the data that it keeps: meaning, mean, dispersion, correlation, marginals, …
    * ``guarantee``: the protection that is guaranteed, if any.
    * ``latency``: what a record has to wait for. ``cost``: of masking one record, in O-notation.
    """

    source: str
    attributes: str
    taxonomies: str
    preserves: tuple[str, ...]
    guarantee: str
    latency: str
    cost: str


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """The parameters that all mechanisms share.

    Creating parameters raises ParameterError, which names the value given and the values allowed.
    """

    distance: DistanceChoice = parameter("wu_palmer", "The semantic distance.")
    window: int = parameter(10_000, "The number of records of the calibration window.", ge=1)
    window_age: float | None = parameter(None, "The age limit of the window in seconds; None for no limit.", ge=1e-3)
    rollup_depth: int = parameter(2, "The depth of the statistics' roll-up; 1 is the root.", ge=1)

    def __post_init__(self) -> None:
        kinds = _kinds(type(self))
        for each in fields(self):
            check(each.name, getattr(self, each.name), kinds[each.name], each.metadata)


def own_first(parameters: type[Parameters]) -> list[Field[Any]]:
    """Return the fields of the class, those that all mechanisms share last."""
    shared = {each.name for each in fields(Parameters)}
    return sorted(fields(parameters), key=lambda each: each.name in shared)


def signature_of(parameters: type[Parameters]) -> Signature:
    """Return the signature of a mechanism's constructor, with its parameters by name."""
    own = [(each.name, each.default) for each in own_first(parameters)]
    named = [("parameters", None), *own]
    keywords = [Parameter(name, Parameter.KEYWORD_ONLY, default=default) for name, default in named]
    first, last = Parameter("taxonomies", Parameter.POSITIONAL_OR_KEYWORD), Parameter("seed", Parameter.KEYWORD_ONLY)
    return Signature([first, *keywords, last])


def created(kind: type[Parameters], parameters: Parameters | None, given: Mapping[str, Any]) -> Parameters:
    """Return the parameters, or those that are given by name. Raises ParameterError."""
    if parameters is None:
        require_known(given, [each.name for each in own_first(kind)], "the mechanism")
        return kind(**given)
    if given or not isinstance(parameters, kind):
        raise ParameterError(f"parameters= is a {type(parameters).__name__}: use a {kind.__name__}, and none by name")
    return parameters


def _kinds(parameters: type[Parameters]) -> dict[str, tuple[Any, ...]]:
    """Return the allowed types of each parameter."""
    hints = get_type_hints(parameters)
    return {
        name: (hint,) if get_origin(hint) in (None, Literal, Mapping) else get_args(hint)
        for name, hint in hints.items()
    }


def check(name: str, given: object, kinds: tuple[Any, ...], limits: Mapping[str, Any]) -> None:
    """Raise ParameterError unless a value is of one of these types, and within its limits.

    Types other than None, numbers, bool, Literal and mappings to numbers are not checked here.
    """
    low, high = limits.get("ge", -math.inf), limits.get("le", math.inf)
    if given is None and NoneType in kinds:
        return
    if float in kinds and isinstance(given, Mapping) and len(kinds) > 1:
        for key, number in given.items():
            number_between(f"{name} of {key!r}", number, low, high)
    elif float in kinds:
        number_between(name, given, low, high)
    elif int in kinds:
        whole_number(name, given, low, high)
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


def checked_alpha(alpha: float | Mapping[str, float], attributes: tuple[str, ...]) -> dict[str, float]:
    """Return α of every attribute. Raises ParameterError unless each is in [0.01, 10]."""
    levels = per_attribute("alpha", alpha, attributes)
    return {name: number_between(f"alpha of {name!r}", level, MIN_ALPHA, MAX_ALPHA) for name, level in levels.items()}
