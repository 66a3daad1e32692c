"""The command line of stream-masker: one module per command, which only connects options and functions.

``COMMANDS`` registers the commands. A command is imported when it is called, which keeps ``--help`` fast. ``options``
holds the options that several commands share.
"""

from __future__ import annotations

import importlib
import io
import sys
from typing import Any, cast

import click

from stream_masker import __version__
from stream_masker.cli.options import Group
from stream_masker.errors import (
    ClosedOutputError,
    ConfigurationError,
    OntologyError,
    ParameterError,
    ServiceError,
    StreamMaskerError,
)
from stream_masker.service.process import collect_rarely, protect_process

COMMANDS = {
    "demo": ("stream_masker.cli.demo:demo", "Run the whole service on an embedded broker."),
    "mask": ("stream_masker.cli.mask:command", "Mask a file without a broker."),
    "calibrate": ("stream_masker.cli.mask:calibrate", "Compute statistics from a file of events."),
    "evaluate": ("stream_masker.cli.evaluate:command", "Report utility and risk of methods on a file."),
    "topics": ("stream_masker.cli.topics:topics", "Create and check the topics."),
    "worker": ("stream_masker.cli.processes:worker", "Run a mask worker."),
    "calibrator": ("stream_masker.cli.processes:calibrator", "Run the calibrator."),
    "produce": ("stream_masker.cli.topics:produce", "Publish synthetic events, or write them to a file."),
    "audit": ("stream_masker.cli.topics:audit", "Show the latest masked records, or verify single ones."),
    "config": ("stream_masker.cli.config:command", "Check and show the configuration."),
    "ontology": ("stream_masker.cli.ontology:command", "Inspect an ontology."),
}
"""The location of each command, and its line in the help."""

EXIT_CODES = {
    0: "done, or stopped in order after SIGTERM or SIGINT",
    1: "an error, such as a topic or file that is missing, or more rejections than limits.rejected_share; without a "
    "message if the reader of the output has closed it, as `head` does; interrupted with Ctrl-C",
    2: "a mistake in the command line, the configuration, a parameter or an ontology",
    3: "evaluate: no method is within the limits",
}
"""The exit codes of all commands, and their meaning."""


class CommandGroup(Group):
    """The command group of ``COMMANDS``; prints errors as one message each."""

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

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run the command line. An error ends it with its message and its exit code."""
        try:
            return super().main(*args, **kwargs)
        except Exception as error:  # noqa: BLE001
            message, code = failure_of(error)
            if message:
                click.echo(f"Error: {message}", err=True)
            if isinstance(error, OSError | ServiceError):
                sys.stdout = io.StringIO()  # what standard output could not take would fail again at the exit
            sys.exit(code)


def failure_of(error: Exception) -> tuple[str, int]:
    """Return the message and the exit code of an error, without the text of unexpected ones: it may quote a record."""
    if isinstance(error, StreamMaskerError):
        is_mistake = isinstance(error, ConfigurationError | ParameterError | OntologyError)
        return "" if isinstance(error, ClosedOutputError) else str(error), 2 if is_mistake else 1
    if isinstance(error, OSError):
        what = f"{error.filename} cannot be read or written" if error.filename else "standard output cannot be written"
        return f"{what}: {error.strerror}", 1
    from stream_masker.service.observability.logs import describe

    return describe(error), 1


@click.group(cls=CommandGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="stream-masker")
def main() -> None:
    """Mask nominal health data in Kafka by semantic noise, keeping its meaning, mean, dispersion and correlation.

    Every command that needs a configuration reads it from --config, from the environment variable
    STREAM_MASKER_CONFIG or from ./stream-masker.yaml. Variables STREAM_MASKER__SECTION__KEY=value override its keys.

    \b
    Examples:
      stream-masker demo --records 20000
      stream-masker mask --config discharges.yaml events.jsonl masked.jsonl
      STREAM_MASKER__HTTP__PORT=9465 stream-masker worker --config discharges.yaml
    """
    protect_process()
    collect_rarely()
