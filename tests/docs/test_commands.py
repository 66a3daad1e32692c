"""The commands of the documentation: they exist, with their options, and those that need no broker succeed."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from itertools import groupby

import pytest
from click.testing import CliRunner
from support.documentation import ROOT, blocks, configuration_text
from support.documented import COMMANDS, main
from support.small_configuration import write_secret

GROUPS = ("config", "ontology")
FEWER = ("--synthetic 3000", "--synthetic 1200")
"""What the test replaces: the page for a start runs eight commands on its events."""

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


def test_every_command_exists_with_its_options():
    ours = [words[1:] for words in commands() if words[:1] == ["stream-masker"]]
    assert {words[0] for words in ours} == set(COMMANDS)
    for words in ours:
        shown = CliRunner().invoke(main, [*(words[:2] if words[0] in GROUPS else words[:1]), "--help"])
        assert shown.exit_code == 0, words
        assert all(word.split("=")[0] in shown.output for word in words if word.startswith("--")), words


def test_every_benchmark_that_is_named_exists_with_its_options():
    text = "\n".join(path.read_text() for path in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
    named = set(re.findall(r"python (tests/benchmarks/[\w/]+\.py)((?: --?[\w.]+)*)", text))
    assert len(named) >= 5
    streaming = (ROOT / "tests" / "benchmarks" / "streaming.py").read_text()
    for script, options in named:
        source = (ROOT / script).read_text()
        source += streaming if "from streaming import" in source else ""
        assert all(f'"{option}"' in source for option in re.findall(r"--[a-z]+", options)), (script, options)


@pytest.mark.exhaustive
@pytest.mark.parametrize("page", LOCAL)
def test_the_commands_of_a_page_run(page, tmp_path):
    shown = [b.text for b in blocks("sh", page=page) if not b.needs_kafka and not b.runs_elsewhere]
    (tmp_path / "stream-masker.yaml").write_text(configuration_text())
    write_secret(tmp_path, content=bytes(32))
    program = tmp_path / "bin" / "stream-masker"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -P -m stream_masker "$@"\n')
    program.chmod(0o755)
    environment = {**os.environ, "PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}"}
    command = ["bash", "-euo", "pipefail", "-c", "".join(shown).replace(*FEWER)]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=1_500
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
