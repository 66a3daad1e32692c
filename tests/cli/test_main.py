"""The command line as a whole: help, errors, exit codes, and what ``--quiet`` and ``--json`` mean for every command."""

from __future__ import annotations

import json
import logging
import signal
import subprocess
import sys

import click
import pytest
from support.file_commands import LINES, run, write

from stream_masker.cli import COMMANDS, main
from stream_masker.errors import ConfigurationError, OntologyError, ParameterError, ServiceError, StatisticsError
from stream_masker.service.calibrator import process
from stream_masker.service.demo import run as demonstration
from stream_masker.service.observability import logs
from stream_masker.service.worker import run as worker

HEAVY = ("numba", "numpy", "pydantic", "confluent_kafka", "kafka", "faust", "jsonschema", "networkx", "rich")
SHORT = ("--mechanism", "pram", "--alpha", "0.3", "--records", "60", "--processes", "1")
CONFIG = ("-c", "stream-masker.yaml")
RESULTS = {
    "demo": (("--records", "1000"), {"masked"}),
    "mask": ((*CONFIG, "events.jsonl", "out.jsonl"), {"masked", "rejected", "sentences"}),
    "calibrate": ((*CONFIG, "events.jsonl", "-o", "snapshot.json"), {"records", "sentences"}),
    "evaluate": ((*CONFIG, *SHORT, "events.jsonl"), {"measurements", "records"}),
    "worker": ((*CONFIG, "--http-port", "0"), {"time", "level", "logger", "message"}),
    "calibrator": ((*CONFIG, "--http-port", "0"), {"time", "level", "logger", "message"}),
    "produce": ((*CONFIG, "--synthetic", "10", "--out", "simulated.jsonl"), {"events", "target"}),
    "config init": (("--events", "events.jsonl", "--ontology", "tree=tree.csv"), {"attributes", "secret"}),
    "config check": (CONFIG, {"valid", "hash"}),
    "config show": (CONFIG, {"attributes", "topics"}),
    "ontology inspect": (("tree.csv",), {"root", "leaves"}),
    "ontology map": (("tree.csv", "codes.txt"), {"line", "concept", "match"}),
}
"""The arguments of each command, and keys of its result."""

WITH_KAFKA = {"audit", "topics"}
"""The commands whose tests need Kafka."""


def commands(group=main, path=()):
    """Yield every command and group below a group, with the words that call it."""
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        yield (*path, name), command
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))


def python(code, *arguments, **options):
    command = [sys.executable, "-c", f"from stream_masker.cli import main\n{code}", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


def test_help_imports_nothing_heavy():
    loaded = f"print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)"
    with python(f"import sys\nmain(['--help'], standalone_mode=False)\n{loaded}") as process:
        assert process.stderr.read() == "[]\n"


def test_help_has_examples_and_describes_every_option():
    for path, command in commands():
        output = run(*path, "--help").output
        if not isinstance(command, click.Group):
            assert f"Examples:\n    stream-masker {' '.join(path)}" in output, path
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
    ("error", "code", "message"),
    [
        (ConfigurationError("what"), 2, "Error: what\n"),
        (ParameterError("what"), 2, "Error: what\n"),
        (OntologyError("what"), 2, "Error: what\n"),
        (ServiceError("what"), 1, "Error: what\n"),
        (StatisticsError("what"), 1, "Error: what\n"),
        (KeyboardInterrupt(), 1, "\nAborted!\n"),
    ],
)
def test_errors_are_one_line_with_an_exit_code(failing, error, code, message):
    failing(error)
    result = run("fail", code=code)
    assert (result.stdout, result.stderr) == ("", message)


def test_every_command_protects_the_memory_of_its_process(monkeypatch):
    """The group of all commands does; ``tests/service/configuration/test_secret.py`` tests what it does."""
    calls = []
    monkeypatch.setattr("stream_masker.cli.protect_process", lambda: calls.append("protected"))
    run("ontology", "inspect", "icd10cm")
    assert calls == ["protected"]


def test_a_reader_that_has_enough_ends_the_command_silently(tmp_path):
    (tmp_path / "codes").write_text("a\n" * 60_000)
    (tmp_path / "o.csv").write_text("concept,parent\na,\n")
    with python("main()", "ontology", "map", "o.csv", "codes", cwd=tmp_path) as process:
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait(timeout=60) == 1


@pytest.fixture
def here(tmp_path, config, monkeypatch):
    """A folder with events and codes, and processes of the service that only log."""
    write(tmp_path / "events.jsonl", LINES)
    (tmp_path / "codes.txt").write_text("A1\nnothing\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(worker, "run_worker", logging_process)
    monkeypatch.setattr(process, "run_calibrator", logging_process)
    monkeypatch.setattr(demonstration, "run_demo", lambda console, *_, **__: demonstrated(console))
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield tmp_path
    for number, handler in handlers.items():
        signal.signal(number, handler)
    logs.configure_logs("warning")


def logging_process(*_, **__):
    logging.getLogger("process").warning("brokers do not answer")


def demonstrated(console):
    console.print("progress")
    return "1,000 masked", {"masked": 1_000}


def test_every_command_is_tried_and_has_both_options():
    tried = {" ".join(path): command for path, command in commands() if not isinstance(command, click.Group)}
    assert set(tried) == {*RESULTS, *WITH_KAFKA}
    for command in tried.values():
        assert {"-q", "--quiet", "--json"} <= {name for parameter in command.params for name in parameter.opts}


@pytest.mark.parametrize("path", RESULTS)
def test_json_is_a_document_a_line_on_standard_output_and_quiet_leaves_warnings_only(here, path):
    arguments, keys = RESULTS[path]
    done = run(*path.split(), *arguments, "--json", "--quiet")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert lines
    assert lines[0].keys() >= keys
    assert "progress" not in done.output
    assert all("WARNING" in line or line.startswith("{") for line in done.stderr.splitlines())
