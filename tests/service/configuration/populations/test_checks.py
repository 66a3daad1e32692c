"""Topics of two populations: none is in both, now or later."""

from __future__ import annotations

from typing import Any

import pytest

from stream_masker.service.configuration.populations.checks import TopicSet, population_problems
from stream_masker.service.configuration.topics.sections import INTERNAL_ROLES, TopicsSection


def found(own: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """The problems of the file's own population and one named other, whose internal topics differ."""
    internal = {role: f"{role}.other" for role in INTERNAL_ROLES}
    sections = {"": TopicsSection(**own), "other": TopicsSection(**{**internal, **other})}
    return [f"{'.'.join(map(str, location))}: {text}" for location, text in population_problems(sections)]


@pytest.mark.parametrize(
    ("own", "other"),
    [
        ({"input": "a"}, {"input": "b"}),
        ({"input": "a"}, {"input": ["b", "c"], "rejected": "a.rejected"}),
        ({"input": "a"}, {"input": "^b.*"}),
        ({"input": r"^ward\.[a-z]+", "output": "masked.{topic}"}, {"input": "ward.1"}),
        (
            {"input": r"^ward\..*", "output": "masked.{topic}", "rejected": "r"},
            {"input": r"^labs\..*", "output": "m.{topic}"},
        ),
    ],
)
def test_topics_that_differ_are_accepted(own: dict[str, Any], other: dict[str, Any]) -> None:
    assert found(own, other) == []
    assert found({**own, **{r: r for r in INTERNAL_ROLES}}, other) == []


@pytest.mark.parametrize(
    ("own", "other", "problem"),
    [
        ({"input": "a"}, {"input": "a"}, "topics.input: 'a' is also topics.input of the file's own population"),
        ({"input": "a"}, {"input": ["b", "a"]}, "topics.input: 'a' is also topics.input"),
        ({"input": "^w.*"}, {"input": ["b", "ward"]}, "topics.input: 'ward' is also topics.input"),
        ({"input": ["b", "ward"]}, {"input": "^w.*"}, "topics.input: 'ward' is also topics.input"),
        ({"input": "^ward.*"}, {"input": "^w.*"}, "topics.input: a topic that begins with 'ward' is also topics.input"),
        ({"input": "^(a|b)"}, {"input": "^c"}, "topics.input: a topic that begins with 'c' is also topics.input"),
        ({"input": "a"}, {"input": "a.masked"}, "topics.input: 'a.masked' is also topics.output"),
        ({"input": "a"}, {"input": "b", "output": "a"}, "topics.output: 'a' is also topics.input"),
        ({"input": "a", "output": "o"}, {"input": "b", "output": "o"}, "topics.output: 'o' is also topics.output"),
        (
            {"input": "a"},
            {"input": "b", "statistics": "stream-masker.statistics"},
            "topics.statistics: 'stream-masker.",
        ),
        ({"input": "^stream.*"}, {"input": "b", "drift": "stream"}, "topics.drift: 'stream' is also topics.input"),
        ({"input": "^a.*", "output": "m.{topic}"}, {"input": "m.ax"}, "topics.input: 'm.ax' is also topics.output"),
        (
            {"input": "^a.*", "output": "m.{topic}"},
            {"input": "^m.*"},
            "topics.input: a topic that begins with 'm.a' is",
        ),
        ({"input": "^a.*"}, {"input": "b", "output": "ax.masked"}, "topics.output: 'ax.masked' is also topics.input"),
    ],
)
def test_topics_that_two_populations_may_have_are_refused(
    own: dict[str, Any], other: dict[str, Any], problem: str
) -> None:
    problems = found(own, other)
    assert any(line.startswith(f"populations.other.{problem}") for line in problems), problems


def test_a_set_of_topics_contains_those_that_the_template_makes() -> None:
    outputs = TopicSet(TopicsSection(input=r"^ward\.[a-z]+", output="x.{topic}.y"), "output")
    assert [name for name in ("x.ward.a.y", "x.ward.1.y", "ward.a", "x.ward.a") if name in outputs] == ["x.ward.a.y"]
    assert outputs.prefix == "x.ward."
    assert outputs.names == []
