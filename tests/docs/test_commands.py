"""The commands of the documentation: they exist, with their options, and those that need no broker succeed."""

from __future__ import annotations

import re
import shlex
from itertools import groupby

import pytest
from click.testing import CliRunner
from support.documentation import DOCS, ROOT, blocks, configuration_text, fewer, shell
from support.small_configuration import write_secret

from stream_masker.cli import COMMANDS, main

GROUPS = ("config", "ontology")
LOCAL = sorted({b.page for b in blocks("sh") if not b.needs_kafka and not b.runs_elsewhere})


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
    ours = [words[1:] for words in commands() if words[:1] == ["stream-masker"]]
    assert {words[0] for words in ours} == set(COMMANDS)
    for words in {tuple(words) for words in ours}:
        shown = CliRunner().invoke(main, [*(words[:2] if words[0] in GROUPS else words[:1]), "--help"])
        assert shown.exit_code == 0, words
        assert all(word.split("=")[0] in shown.output for word in words if word.startswith("--")), words


def test_every_benchmark_that_is_named_exists_with_its_options():
    text = "\n".join(path.read_text() for path in [ROOT / "README.md", *DOCS.rglob("*.md")])
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
    shell(fewer("".join(shown)), tmp_path)


@pytest.mark.exhaustive
def test_the_commands_of_the_examples_run(tmp_path):
    scripts = re.findall(r"```sh\n(.*?)```", (ROOT / "examples" / "README.md").read_text(), re.DOTALL)
    assert len(scripts) == 2
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    said = shell("\n".join(scripts), tmp_path, STREAM_MASKER__CALIBRATION__MIN_RECORDS="1000")
    assert "masked 2,000, rejected 0" in said
    assert "principal (diagnoses.principal.code)" in said
