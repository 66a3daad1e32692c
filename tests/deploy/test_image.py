"""The image: the Dockerfile and the locked dependencies. ``deploy/verify`` builds and runs it."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from support.documentation import ROOT

TEXT = (ROOT / "deploy" / "Dockerfile").read_text()
FINAL = TEXT.rpartition("\nFROM ")[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
DEPENDENCIES = [Requirement(one) for one in (*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["registry"])]
LOCK = (ROOT / "deploy" / "requirements.lock").read_text()
LOCKED = {
    canonicalize_name(name): (version, hashes)
    for name, version, hashes in re.findall(r"^(\S+)==(\S+)((?: \\\n\s+--hash=sha256:[0-9a-f]{64})+)$", LOCK, re.M)
}


def lint(file: Path) -> list[str]:
    """Return the findings of hadolint, each with its rule."""
    program = shutil.which("hadolint", path=str(Path(sys.executable).parent)) or shutil.which("hadolint")
    assert program is not None, "install the extra test: no hadolint"
    done = subprocess.run([program, "--no-color", str(file)], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return done.stdout.splitlines()


def test_lint_finds_nothing() -> None:
    assert lint(ROOT / "deploy" / "Dockerfile") == []


def test_the_final_stage_has_neither_root_nor_the_tools_of_the_build() -> None:
    assert re.findall(r"^USER (.*)$", FINAL, re.M) == ["65532:65532"]
    assert re.findall(r"^COPY (.*)$", FINAL, re.M) == ["--from=build /opt/stream-masker /opt/stream-masker"]
    assert "venv --without-pip /opt/stream-masker" in TEXT
    assert "uninstall --yes hatchling" in TEXT


def test_compiled_code_is_for_the_processor_and_in_the_folder_of_the_final_stage() -> None:
    pattern = r"NUMBA_CPU_NAME=\$\{CPU\} NUMBA_CPU_FEATURES= STREAM_MASKER_CACHE=(\S+)"
    assert re.findall(pattern, TEXT) == ["/opt/stream-masker/cache"] * 2


def test_every_file_that_is_copied_is_in_the_context() -> None:
    admitted = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    assert {"pyproject.toml", "stream_masker", *re.findall(r"^COPY (deploy\S+)", TEXT, re.M)} <= set(admitted)


@pytest.mark.parametrize("dependency", DEPENDENCIES, ids=str)
def test_every_dependency_is_locked_within_its_bounds(dependency: Requirement) -> None:
    version, _ = LOCKED[canonicalize_name(dependency.name)]
    assert dependency.specifier.contains(version)


def test_every_locked_dependency_has_a_hash() -> None:
    assert len(LOCKED) == LOCK.count("==") > 30
