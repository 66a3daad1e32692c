"""The names of the topics, and topics with two roles."""

from __future__ import annotations

import re
from typing import Any

import pytest
from support.small_configuration import small_configuration

from stream_masker.errors import ConfigurationError
from stream_masker.service.configuration import Configuration, parse_configuration


def configured(**topics: Any) -> Configuration:
    return parse_configuration(small_configuration("a", topics=topics))


def test_outputs_are_named_after_the_input() -> None:
    topics = configured(input="labs").topics
    assert (topics.output, topics.rejected) == ("labs.masked", "labs.rejected")
    assert configured(input="labs", output="clean").topics.output == "clean"


@pytest.mark.parametrize(
    ("topics", "problem"),
    [
        ({"input": "a", "rejected": "a"}, "topics.rejected: 'a' is also topics.input"),
        ({"input": "stream-masker.drift"}, "topics.drift: 'stream-masker.drift' is also topics.input"),
        ({"input": ["a", "b"]}, "topics.input"),
        ({"input": "a b"}, "topics.input"),
        ({"input": "a", "output": ".."}, "topics.output"),
    ],
)
def test_impossible_topics_are_refused(topics: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(problem)):
        configured(**topics)
