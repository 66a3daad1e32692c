"""The base class of configuration sections, and the types of their values: durations, names, field paths, topics."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Self, TypeAlias, get_args

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    ModelWrapValidatorHandler,
    StringConstraints,
    ValidationError,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

from stream_masker.service.configuration.errors import ALLOWED, PROBLEM, did_you_mean, join_options

DURATION_PATTERN = r"^[0-9]+(\.[0-9]+)?(ms|s|m|h|d)$"
NAME_PATTERN = r"^[A-Za-z_][A-Za-z0-9_-]{0,99}$"
SECONDS_PER_UNIT = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def parse_duration(value: Any) -> Any:
    """Convert ``24h``, ``60s`` or ``500ms`` to seconds; numbers stay. Raises an error that says what is allowed."""
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d)?", value) if isinstance(value, str) else None
    seconds = float(match[1]) * SECONDS_PER_UNIT[match[2] or "s"] if match else value
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or seconds <= 0:
        raise PydanticCustomError(ALLOWED, "a duration above 0 such as 500ms, 60s, 5m, 24h or 7d, or seconds")
    return seconds


def matching(pattern: str, meaning: str, max_length: int = 1000) -> BeforeValidator:
    """Return a validator of texts that match a pattern; ``meaning`` says in errors what is allowed."""

    def check(value: Any) -> Any:
        if not isinstance(value, str) or len(value) > max_length or re.fullmatch(pattern[1:-1], value) is None:
            raise PydanticCustomError(ALLOWED, meaning)
        return value

    return BeforeValidator(check)


def by_key(tags: Mapping[str, str], mapping: str = "a mapping", scalar: str = "a value") -> Discriminator:
    """Return the choice between alternatives by their keys, so that errors are those of the alternative that is meant.

    ``tags``: the tag of a mapping that has a key. ``mapping``, ``scalar``: the tags of other mappings and of other
    values. No tag may be a key of the configuration.
    """

    def tag(value: Any) -> str:
        if not isinstance(value, Mapping | BaseModel):
            return scalar
        found = (tags[key] for key in tags if (key in value if isinstance(value, Mapping) else hasattr(value, key)))
        return next(found, mapping)

    return Discriminator(tag)


Duration: TypeAlias = Annotated[
    float,
    Field(gt=0, allow_inf_nan=False),
    BeforeValidator(parse_duration),
    WithJsonSchema({"type": ["number", "string"], "exclusiveMinimum": 0, "pattern": DURATION_PATTERN}),
]
"""A positive duration: ``500ms``, ``60s``, ``5m``, ``24h``, ``7d`` or a number of seconds; stored in seconds."""

Alpha: TypeAlias = Annotated[float, Field(ge=0.01, le=10, allow_inf_nan=False)]
"""A noise level in [0.01, 10]: the noise's variance divided by the attribute's variance."""

Share: TypeAlias = Annotated[float, Field(ge=0, le=1)]
PositiveInt: TypeAlias = Annotated[int, Field(ge=1)]
NonEmptyText: TypeAlias = Annotated[str, StringConstraints(min_length=1)]
FieldPath: TypeAlias = Annotated[str, StringConstraints(min_length=1, max_length=1000)]
"""Dotted names, ``[0]``, ``[*]`` and filters such as ``coding[?system=http://hl7.org/fhir/sid/icd-10-cm]``."""

NameText: TypeAlias = Annotated[
    str,
    matching(NAME_PATTERN, "a name of at most 100 letters, digits, - and _ that starts with a letter or _"),
    WithJsonSchema({"type": "string", "pattern": NAME_PATTERN}),
]
"""The user-defined name of an attribute or ontology. It becomes a metric label."""


class Section(BaseModel):
    """A section of the configuration: frozen. Unknown keys and keys without a value are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    hides_keys: ClassVar[bool] = False
    """Whether errors name no unknown key, because it may be a secret in the wrong place."""

    @model_validator(mode="wrap")
    @classmethod
    def _explain(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """Refuse what pydantic would take for something else, and say which keys there are where one is wrong."""
        refused = dict(cls._refused(data)) if isinstance(data, Mapping) else {}
        problems: list[InitErrorDetails] = [
            {"type": PydanticCustomError(PROBLEM, text), "loc": (key,), "input": None} for key, text in refused.items()
        ]
        try:
            made = handler({key: value for key, value in data.items() if key not in refused} if refused else data)
        except ValidationError as error:
            found = error.errors(include_url=False)
            problems += [cls._explained(one) for one in found if not (one["loc"] and one["loc"][0] in refused)]
        if problems:
            raise ValidationError.from_exception_data(cls.__name__, problems)
        return made

    @classmethod
    def _refused(cls, data: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        """Yield the keys with an empty value, and with a truth value where pydantic would read it as 1 or 0."""
        for key, value in data.items():
            if key not in cls.model_fields:
                continue
            if value is None:
                yield key, "nothing is given: leave the key out, or give it a value"
            elif isinstance(value, bool) and not _allows_truth(cls.model_fields[key].annotation):
                yield key, f"{str(value).lower()} is not allowed: use another value, or quotes to make it text"

    @classmethod
    def _explained(cls, error: ErrorDetails) -> InitErrorDetails:
        kind, location = error["type"], error["loc"]
        details: InitErrorDetails = {"type": kind, "loc": location, "input": error["input"]}
        if "ctx" in error:
            details["ctx"] = error["ctx"]
        if kind in {ALLOWED, PROBLEM}:
            details["type"] = PydanticCustomError(kind, error["msg"])
        elif len(location) == 1 and kind == "extra_forbidden":
            known, key = list(cls.model_fields), str(location[0])
            advice = join_options(known) + ("" if cls.hides_keys else did_you_mean(key, known))
            details["type"] = PydanticCustomError(PROBLEM, f"unknown key: use {advice}")
            details["loc"] = () if cls.hides_keys else location
        elif len(location) == 1 and kind == "missing":
            meaning, _, _ = str(cls.model_fields[str(location[0])].description).partition(". ")
            text = f"required: {meaning[:1].lower()}{meaning[1:].removesuffix('.')}"
            details["type"] = PydanticCustomError(PROBLEM, text)
        return details


def _allows_truth(annotation: Any) -> bool:
    return annotation is bool or any(map(_allows_truth, get_args(annotation)))
