"""The configuration section of the topics, with one or several input topics, and the checks of their names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Annotated, Any, TypeAlias

from pydantic import Field, model_validator

from stream_masker.errors import ConfigurationError
from stream_masker.service.configuration.base import Section, matching

TOPIC_PLACEHOLDER = "{topic}"
TEMPLATE_ROLES = ("output", "rejected")
"""The keys of ``topics`` that may have the placeholder."""

INTERNAL_ROLES = ("calibration", "statistics", "drift")
"""The keys of the topics that only stream-masker's processes write and read."""


NAME = r"\.*[A-Za-z0-9_-][A-Za-z0-9._-]*"
NAME_PATTERN = f"^{NAME}$"
TEMPLATE_PATTERN = r"^\.*([A-Za-z0-9_-]|\{topic\})([A-Za-z0-9._-]|\{topic\})*$"

TopicName: TypeAlias = Annotated[
    str,
    *matching(NAME_PATTERN, "a topic name of at most 249 letters, digits, ., - and _", 249),
]
TopicTemplate: TypeAlias = Annotated[
    str,
    *matching(
        TEMPLATE_PATTERN,
        "a topic name of letters, digits, ., - and _, in which {topic} stands for the input topic",
        249,
    ),
]
"""A topic name in which ``{topic}`` stands for the name of the input topic."""


class TopicsSection(Section):
    """The names of the topics, all different."""

    input: TopicName | Annotated[tuple[TopicName, ...], Field(min_length=1)] = Field(
        default="discharges", description="The topic of the events to mask, or a list of topics."
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
        """The names of the input topics."""
        return self.input if isinstance(self.input, tuple) else (self.input,)

    @property
    def several(self) -> bool:
        """Whether there may be several input topics."""
        return isinstance(self.input, tuple)

    @property
    def single(self) -> str:
        """The name of the only input topic. Raises ConfigurationError if there may be several."""
        if isinstance(self.input, tuple):
            raise ConfigurationError("topics.input: gives several topics: choose one with --topic")
        return self.input

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
        if not isinstance(topic, str):
            return given
        filled = {k: v.replace(TOPIC_PLACEHOLDER, topic) if isinstance(v, str) else v for k, v in names.items()}
        return {**given, **filled}


TopicProblems: TypeAlias = Iterator[tuple[str, str]]


def section_problems(topics: TopicsSection) -> TopicProblems:
    """Yield the problems that can be found without the broker: topics that have two roles, or are named twice."""
    if topics.several and TOPIC_PLACEHOLDER not in topics.output:
        yield "output", "several input topics need an output topic each: use a name with {topic}"
    for name, count in Counter(topics.names).items():
        if count > 1:
            yield "input", f"{name!r} is given {count} times"
    roles: dict[str, str] = {}
    for names in map(topics.of, topics.names):
        for role, name in names:
            if (other := roles.setdefault(name, role)) != role:
                yield role, f"{name!r} is also topics.{other}: all topics must differ"
