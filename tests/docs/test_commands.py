"""The commands of the documentation: they exist, with their options, and those that need no broker succeed."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from itertools import groupby
from pathlib import Path

import pytest
from click.testing import CliRunner
from support.documentation import ROOT, STARTED, blocks, configuration_text, generator
from support.documented import COMMANDS, main
from support.small_configuration import write_secret

GROUPS = ("config", "ontology")
LARGE = ("docs/evaluation.md", "docs/kafka/sizing.md")
FEWER = ("--synthetic 3000", "--synthetic 1200")
"""What a run of ``.ci/run`` replaces: the page for a start runs eight commands on its events."""

LOCAL = sorted({b.page for b in blocks("sh") if not b.needs_kafka and not b.runs_elsewhere})


def commands():
    """Every command of every shell block, as words."""
    for block in blocks("sh"):
        for line in block.text.replace("\\\n", " ").splitlines():
            for end, words in groupby(tokens(line), key=lambda token: set(token) <= set("|&;<>()")):
                if not end:
                    yield [word for word in words if not re.fullmatch(r"[A-Z_]+=.*", word)]


def tokens(line):
    """The words and operators of a line of shell."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    return lexer


def called(program):
    return [words[1:] for words in commands() if words[:1] == [program]]


def test_every_command_exists_with_its_options():
    ours = called("stream-masker")
    assert {words[0] for words in ours} == set(COMMANDS)
    for words in ours:
        name = words[:2] if words[0] in GROUPS else words[:1]
        shown = CliRunner().invoke(main, [*name, "--help"])
        assert shown.exit_code == 0, words
        assert all(word.split("=")[0] in shown.output for word in words if word.startswith("--")), words


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_has_a_help_with_an_example(name):
    shown = CliRunner().invoke(main, [name, "--help"])
    assert shown.exit_code == 0, shown.output
    assert "Example" in shown.output
    assert f"stream-masker {name}" in shown.output


def test_the_readme_shows_the_two_commands():
    shown = [block.text for block in blocks("sh", "Two commands", "README.md")]
    assert shown == ["pip install . && stream-masker demo --records 20000\n", "pip install '.[test]' && pytest -n 2\n"]


def test_the_command_reference_contains_every_command_with_its_options():
    reference = generator().command_reference()
    for name in COMMANDS:
        command = main.get_command(None, name)
        for path, one in getattr(command, "commands", {"": command}).items():
            assert f"## stream-masker {name} {path}".strip() in reference
            assert all(max(p.opts, key=len) in reference for p in one.params if p.param_type_name == "option")


def test_every_benchmark_and_test_that_is_named_exists():
    text = "\n".join(path.read_text() for path in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
    named = set(re.findall(r"python (tests/benchmarks/\w+\.py)((?: --?[\w.]+)*)", text))
    assert len(named) >= 8
    streaming = (ROOT / "tests" / "benchmarks" / "streaming.py").read_text()
    for script, options in named:
        source = (ROOT / script).read_text()
        source += streaming if "from streaming import" in source else ""
        assert all(f'"{option}"' in source for option in re.findall(r"--[a-z]+", options)), (script, options)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=[pytest.mark.scheduled] if page in LARGE else []) for page in LOCAL]
)
def test_the_commands_of_a_page_run(page, tmp_path):
    """Scheduled: many records or settings; other pages and ``tests/cli/test_evaluate.py`` run the commands for few."""
    check_commands(commands_of(page).replace(*FEWER), tmp_path)


@pytest.mark.scheduled
def test_the_commands_of_the_page_for_a_start_run_with_all_its_events(tmp_path):
    """The test above runs them with fewer."""
    assert FEWER[0] in commands_of(STARTED)
    check_commands(commands_of(STARTED), tmp_path)


def commands_of(page: str) -> str:
    return "".join(b.text for b in blocks("sh", page=page) if not b.needs_kafka and not b.runs_elsewhere)


def check_commands(script: str, folder: Path) -> None:
    """Run commands in a folder with the configuration of the documentation."""
    (folder / "stream-masker.yaml").write_text(configuration_text())
    write_secret(folder, content=bytes(32))
    done = run(script, folder)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]


def run(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a script in a folder, with ``stream-masker`` on the path."""
    programs = folder / "bin"
    programs.mkdir()
    program = programs / "stream-masker"
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -P -m stream_masker "$@"\n')
    program.chmod(0o755)
    environment = {**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
    command = ["bash", "-euo", "pipefail", "-c", script]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=1_500
    )
