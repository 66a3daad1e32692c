"""The configuration section of the topics, and the check that their names differ."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, TypeAlias

from pydantic import Field, model_validator

from stream_masker.service.configuration.base import Section, matching

INTERNAL_ROLES = ("calibration", "statistics", "drift")
"""The keys of the topics that only stream-masker's processes write and read."""

NAME_PATTERN = r"^\.*[A-Za-z0-9_-][A-Za-z0-9._-]*$"

TopicName: TypeAlias = Annotated[
    str,
    *matching(NAME_PATTERN, "a topic name of at most 249 letters, digits, ., - and _", 249),
]


class TopicsSection(Section):
    """The names of the topics, all different."""

    input: TopicName = Field(default="discharges", description="The topic of the events to mask.")
    output: TopicName = Field(
        default="discharges.masked",
        description="The topic of the masked events. Default: the input's name with `.masked`.",
    )
    rejected: TopicName = Field(
        default="discharges.rejected",
        description="The topic of the rejections: where and why a record was rejected, never its values. Default: the "
        "input's name with `.rejected`.",
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
    def internal(self) -> dict[str, str]:
        """The topics that stream-masker's processes share, by role."""
        return {role: getattr(self, role) for role in INTERNAL_ROLES}

    @model_validator(mode="before")
    @classmethod
    def _name_by_input(cls, given: Any) -> Any:
        """Derive the names of the output and of the rejections from that of the input."""
        if not isinstance(given, dict) or not isinstance(name := given.get("input"), str):
            return given
        return {"output": f"{name}.masked", "rejected": f"{name}.rejected", **given}


def section_problems(topics: TopicsSection) -> Iterator[tuple[str, str]]:
    """Yield the roles of topics that have the same name as another one, with the problem."""
    roles: dict[str, str] = {}
    for role, name in topics:
        if (other := roles.setdefault(name, role)) != role:
            yield role, f"{name!r} is also topics.{other}: all topics must differ"
