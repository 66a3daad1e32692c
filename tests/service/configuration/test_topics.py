"""The names of the topics: placeholders, several input topics, and topics with two roles."""

from __future__ import annotations

import re
from typing import Any

import pytest
from support.small_configuration import small_configuration

from stream_masker.errors import ConfigurationError
from stream_masker.service.configuration import Configuration, parse_configuration
from stream_masker.service.kafka.names import consumer_group_id


def configured(**topics: Any) -> Configuration:
    return parse_configuration(small_configuration("a", topics=topics))


def test_the_placeholder_of_a_single_topic_is_replaced() -> None:
    topics = configured(input="labs").topics
    assert (topics.output, topics.rejected) == ("labs.masked", "labs.rejected")
    assert configured(input="labs", output="clean").topics.output == "clean"
    assert topics.several is False


def test_each_of_several_topics_has_its_own_configuration() -> None:
    several = configured(input=["labs", "visits"], rejected="rejections")
    assert several.topics.several
    own = several.for_topic("visits")
    assert (own.topics.single, own.topics.output, own.topics.rejected) == ("visits", "visits.masked", "rejections")
    assert own.hash == several.hash
    with pytest.raises(ConfigurationError, match="'bills' is none of the input topics"):
        several.for_topic("bills")
    with pytest.raises(ConfigurationError, match="gives several topics: choose one with --topic"):
        _ = several.topics.single


@pytest.mark.parametrize(
    ("topics", "problem"),
    [
        ({"input": ["a", "b"], "output": "c"}, "topics.output: several input topics need an output topic each"),
        ({"input": ["a", "a"]}, "topics.input: 'a' is given 2 times"),
        ({"input": ["a", "a.masked"]}, "topics.input: 'a.masked' is also topics.output"),
        ({"input": ["a", "b"], "rejected": "b"}, "is also topics.rejected"),
        ({"input": ["a", "stream-masker.drift"]}, "topics.input: 'stream-masker.drift' is also topics.drift"),
        (
            {"input": ["a", "b"], "output": "{topic}.x", "rejected": "b.x"},
            "topics.output: 'b.x' is also topics.rejected",
        ),
        ({"input": []}, "topics.input"),
        ({"input": ["a b"]}, "topics.input"),
        ({"input": "^a.*"}, "topics.input"),
        ({"input": "a", "output": "{other}"}, "topics.output"),
        ({"input": "a", "output": ".."}, "topics.output"),
    ],
)
def test_impossible_topics_are_refused(topics: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(problem)):
        configured(**topics)


def test_the_group_of_several_topics_stays_the_same_when_topics_are_added() -> None:
    assert consumer_group_id(configured(input="labs")) == "stream-masker.labs"
    groups = {consumer_group_id(configured(input=given)) for given in (["a", "b"], ["b", "a", "c"])}
    assert groups == {"stream-masker.calibration.workers"}
