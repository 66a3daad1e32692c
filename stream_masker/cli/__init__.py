"""The command line of stream-masker: one module per command, which only connects options and functions.

``COMMANDS`` registers the commands. A command is imported when it is called, which keeps ``--help`` fast. ``options``
holds the options that several commands share.
"""

from __future__ import annotations

import errno
import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from typing import Any, cast

import click

from stream_masker import __version__
from stream_masker.cli.options import ReportingCommand, configure_command_log
from stream_masker.errors import (
    ClosedOutputError,
    ConfigurationError,
    OntologyError,
    ParameterError,
    ServiceError,
    StreamMaskerError,
)
from stream_masker.service.runtime.process import protect_process

COMMANDS = {
    "demo": ("stream_masker.cli.demo:command", "Run the whole service on an embedded broker."),
    "mask": ("stream_masker.cli.mask:command", "Mask a file without a broker."),
    "calibrate": ("stream_masker.cli.mask:calibrate", "Compute statistics from a file of events."),
    "evaluate": ("stream_masker.cli.evaluate:command", "Report utility and risk of methods on a file."),
    "topics": ("stream_masker.cli.topics:command", "Create and check the topics."),
    "worker": ("stream_masker.cli.processes:worker", "Run a mask worker."),
    "calibrator": ("stream_masker.cli.processes:calibrator", "Run the calibrator."),
    "produce": ("stream_masker.cli.produce:command", "Publish events of a file, or synthetic ones."),
    "audit": ("stream_masker.cli.audit:command", "Show the latest masked records, or verify single ones."),
    "config": ("stream_masker.cli.config:command", "Check and show the configuration."),
    "ontology": ("stream_masker.cli.ontology:command", "Inspect an ontology."),
}
"""The location of each command, and its line in the help."""

USAGE_ERRORS = (ConfigurationError, ParameterError, OntologyError)
"""Usage errors, which end with exit code 2. Other errors end with 1."""

INTERRUPTED_EXIT_CODE, CLOSED_EXIT_CODE = 130, 141

EXIT_CODES = {
    0: "done, or stopped in order after SIGTERM or SIGINT",
    1: "an error, such as a topic or file that is missing, or more rejections than limits.rejected_share",
    2: "a mistake in the command line, the configuration, a parameter or an ontology",
    3: "evaluate: no method is within the limits",
    INTERRUPTED_EXIT_CODE: "interrupted with Ctrl-C",
    CLOSED_EXIT_CODE: "the reader of the output has closed it, as `head` does; without a message",
}
"""The exit codes of all commands, and their meaning."""


STANDARD_OUTPUT = 1
"""The file descriptor of standard output."""

WRITE_ERRORS = {errno.ENOSPC, errno.EPIPE, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF, errno.EROFS}
"""The numbers of the operating system's errors for an output that cannot be written."""


class CommandFailure(click.ClickException):
    """A stream-masker error as click's exception, with its exit code."""

    def __init__(self, error: StreamMaskerError) -> None:
        super().__init__(str(error))
        self.exit_code = 2 if isinstance(error, USAGE_ERRORS) else 1


class SuggestingGroup(click.Group):
    """A command group that names the command that may have been meant."""

    command_class = ReportingCommand

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError:
            names = self.list_commands(ctx)
            if args[0] in names or args[0].startswith("-"):
                raise
            close = get_close_matches(args[0], names, n=1)
            advice = f"did you mean {close[0]!r}?" if close else f"use {', '.join(names)}"
            raise click.UsageError(f"No such command {args[0]!r}; {advice}", ctx) from None


class CommandGroup(SuggestingGroup):
    """The command group of ``COMMANDS``; prints stream-masker errors as messages."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name][0].partition(":")
        return cast(click.Command, getattr(importlib.import_module(module), name))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        with errors_reported():
            return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        with errors_reported():
            return super().invoke(ctx)

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run the command line; help that cannot be written ends it with one line and exit code 1."""
        open_closed_output()
        try:
            return super().main(*args, **kwargs)
        except OSError as error:
            unwritten = unwritten_output(error)
            if isinstance(unwritten, ClosedOutputError):
                sys.exit(CLOSED_EXIT_CODE)
            CommandFailure(unwritten).show()
            sys.exit(1)


@contextmanager
def errors_reported() -> Iterator[None]:
    """Convert stream-masker errors to click's, which print a message and exit; Ctrl-C exits with 130 silently."""
    try:
        yield
    except ClosedOutputError:
        discard_unwritten_output()
        raise click.exceptions.Exit(CLOSED_EXIT_CODE) from None
    except StreamMaskerError as error:
        discard_unwritten_output()
        raise CommandFailure(error) from None
    except OSError as error:
        unwritten = unwritten_output(error)
        if isinstance(unwritten, ClosedOutputError):
            raise click.exceptions.Exit(CLOSED_EXIT_CODE) from None
        raise CommandFailure(unwritten) from None
    except Exception as error:  # noqa: BLE001 - raised again unless it is of a Kafka client
        raise CommandFailure(kafka_failure(error)) from None
    except KeyboardInterrupt:
        raise click.exceptions.Exit(INTERRUPTED_EXIT_CODE) from None


def kafka_failure(error: Exception) -> ServiceError:
    """Return the error of a Kafka client as a message with its remedy; other exceptions are raised again."""
    package = type(error).__module__.partition(".")[0]
    if package in {"cimpl", "confluent_kafka"}:
        from stream_masker.service.observability.logs import describe

        return ServiceError(describe(error))
    if package in {"kafka", "aiokafka"}:
        return ServiceError(f"Kafka: {type(error).__name__}: {error}")
    raise error


def unwritten_output(error: OSError) -> ServiceError:
    """Return the error of an output that cannot be written; other operating system errors are raised again."""
    if error.errno not in WRITE_ERRORS:
        raise error
    discard_unwritten_output()
    kind = ClosedOutputError if error.errno == errno.EPIPE else ServiceError
    return kind(f"{error.filename or 'standard output'} cannot be written: {error.strerror}")


def open_closed_output() -> None:
    """If standard output is closed, let it fail when it is written: Python would leave out what is written to it."""
    if sys.stdout is None:
        unwritable = os.open(os.devnull, os.O_RDONLY)
        if unwritable != STANDARD_OUTPUT:
            os.dup2(unwritable, STANDARD_OUTPUT)
            os.close(unwritable)
        sys.stdout = open(STANDARD_OUTPUT, "w", closefd=False)  # noqa: SIM115 - open as long as the process


def discard_unwritten_output() -> None:
    """If standard output cannot be written, let it lead nowhere: Python would fail again when it flushes it at exit."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        with suppress(OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, sys.stdout.fileno())
            os.close(nowhere)


@click.group(cls=CommandGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="stream-masker")
def main() -> None:
    """Mask nominal health data in Kafka by semantic noise, keeping its meaning, mean, dispersion and correlation.

    Every command that needs a configuration reads it from --config, from the environment variable
    STREAM_MASKER_CONFIG or from ./stream-masker.yaml. Variables STREAM_MASKER__SECTION__KEY=value override its keys.

    \b
    Examples:
      stream-masker demo --records 20000
      stream-masker config check --config discharges.yaml
      stream-masker mask --config discharges.yaml events.jsonl masked.jsonl
      STREAM_MASKER__HTTP__PORT=9465 stream-masker worker --config discharges.yaml
    """
    protect_process()
    configure_command_log()
