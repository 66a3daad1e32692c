"""Options shared by several commands."""

from __future__ import annotations

from pathlib import Path

import click

from stream_masker.service.configuration.model import Configuration

config_option = click.option(
    "-c",
    "--config",
    "config",
    type=click.Path(path_type=Path),
    default=Path("stream-masker.yaml"),
    envvar="STREAM_MASKER_CONFIG",
    show_default=True,
    show_envvar=True,
    metavar="FILE",
    help="Configuration file (YAML).",
)
"""``--config FILE``: a ``Path`` named ``config``."""

topic_option = click.option(
    "--topic", default="", metavar="NAME", help="The input topic, if the configuration gives several."
)
"""``--topic NAME``: a text named ``topic``, for ``for_topic``."""


def for_topic(configuration: Configuration, topic: str) -> Configuration:
    """Return the configuration of one input topic; without a name, that of the only one.

    Raises ConfigurationError if there are several, or for a name that is no input topic.
    """
    return configuration.for_topic(topic or configuration.single_population.topics.single)


def for_population(configuration: Configuration, topic: str) -> Configuration:
    """Return the configuration of the population of an input topic; without a name, of the only population.

    Raises ConfigurationError if there are several, or for a name that is no input topic.
    """
    return configuration.for_topic(topic) if topic else configuration.single_population
