"""Checks of topic names: pure functions that return problems, each as a key of ``topics`` with a text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TypeAlias

from stream_masker.service.configuration.topics.sections import TOPIC_PLACEHOLDER, TopicsSection

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
