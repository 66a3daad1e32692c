"""The configuration section of the topics, with one or several input topics, and the checks of their names."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, TypeAlias

from pydantic import Field, WithJsonSchema, model_validator

from stream_masker.errors import ConfigurationError
from stream_masker.service.configuration.base import Section, matching

TOPIC_PLACEHOLDER = "{topic}"
TEMPLATE_ROLES = ("output", "rejected")
"""The keys of ``topics`` that may have the placeholder."""

INTERNAL_ROLES = ("calibration", "statistics", "drift")
"""The keys of the topics that only stream-masker's processes write and read."""


NAME = r"\.*[A-Za-z0-9_-][A-Za-z0-9._-]*"
NAME_PATTERN = f"^{NAME}$"
INPUT_PATTERN = rf"^(\^.+|{NAME})$"
TEMPLATE_PATTERN = r"^\.*([A-Za-z0-9_-]|\{topic\})([A-Za-z0-9._-]|\{topic\})*$"

TopicName: TypeAlias = Annotated[
    str,
    matching(NAME_PATTERN, "a topic name of at most 249 letters, digits, ., - and _", 249),
    WithJsonSchema({"type": "string", "pattern": NAME_PATTERN, "maxLength": 249}),
]
InputName: TypeAlias = Annotated[
    str,
    matching(INPUT_PATTERN, "a topic name of at most 249 letters, digits, ., - and _, or a regular expression after ^"),
    WithJsonSchema({"type": "string", "pattern": INPUT_PATTERN, "maxLength": 1000}),
]
TopicTemplate: TypeAlias = Annotated[
    str,
    matching(
        TEMPLATE_PATTERN,
        "a topic name of letters, digits, ., - and _, in which {topic} stands for the input topic",
        249,
    ),
    WithJsonSchema({"type": "string", "pattern": TEMPLATE_PATTERN, "maxLength": 249}),
]
"""A topic name in which ``{topic}`` stands for the name of the input topic."""


class TopicsSection(Section):
    """The names of the topics, all different."""

    input: InputName | Annotated[tuple[TopicName, ...], Field(min_length=1)] = Field(
        default="discharges",
        description="The topic of the events to mask; or a list of topics; or a regular expression that starts with "
        "`^` and matches the whole names of the topics, also of those that are created later.",
    )
    output: TopicTemplate = Field(
        default="{topic}.masked",
        description="The topic of the masked events, in which `{topic}` stands for the input topic. With several input "
        "topics, each has an output topic of its own.",
    )
    rejected: TopicTemplate = Field(
        default="{topic}.rejected",
        description="The topic of the rejections: where and why a record was rejected, never its values. `{topic}` "
        "stands for the input topic; without it, several input topics share one.",
    )
    calibration: TopicName = Field(
        default="stream-masker.calibration",
        description="The topic of the window counts that workers write; exactly 1 partition.",
    )
    statistics: TopicName = Field(
        default="stream-masker.statistics",
        description="The topic of the statistics versions that the calibrator writes; compacted.",
    )
    drift: TopicName = Field(
        default="stream-masker.drift", description="The topic of the drift reports, one for each statistics version."
    )

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the input topics; none if a regular expression gives them."""
        if isinstance(self.input, tuple):
            return self.input
        return () if self.expression is not None else (self.input,)

    @property
    def expression(self) -> str | None:
        """The regular expression of the input topics, None if they are named."""
        return self.input if isinstance(self.input, str) and self.input.startswith("^") else None

    @property
    def several(self) -> bool:
        """Whether there may be several input topics."""
        return isinstance(self.input, tuple) or self.expression is not None

    @property
    def single(self) -> str:
        """The name of the only input topic. Raises ConfigurationError if there may be several."""
        if self.several:
            raise ConfigurationError("topics.input: gives several topics: choose one with --topic")
        return str(self.input)

    def is_input(self, topic: str) -> bool:
        """Return whether a topic is an input topic."""
        if (expression := self.expression) is not None:
            return re.fullmatch(expression, topic) is not None
        return topic in self.names

    def of(self, topic: str) -> TopicsSection:
        """Return the names of the topics of one input topic."""
        names = {role: getattr(self, role).replace(TOPIC_PLACEHOLDER, topic) for role in TEMPLATE_ROLES}
        return self.model_copy(update={"input": topic, **names})

    @property
    def internal(self) -> dict[str, str]:
        """The topics that stream-masker's processes share, by role."""
        return {role: getattr(self, role) for role in INTERNAL_ROLES}

    @model_validator(mode="before")
    @classmethod
    def _fill_placeholders(cls, given: Any) -> Any:
        """Replace the placeholders by the name of the input topic, if it is the only one."""
        if not isinstance(given, dict):
            return given
        defaults = {name: field.default for name, field in cls.model_fields.items()}
        names = {role: given.get(role, defaults[role]) for role in TEMPLATE_ROLES}
        topic = given.get("input", defaults["input"])
        if not isinstance(topic, str) or topic.startswith("^"):
            return given
        filled = {k: v.replace(TOPIC_PLACEHOLDER, topic) if isinstance(v, str) else v for k, v in names.items()}
        return {**given, **filled}


TopicProblems: TypeAlias = Iterator[tuple[str, str]]


def section_problems(topics: TopicsSection) -> TopicProblems:
    """Yield the problems that can be found without the broker."""
    inputs = Counter(topics.names)
    if topics.several and TOPIC_PLACEHOLDER not in topics.output:
        yield "output", "several input topics need an output topic each: use a name with {topic}"
    elif topics.expression is not None:
        yield from _expression_problems(topics, topics.expression)
    yield from (("input", f"{name!r} is given {count} times") for name, count in inputs.items() if count > 1)
    yield from input_problems(topics, inputs)


def input_problems(topics: TopicsSection, inputs: Iterable[str]) -> TopicProblems:
    """Yield the roles whose topic has another role too, among the topics of these inputs.

    A regular expression that matches an output would mask records again, even if that topic does not exist yet.
    """
    roles: dict[str, str] = {}
    for names in map(topics.of, inputs):
        for role, name in _roles(names):
            if (other := roles.setdefault(name, role)) != role:
                yield role, f"{name!r} is also topics.{other}: all topics must differ"
            elif role != "input" and topics.expression is not None and topics.is_input(name):
                yield role, f"{name!r} matches topics.input, so its records would be masked again"


def _expression_problems(topics: TopicsSection, expression: str) -> TopicProblems:
    try:
        re.compile(expression)
    except re.error as error:
        yield "input", f"{expression!r} is not a regular expression: {error}"
        return
    for role, name in _roles(topics):
        if role != "input" and TOPIC_PLACEHOLDER not in name and topics.is_input(name):
            yield role, f"{name!r} matches topics.input: all topics must differ"


def _roles(topics: TopicsSection) -> Iterator[tuple[str, str]]:
    """Yield the topics that are configured, by role."""
    return ((role, name) for role, name in topics if name is not None)


def literal_prefix(expression: str) -> str:
    """Return a text that all names begin with that match an expression, the longest that is easy to find."""
    if "|" in _without_groups(expression):
        return ""
    prefix, rest = "", expression.removeprefix("^")
    while match := re.match(r"\\([^A-Za-z0-9])|([A-Za-z0-9_-])", rest):
        rest = rest[match.end() :]
        if rest[:1] in {"*", "?", "{"}:
            break
        prefix += match[1] or match[2]
    return prefix


def _without_groups(expression: str) -> str:
    """Return an expression without escapes, character classes and groups."""
    shorter = re.sub(r"\\.|\[\^?\]?[^\]]*\]", "", expression)
    while shorter != (shorter := re.sub(r"\([^()]*\)", "", shorter)):
        pass
    return shorter
