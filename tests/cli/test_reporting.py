"""``--quiet`` and ``--json``: every command understands both, and means the same by them."""

from __future__ import annotations

import json
import logging
import signal

import click
import pytest
from support.file_commands import LINES, run, write

from stream_masker.cli import main
from stream_masker.service.calibrator import process
from stream_masker.service.demo import run as demonstration
from stream_masker.service.observability import logs
from stream_masker.service.worker import run as worker

TREE = "tree.csv"
SHORT = ("--mechanism", "pram", "--alpha", "0.3", "--records", "60", "--processes", "1")
RESULTS = {
    "demo": (("--records", "1000"), {"masked"}),
    "mask": (("-c", "CONFIG", "EVENTS", "out.jsonl"), {"masked", "rejected", "sentences"}),
    "calibrate": (("-c", "CONFIG", "EVENTS", "-o", "snapshot.json"), {"records", "sentences"}),
    "evaluate": (("-c", "CONFIG", *SHORT, "EVENTS"), {"measurements", "records"}),
    "topics": (("-c", "CONFIG", "--acls"), {"access"}),
    "worker": (("-c", "CONFIG", "--http-port", "0"), {"time", "level", "logger", "message"}),
    "calibrator": (("-c", "CONFIG", "--http-port", "0"), {"time", "level", "logger", "message"}),
    "produce": (("-c", "CONFIG", "--synthetic", "10", "--out", "simulated.jsonl"), {"events", "file"}),
    "config init": ((), {"attributes", "secret"}),
    "config check": (("-c", "CONFIG"), {"valid", "hash"}),
    "config show": (("-c", "CONFIG"), {"attributes", "topics"}),
    "ontology inspect": ((TREE,), {"root", "leaves"}),
    "ontology map": ((TREE, "codes.txt"), {"line", "concept", "match"}),
}
"""The arguments of each command, and keys of its result. The tests of the others need Kafka."""

SLOW = {"config init"}
"""Commands that one test runs without a path, and the others in ``.ci/run``."""

WITH_KAFKA = {"audit"}


def leaves(group, path=()):
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        if isinstance(command, click.Group):
            yield from leaves(command, (*path, name))
        else:
            yield " ".join((*path, name)), command


COMMANDS = dict(leaves(main))


@pytest.fixture
def here(tmp_path, config, monkeypatch):
    """A folder with events and codes, and processes of the service that only log."""
    write(tmp_path / "events.jsonl", LINES)
    (tmp_path / "codes.txt").write_text("A1\nnothing\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(worker, "run_worker", logging_process)
    monkeypatch.setattr(process, "run_calibrator", logging_process)
    monkeypatch.setattr(demonstration, "run_demo", lambda console, **_: demonstrated(console))
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


def arguments(path):
    names = {"CONFIG": "stream-masker.yaml", "EVENTS": "events.jsonl"}
    return [*path.split(), *(names.get(word, word) for word in RESULTS[path][0])]


def test_every_command_is_tried_and_has_both_options():
    assert set(COMMANDS) == {*RESULTS, *WITH_KAFKA}
    for command in COMMANDS.values():
        assert {"-q", "--quiet", "--json"} <= {name for parameter in command.params for name in parameter.opts}


@pytest.mark.parametrize("path", RESULTS)
def test_json_is_a_document_a_line_on_standard_output(here, path):
    done = run(*arguments(path), "--json")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert lines
    assert lines[0].keys() >= RESULTS[path][1]


@pytest.mark.parametrize(
    "path", [pytest.param(path, marks=pytest.mark.exhaustive) if path in SLOW else path for path in RESULTS]
)
def test_quiet_writes_results_and_warnings_only(here, path):
    done = run(*arguments(path), "--quiet")
    assert "progress" not in done.output
    assert set(done.stderr.splitlines()) <= {line for line in done.stderr.splitlines() if "WARNING" in line}
