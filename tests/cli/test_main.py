"""The command line as a whole: help, errors and exit codes."""

from __future__ import annotations

import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from stream_masker import __version__
from stream_masker.cli import COMMANDS, main
from stream_masker.errors import ConfigurationError, OntologyError, ParameterError, ServiceError, StatisticsError

HEAVY = ("numba", "numpy", "pydantic", "confluent_kafka", "kafka", "faust", "jsonschema", "networkx", "rich")


def run(*arguments, **options):
    return CliRunner().invoke(main, list(arguments), prog_name="stream-masker", **options)


def python(code, *arguments, **options):
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False, timeout=120, **options
    )


def test_version_is_printed():
    assert run("--version").output == f"stream-masker, version {__version__}\n"


@pytest.mark.parametrize("arguments", [["--help"], ["--version"]])
def test_help_imports_nothing_heavy(arguments):
    code = f"""
import sys
from stream_masker.cli import main
main({arguments!r}, standalone_mode=False)
print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)
"""
    assert python(code).stderr == "[]\n"


def commands(group, path=()):
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        yield (*path, name), command
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))


def test_help_has_examples_and_describes_every_option():
    for path, command in commands(main):
        output = run(*path, "--help").output
        assert f"  stream-masker {path[0]}" in output.replace("Usage: stream-masker", ""), path
        assert "Example" in output, path
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                assert parameter.help, (path, parameter.name)


@pytest.fixture
def failing(monkeypatch):
    """Register a command that raises the given error."""

    def added(error):
        @click.command()
        def command():
            raise error

        monkeypatch.setitem(COMMANDS, "fail", ("x:y", "Fail."))
        monkeypatch.setattr(type(main), "get_command", lambda self, ctx, name: command)

    return added


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigurationError("what"), 2),
        (ParameterError("what"), 2),
        (OntologyError("what"), 2),
        (ServiceError("what"), 1),
        (StatisticsError("what"), 1),
    ],
)
def test_errors_are_one_line_with_an_exit_code(failing, error, code):
    failing(error)
    result = run("fail")
    assert (result.exit_code, result.stdout, result.stderr) == (code, "", "Error: what\n")


def test_every_command_protects_the_memory_of_its_process(monkeypatch):
    """The group of all commands does; ``tests/service/configuration/test_secret.py`` tests what it does."""
    calls = []
    monkeypatch.setattr("stream_masker.cli.protect_process", lambda: calls.append("protected"))
    assert CliRunner().invoke(main, ["ontology", "inspect", "icd10cm"]).exit_code == 0
    assert calls == ["protected"]


def test_interrupt_is_silent(failing):
    failing(KeyboardInterrupt())
    result = run("fail")
    assert (result.exit_code, result.output) == (130, "")


def test_a_reader_that_has_enough_ends_the_command_silently(tmp_path):
    codes = tmp_path / "codes"
    codes.write_text("a\n" * 60_000)
    (tmp_path / "o.csv").write_text("concept,parent\na,\n")
    code = "from stream_masker.cli import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", code, "ontology", "map", str(tmp_path / "o.csv"), str(codes)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with process:
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(timeout=60) == 1
