"""The base class of configuration sections, and the types of their values: durations, names, field paths, topics."""

from __future__ import annotations

import re
from typing import Annotated, Any, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, WithJsonSchema

DURATION_PATTERN = r"^([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d)?$"
NAME_PATTERN = r"^[A-Za-z_][A-Za-z0-9_-]{0,99}$"
SECONDS_PER_UNIT = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def parse_duration(value: Any) -> Any:
    """Convert ``24h``, ``60s`` or ``500ms`` to seconds; numbers stay. Raises ValueError, which says what is allowed."""
    match = re.fullmatch(DURATION_PATTERN, value) if isinstance(value, str) else None
    seconds = float(match[1]) * SECONDS_PER_UNIT[match[2] or "s"] if match else value
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or seconds <= 0:
        raise ValueError("a duration above 0 such as 500ms, 60s, 5m, 24h or 7d, or seconds")
    return seconds


def matching(pattern: str, meaning: str, max_length: int = 1000) -> tuple[BeforeValidator, WithJsonSchema]:
    """Return the validator and the schema of texts that match a pattern; ``meaning`` says in errors what is allowed."""

    def check(value: Any) -> Any:
        if not isinstance(value, str) or len(value) > max_length or re.fullmatch(pattern[1:-1], value) is None:
            raise ValueError(meaning)
        return value

    schema = {"type": "string", "pattern": pattern, "maxLength": max_length}
    return BeforeValidator(check), WithJsonSchema(schema)


Duration: TypeAlias = Annotated[
    float,
    Field(gt=0),
    BeforeValidator(parse_duration),
    WithJsonSchema({"type": ["number", "string"], "exclusiveMinimum": 0, "pattern": DURATION_PATTERN}),
]
"""A positive duration: ``500ms``, ``60s``, ``5m``, ``24h``, ``7d`` or a number of seconds; stored in seconds."""

Alpha: TypeAlias = Annotated[float, Field(ge=0.01, le=10)]
"""A noise level in [0.01, 10]: the noise's variance divided by the attribute's variance."""

PositiveInt: TypeAlias = Annotated[int, Field(ge=1)]
NonEmptyText: TypeAlias = Annotated[str, StringConstraints(min_length=1)]
FieldPath: TypeAlias = Annotated[str, StringConstraints(min_length=1, max_length=1000)]
"""Dotted names, ``[0]``, ``[*]`` and filters such as ``coding[?system=http://hl7.org/fhir/sid/icd-10-cm]``."""

NameText: TypeAlias = Annotated[
    str,
    *matching(NAME_PATTERN, "a name of at most 100 letters, digits, - and _ that starts with a letter or _", 100),
]
"""The user-defined name of an attribute or ontology. It becomes a metric label."""


class Section(BaseModel):
    """A section of the configuration: frozen. Unknown keys are errors, and numbers are finite.

    The text below a key is its description, in errors and in the schema.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True)
