"""The folder ``examples``: every command runs, and writes what the folder expects."""

from __future__ import annotations

import gzip
import os
import re
import subprocess
import sys
from pathlib import Path

import orjson
import pytest
import yaml
from support import examples

STRUCTURED = sorted(examples.HEADINGS.keys() - {"debezium", "nested"})
UPDATE = "PYTHONPATH=tests python -m support.examples writes the expected files again"


@pytest.mark.parametrize(
    "name", ["debezium", *(pytest.param(name, marks=pytest.mark.exhaustive) for name in STRUCTURED)]
)
def test_the_command_writes_what_the_example_expects(tmp_path, name):
    """The commands of the README do the same with the nested events."""
    expected = gzip.decompress((examples.FOLDER / name / "expected.jsonl.gz").read_bytes())
    assert expected.count(b"\n") == examples.RECORDS[name]
    assert examples.masked(name, tmp_path) == expected, UPDATE
    assert (tmp_path / "rejected.jsonl").read_bytes() == b""


@pytest.mark.parametrize("name", examples.HEADINGS)
def test_the_example_is_that_of_the_documentation(name):
    content = yaml.safe_load((examples.FOLDER / name / "stream-masker.yaml").read_text())
    documented = examples.documented_configuration(name)
    assert {**content, "secret": None} == {**documented, "secret": None}, UPDATE
    first = gzip.decompress((examples.FOLDER / name / "events.jsonl.gz").read_bytes()).partition(b"\n")[0]
    assert orjson.loads(first) == examples.documented_event(name), UPDATE


@pytest.mark.exhaustive
def test_the_commands_of_the_readme_run(tmp_path):
    scripts = re.findall(r"```sh\n(.*?)```", (examples.FOLDER / "README.md").read_text(), re.DOTALL)
    assert len(scripts) == 2
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "stream-masker").write_text(f'#!/bin/sh\nexec {sys.executable} -P -m stream_masker "$@"\n')
    (tools / "stream-masker").chmod(0o755)
    (tmp_path / "examples").symlink_to(examples.FOLDER)
    environment = {**os.environ, "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", "\n".join(scripts)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"masked {examples.RECORDS['nested']:,}, rejected 0" in done.stderr
    assert "principal (diagnoses.principal.code)" in done.stdout
    assert Path(tmp_path / "masked.jsonl").is_file()
