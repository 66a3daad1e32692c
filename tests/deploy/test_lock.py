"""The locked dependencies of the image: complete, with hashes, and within the bounds of the project."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
DECLARED = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["registry"]]
DEPENDENCIES = [Requirement(one) for one in DECLARED]
LOCKED = re.findall(r"^(\S+)==(\S+)((?: \\\n\s+--hash=\S+)+)$", (ROOT / "deploy/requirements.lock").read_text(), re.M)

PRIVATELY_OVERRIDDEN = ["aiokafka", "faust-streaming", "numba"]
"""Libraries whose private names this project uses. Another minor version may not have these names."""


def test_every_locked_dependency_has_hashes():
    lines = (ROOT / "deploy/requirements.lock").read_text().splitlines()
    assert len(LOCKED) == sum("==" in line for line in lines) > 30
    for name, _, hashes in LOCKED:
        assert re.findall(r"--hash=sha256:[0-9a-f]{64}(?=\s|$)", hashes), name
        assert hashes.count("--hash=") == hashes.count("--hash=sha256:"), name


@pytest.mark.parametrize("dependency", DEPENDENCIES, ids=str)
def test_locked_version_is_within_the_bounds(dependency):
    versions = {canonicalize_name(locked): version for locked, version, _ in LOCKED}
    assert dependency.specifier.contains(versions[canonicalize_name(dependency.name)])


def test_serdes_of_the_schema_registry_are_locked():
    """The extra of the image: what the client needs for each kind of schema and for requests to the registry."""
    locked = {name for name, _, _ in LOCKED}
    assert {"fastavro", "avro", "jsonschema", "protobuf", "googleapis-common-protos", "httpx2", "authlib"} <= locked


@pytest.mark.parametrize("name", PRIVATELY_OVERRIDDEN)
def test_libraries_with_private_names_in_use_have_an_upper_bound(name):
    (dependency,) = (one for one in DEPENDENCIES if canonicalize_name(one.name) == name)
    assert any(one.operator in {"<", "==", "~="} for one in dependency.specifier)


@pytest.mark.scheduled
def test_all_dependencies_but_faust_have_wheels_for_arm64(tmp_path):
    """Those that the image can install there; pip looks for them in the package index."""
    locked = "".join(f"{name}=={version}{hashes}\n" for name, version, hashes in LOCKED if name != "faust-streaming")
    (tmp_path / "requirements.lock").write_text(locked)
    platforms = [f"--platform=manylinux_{glibc}_aarch64" for glibc in ("2_17", "2_28", "2_34")]
    options = ["--python-version=3.11", "--only-binary=:all:", "--require-hashes", "--no-deps", "--quiet"]
    command = [sys.executable, "-m", "pip", "download", *platforms, "--platform=manylinux2014_aarch64", *options]
    done = subprocess.run(
        [*command, "-r", "requirements.lock"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert len(list(tmp_path.glob("*.whl"))) == len(LOCKED) - 1
