"""The base class of configuration sections, and the types of their values: durations, names, field paths, topics."""

from __future__ import annotations

import re
from typing import Annotated, Any, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, WithJsonSchema, field_validator

DURATION_PATTERN = r"^[0-9]+(\.[0-9]+)?(ms|s|m|h|d)$"
NAME_PATTERN = r"^[A-Za-z_][A-Za-z0-9_-]{0,99}$"
TOPIC_PATTERN = r"^\.*[A-Za-z0-9_-][A-Za-z0-9._-]*$"
TEMPLATE_PATTERN = r"^\.*([A-Za-z0-9_-]|\{topic\})([A-Za-z0-9._-]|\{topic\})*$"
EXPRESSION_PATTERN = r"^\^."
URL_PATTERN = r"^https?://[^@\s]+$"
SECONDS_PER_UNIT = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}

PATTERN_MEANINGS = {
    DURATION_PATTERN: "a duration above 0 such as 500ms, 60s, 5m, 24h or 7d, or a number of seconds",
    NAME_PATTERN: "a name of at most 100 letters, digits, - and _ that starts with a letter or _",
    TOPIC_PATTERN: "a topic name of at most 249 letters, digits, ., - and _",
    TEMPLATE_PATTERN: "a topic name of letters, digits, ., - and _, in which {topic} stands for the input topic",
    EXPRESSION_PATTERN: "a regular expression that starts with ^",
    URL_PATTERN: "a URL that starts with http:// or https:// and has no user or password",
}
"""The meaning of each pattern in the schema, for error messages."""


def parse_duration(value: Any) -> Any:
    """Convert ``24h``, ``60s`` or ``500ms`` to seconds; return anything else unchanged, for pydantic to validate."""
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d)", value) if isinstance(value, str) else None
    return float(match[1]) * SECONDS_PER_UNIT[match[2]] if match else value


Duration: TypeAlias = Annotated[
    float,
    Field(gt=0, allow_inf_nan=False),
    BeforeValidator(parse_duration),
    WithJsonSchema({"type": ["number", "string"], "exclusiveMinimum": 0, "pattern": DURATION_PATTERN}),
]
"""A positive duration: ``500ms``, ``60s``, ``5m``, ``24h``, ``7d`` or a number of seconds; stored in seconds."""

Alpha: TypeAlias = Annotated[float, Field(ge=0.01, le=10, allow_inf_nan=False)]
"""A noise level in [0.01, 10]: the noise's variance divided by the attribute's variance."""

PositiveInt: TypeAlias = Annotated[int, Field(ge=1)]
NonEmptyText: TypeAlias = Annotated[str, StringConstraints(min_length=1)]
FieldPath: TypeAlias = Annotated[str, StringConstraints(min_length=1, max_length=1000)]
"""Dotted names, ``[0]``, ``[*]`` and filters such as ``coding[?system=http://hl7.org/fhir/sid/icd-10-cm]``."""

NameText: TypeAlias = Annotated[str, StringConstraints(pattern=NAME_PATTERN)]
"""The user-defined name of an attribute or ontology. It becomes a metric label."""

TopicName: TypeAlias = Annotated[str, StringConstraints(pattern=TOPIC_PATTERN, max_length=249)]
TopicTemplate: TypeAlias = Annotated[str, StringConstraints(pattern=TEMPLATE_PATTERN, max_length=249)]
"""A topic name in which ``{topic}`` stands for the name of the input topic."""

TopicExpression: TypeAlias = Annotated[str, StringConstraints(pattern=EXPRESSION_PATTERN, max_length=1000)]
"""A regular expression that starts with ``^`` and matches whole topic names."""


class Section(BaseModel):
    """A section of the configuration: frozen. Unknown keys and keys without a value are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @field_validator("*", mode="before")
    @classmethod
    def _require_value(cls, given: Any) -> Any:
        if given is None:
            raise ValueError("nothing is given")
        return given
