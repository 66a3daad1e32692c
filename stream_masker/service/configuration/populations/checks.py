"""Checks that no topic belongs to two populations: pure functions that return problems, each with its location.

A regular expression also matches topics that do not exist yet. The topics of two regular expressions therefore need
names that begin with different texts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations, product
from typing import TypeAlias

from stream_masker.service.configuration.topics.checks import literal_prefix
from stream_masker.service.configuration.topics.sections import TOPIC_PLACEHOLDER, TopicsSection
from stream_masker.service.configuration.wording import ConfigurationLocation

PopulationProblems: TypeAlias = Iterator[tuple[ConfigurationLocation, str]]

SHARED_ROLE = "rejected"
"""The role whose topic populations may share: a rejection names its input topic."""


def population_problems(populations: Mapping[str, TopicsSection]) -> PopulationProblems:
    """Yield the topics that two populations have or may have in common, in any role.

    The population of the file itself has an empty name.
    """
    for (other, others), (name, topics) in combinations(populations.items(), 2):
        for role, other_role, common in _common_topics(topics, others):
            yield (
                ("populations", name, "topics", role),
                f"{common} is also topics.{other_role} of {_label(other)}: all topics of two populations must differ",
            )


def _common_topics(topics: TopicsSection, others: TopicsSection) -> Iterator[tuple[str, str, str]]:
    """Yield the role of each population and the topic; only common inputs if there are any, as outputs follow them."""
    if common := TopicSet(topics, "input").common(TopicSet(others, "input")):
        yield "input", "input", common
        return
    for role, other_role in product(TopicsSection.model_fields, repeat=2):
        common = TopicSet(topics, role).common(TopicSet(others, other_role))
        if common and (role, other_role) != (SHARED_ROLE, SHARED_ROLE):
            yield role, other_role, common


@dataclass(frozen=True, slots=True)
class TopicSet:
    """The topics of one role of a population, of all of its input topics."""

    topics: TopicsSection
    role: str

    @property
    def _template(self) -> str:
        return TOPIC_PLACEHOLDER if self.role == "input" else str(getattr(self.topics, self.role))

    @property
    def names(self) -> list[str]:
        """The names of the topics; none if a regular expression determines them."""
        if TOPIC_PLACEHOLDER not in self._template:
            return [self._template]
        return [self._template.replace(TOPIC_PLACEHOLDER, name) for name in self.topics.names]

    def __contains__(self, name: str) -> bool:
        if names := self.names:
            return name in names
        before, _, after = self._template.partition(TOPIC_PLACEHOLDER)
        inner = re.fullmatch(f"{re.escape(before)}(.+){re.escape(after)}", name)
        return inner is not None and self.topics.is_input(inner[1])

    @property
    def prefix(self) -> str:
        """A text that all names begin with."""
        return self._template.partition(TOPIC_PLACEHOLDER)[0] + literal_prefix(self.topics.expression or "")

    def common(self, other: TopicSet) -> str:
        """Return the common topics for a message, empty if there are none and never will be."""
        if self.names or other.names:
            return ", ".join(repr(name) for name in (self.names or other.names) if name in self and name in other)
        if self.prefix.startswith(other.prefix) or other.prefix.startswith(self.prefix):
            return f"a topic that begins with {max(self.prefix, other.prefix, key=len)!r}"
        return ""


def _label(name: str) -> str:
    return f"the population {name}" if name else "the file's own population"
