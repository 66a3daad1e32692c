"""Options shared by several commands, and what they do: which configuration, and what is said beside the output."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

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
    return configuration.for_topic(topic or configuration.topics.single)


def _remember(context: click.Context, option: click.Parameter, given: bool) -> None:
    context.meta[f"{__name__}.{option.name}"] = given


def _is_given(name: str) -> bool:
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(f"{__name__}.{name}"))


quiet_option = click.option(
    "-q",
    "--quiet",
    is_flag=True,
    expose_value=False,
    callback=_remember,
    help="Write no progress and no summary: only the output, warnings and errors.",
)
"""``--quiet``, for ``information``, ``tell`` and ``summarise``."""

json_option = click.option(
    "--json",
    "as_json",
    is_flag=True,
    expose_value=False,
    callback=_remember,
    help="Write the result or summary as JSON.",
)
"""``--json``, for ``output`` and ``summarise``."""


def information() -> TextIO:
    """Return the stream for progress: standard error, or one that leads nowhere with ``--quiet``."""
    return io.StringIO() if _is_given("quiet") or sys.stderr is None else sys.stderr


def tell(text: str) -> None:
    """Write a line to standard error, unless ``--quiet`` is given."""
    if not _is_given("quiet"):
        click.echo(text, err=True)


def warn(text: str) -> None:
    """Write a warning to standard error, in bold on a terminal, also with ``--quiet``."""
    click.secho(f"warning: {text}", err=True, fg="yellow", bold=True)


def output(text: str, figures: Mapping[str, Any]) -> None:
    """Write the result of a command, also with ``--quiet``: as text, or as one line of JSON with ``--json``."""
    click.echo(json.dumps(figures, ensure_ascii=False) if _is_given("as_json") else text)


def summarise(text: str, figures: Mapping[str, Any], *, err: bool = False) -> None:
    """Write a summary: as text, as one line of JSON with ``--json``, or not at all with ``--quiet`` alone.

    ``err``: to standard error, because the records are on standard output.
    """
    if _is_given("as_json"):
        click.echo(json.dumps(figures), err=err)
    elif not _is_given("quiet"):
        click.echo(text, err=err)


def tell_if_waiting(source: str) -> None:
    """Say that a command reads from the terminal, which otherwise looks as if it did nothing."""
    if source == "-" and sys.stdin is not None and sys.stdin.isatty():
        tell("reading events from the terminal: paste them and press Ctrl-D, or name a file")
