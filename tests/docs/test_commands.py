"""The commands of the documentation: they exist, with their options, and those that need no broker succeed."""

from __future__ import annotations

import gzip
import re
import shlex
import shutil
import subprocess
from itertools import groupby

import pytest
from click.testing import CliRunner
from support.documentation import ROOT, blocks, configuration_text
from support.small_configuration import write_secret

from stream_masker.cli import COMMANDS, main

ALONE = re.compile(r"((head|printf|STREAM_MASKER__\S+|stream-masker (?!topics|worker|calibrator|audit|demo)).*\n)+")
"""A block whose commands need only this package."""


def commands():
    """Every command of every shell block, as words."""
    for block in blocks("sh"):
        for line in block.text.replace("\\\n", " ").splitlines():
            lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
            lexer.whitespace_split = True
            for end, words in groupby(lexer, key=lambda token: set(token) <= set("|&;<>()")):
                if not end:
                    yield [word for word in words if not re.fullmatch(r"[A-Z_]+=.*", word)]


def test_every_command_exists_with_its_options():
    found = list(commands())
    ours = {tuple(words[1:]) for words in found if words[:1] == ["stream-masker"]}
    assert {words[0] for words in ours} == set(COMMANDS)
    for words in ours:
        shown = CliRunner().invoke(main, [*(words[:2] if words[0] in ("config", "ontology") else words[:1]), "--help"])
        assert shown.exit_code == 0, words
        assert all(word.split("=")[0] in shown.output for word in words if word.startswith("--")), words
    scripts = {words[1] for words in found if words[:1] == ["python"] and words[1].endswith(".py")}
    assert len(scripts) >= 2
    assert [script for script in scripts if not (ROOT / script).exists()] == []


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run a script in a folder with the configuration of the documentation; return what its commands say.

    The commands of this package run in this process alone, with few events.
    """
    monkeypatch.chdir(tmp_path)
    (tmp_path / "stream-masker.yaml").write_text(configuration_text())
    write_secret(tmp_path, content=bytes(32))

    def ran(script, **variables):
        said = []
        small = re.sub(r"--(synthetic|records) \d+", r"--\1 150", script)
        small = small.replace("evaluate", "evaluate --processes 1")
        for line in small.replace("\\\n", " ").splitlines():
            assigned, command, words = line.partition("stream-masker ")
            if not command:
                subprocess.run(["bash", "-euo", "pipefail", "-c", line], check=True)
                continue
            environment = dict(word.split("=", 1) for word in shlex.split(assigned))
            done = CliRunner(env={**variables, **environment}).invoke(main, shlex.split(words))
            assert done.exit_code == 0, done.output
            said.append(done.output)
        return "".join(said)

    return ran


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ["configuration", "getting-started", "methods", "ontologies"])
def test_the_commands_of_a_page_run(name, run):
    shown = [block.text for block in blocks("sh", page=f"docs/{name}.md") if ALONE.fullmatch(block.text)]
    assert run("".join(shown), STREAM_MASKER__CALIBRATION__MIN_RECORDS="100")


@pytest.mark.exhaustive
@pytest.mark.usefixtures("no_comparison")
def test_the_commands_of_the_examples_run(tmp_path, run):
    """The second script looks at events one by one, so it gets the first ones only."""
    masking, looking = re.findall(r"```sh\n(.*?)```", (ROOT / "examples" / "README.md").read_text(), re.DOTALL)
    folder = shutil.copytree(ROOT / "examples" / "nested", tmp_path / "examples" / "nested")
    secret = {"STREAM_MASKER_SECRET": "an example, not a secret"}
    assert "masked 2,000, rejected 0" in run(masking, **secret)
    events = gzip.decompress((folder / "events.jsonl.gz").read_bytes()).splitlines()
    (folder / "events.jsonl.gz").write_bytes(gzip.compress(b"\n".join(events[:200])))
    assert "principal (diagnoses.principal.code)" in run(
        looking, **secret, STREAM_MASKER__CALIBRATION__MIN_RECORDS="100"
    )
