"""The image: the Dockerfile and the locked dependencies. ``deploy/verify`` builds and runs it."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from support.documentation import ROOT

TEXT = (ROOT / "deploy" / "Dockerfile").read_text()
FINAL = TEXT.rpartition("\nFROM ")[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
DEPENDENCIES = [Requirement(one) for one in (*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["registry"])]
LOCK = (ROOT / "deploy" / "requirements.lock").read_text()
LOCKED = {
    canonicalize_name(name): version
    for name, version in re.findall(r"^(\S+)==(\S+)(?: \\\n\s+--hash=sha256:[0-9a-f]{64})+$", LOCK, re.M)
}


def test_lint_finds_nothing() -> None:
    program = shutil.which("hadolint", path=str(Path(sys.executable).parent)) or shutil.which("hadolint")
    assert program is not None, "install the extra test: no hadolint"
    done = subprocess.run([program, str(ROOT / "deploy" / "Dockerfile")], capture_output=True, text=True, check=False)
    assert done.stdout + done.stderr == ""


def test_the_final_stage_has_neither_root_nor_the_tools_of_the_build() -> None:
    assert re.findall(r"^USER (.*)$", FINAL, re.M) == ["65532:65532"]
    assert re.findall(r"^COPY (.*)$", FINAL, re.M) == ["--from=build /opt/stream-masker /opt/stream-masker"]
    assert "venv --without-pip /opt/stream-masker" in TEXT
    assert "uninstall --yes hatchling" in TEXT


def test_every_file_that_is_copied_is_in_the_context() -> None:
    admitted = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    assert {"pyproject.toml", "stream_masker", *re.findall(r"^COPY (deploy\S+)", TEXT, re.M)} <= set(admitted)


def test_every_dependency_is_locked_within_its_bounds_and_with_a_hash() -> None:
    locked = {one.name: LOCKED[canonicalize_name(one.name)] for one in DEPENDENCIES}
    assert [one for one in DEPENDENCIES if not one.specifier.contains(locked[one.name])] == []
    assert len(LOCKED) == LOCK.count("==") > 30
