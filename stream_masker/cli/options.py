"""Options that several commands share: which configuration, and what is printed beside the output."""

from __future__ import annotations

import io
import json
import logging
import sys
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TextIO

import click

from stream_masker.service.files.outputs import STANDARD_STREAM

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


def _remember(context: click.Context, option: click.Parameter, given: bool) -> None:
    context.meta[f"{__name__}.{option.name}"] = given


def is_given(name: str) -> bool:
    """Return whether ``--quiet`` (``quiet``) or ``--json`` (``as_json``) is given."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(f"{__name__}.{name}"))


REPORTING = tuple(
    click.Option(names, is_flag=True, expose_value=False, callback=_remember, help=help_text)
    for names, help_text in (
        (["-q", "--quiet"], "Write no progress and no summary: only the output, warnings and errors."),
        (["--json", "as_json"], "Write the result, the summary or the log as JSON, one document a line."),
    )
)
"""``--quiet`` and ``--json``, for ``information``, ``tell``, ``output``, ``summarise`` and the logs of processes."""


class ReportingCommand(click.Command):
    """A command with ``--quiet`` and ``--json``: the class of every command."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.params.extend(REPORTING)


class Group(click.Group):
    """A command group that names the command that may have been meant."""

    command_class = ReportingCommand

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        names = self.list_commands(ctx)
        if args[0] in names or args[0].startswith("-"):
            return super().resolve_command(ctx, args)
        close = get_close_matches(args[0], names, n=1)
        advice = f"did you mean {close[0]!r}?" if close else f"use {', '.join(names)}"
        raise click.UsageError(f"No such command {args[0]!r}; {advice}", ctx)


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


class CommandFormatter(logging.Formatter):
    """Formats a log record as commands write their messages, on one line: ``warning: MESSAGE``."""

    def format(self, record: logging.LogRecord) -> str:
        line = f"{record.levelname.lower()}: {record.getMessage()}"
        if record.exc_info and record.exc_info[1] is not None:
            from stream_masker.service.observability.logs import describe

            line += f": {describe(record.exc_info[1])}"
        return " ".join(line.splitlines())


def configure_command_log() -> None:
    """Send warnings and errors of all modules to standard error in the form of a command's own messages."""
    handler = logging.StreamHandler()
    handler.setFormatter(CommandFormatter())
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)


def configure_process_log(level: str) -> None:
    """Send the log to standard error, as JSON to standard output with ``--json``, only from warnings up with
    ``--quiet``."""
    from stream_masker.service.observability.logs import configure_logs

    configure_logs("warning" if is_given("quiet") else level, as_json=is_given("as_json"))


def tell_if_waiting(source: str) -> None:
    """Say that a command reads from the terminal, which otherwise looks as if it did nothing."""
    if source == STANDARD_STREAM and sys.stdin is not None and sys.stdin.isatty():
        tell("reading events from the terminal: paste them and press Ctrl-D, or name a file")
