"""Options that several commands share: which configuration, and what is printed beside the output."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

import click

from stream_masker.service.files.streams import STANDARD_STREAM

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


def is_given(name: str) -> bool:
    """Return whether ``--quiet`` (``quiet``) or ``--json`` (``as_json``) is given."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(f"{__name__}.{name}"))


class ReportingCommand(click.Command):
    """A command with ``--quiet`` and ``--json``, whose modules log from warnings up: the class of every command.

    The two are for ``information``, ``tell``, ``output``, ``summarise`` and the logs of processes.
    """

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        quiet = "Write no progress and no summary: only the output, warnings and errors."
        as_json = "Write the result, the summary or the log as JSON, one document a line."
        self.params.append(click.Option(["-q", "--quiet"], is_flag=True, help=quiet))
        self.params.append(click.Option(["--json", "as_json"], is_flag=True, help=as_json))

    def invoke(self, ctx: click.Context) -> Any:
        from stream_masker.service.observability.logs import configure_logs

        for name in ("quiet", "as_json"):
            ctx.meta[f"{__name__}.{name}"] = ctx.params.pop(name)
        configure_logs("warning")
        return super().invoke(ctx)


class Group(click.Group):
    """A group of commands with ``--quiet`` and ``--json``."""

    command_class = ReportingCommand


def information() -> TextIO:
    """Return the stream for progress: standard error, or one that leads nowhere with ``--quiet``."""
    return io.StringIO() if is_given("quiet") or sys.stderr is None else sys.stderr


def tell(text: str) -> None:
    """Write a line to standard error, unless ``--quiet`` is given."""
    if not is_given("quiet"):
        click.echo(text, err=True)


def warn(text: str) -> None:
    """Write a warning to standard error, in bold on a terminal, also with ``--quiet``."""
    click.secho(f"warning: {text}", err=True, fg="yellow", bold=True)


def output(text: str, figures: Mapping[str, Any]) -> None:
    """Write the result of a command, also with ``--quiet``: as text, or as one line of JSON with ``--json``."""
    click.echo(json.dumps(figures, ensure_ascii=False) if is_given("as_json") else text)


def summarise(text: str, figures: Mapping[str, Any], *, beside: str = "") -> None:
    """Write a summary: as text, as one line of JSON with ``--json``, or not at all with ``--quiet`` alone.

    ``beside``: the file of the command's records. With it, the text is written to standard error; JSON only if the
    records are on standard output.
    """
    if is_given("as_json"):
        click.echo(json.dumps(figures, ensure_ascii=False), err=beside == STANDARD_STREAM)
    elif not is_given("quiet"):
        click.echo(text, err=bool(beside))
