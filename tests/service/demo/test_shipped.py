"""What an installation contains in compiled form, and the hook of the build that compiles it."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.documentation import ROOT

from stream_masker.core.cache_folder import SHIPPED
from stream_masker.core.kernels.disk_cache import kernels_folder
from stream_masker.core.kernels.fingerprint import build_digest
from stream_masker.core.ontology.formats.icd10cm import ICD10CM_PACKAGE
from stream_masker.service.demo.shipped import REHEARSALS, run_rehearsals

COUNT = """
import sys
from stream_masker.core.kernels.disk_cache import compilations_reported
from stream_masker.service.demo.shipped import REHEARSALS

with compilations_reported(print):
    REHEARSALS[sys.argv[1]]()
"""

LOAD = """
import sys
from pathlib import Path
from stream_masker.core.ontology import Ontology, sources
from stream_masker.core.ontology.compiled import write_compiled

write_compiled(Ontology.load("icd10cm").data, Path(sys.argv[1]), source="icd10cm")
print(sources.__file__, "simple_icd_10_cm" in sys.modules)
"""
WHEEL_SOURCES = (
    "pyproject.toml",
    "README.md",
    "LICENSE",
    "deploy/hatch_build.py",
    "schemas",
    "stream_masker",
    "docs/kafka/alerts.md",
)

pytest.importorskip("hatchling", reason="install the extra test: no hatchling")
SOURCE = importlib.util.spec_from_file_location("hatch_build", ROOT / "deploy" / "hatch_build.py")
assert SOURCE is not None
assert SOURCE.loader is not None
hatch_build = importlib.util.module_from_spec(SOURCE)
SOURCE.loader.exec_module(hatch_build)


@pytest.mark.exhaustive
@pytest.mark.skipif(not SHIPPED.exists(), reason="this installation is editable or was built without kernels")
@pytest.mark.parametrize("name", REHEARSALS)
def test_the_first_use_of_an_installation_compiles_nothing(tmp_path, name):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-P", "-c", COUNT, name], env=environment, capture_output=True, check=True)
    assert done.stdout == b""


@pytest.mark.parametrize(("stamp", "kept"), [(build_digest(), True), ("another build", False)])
def test_kernels_of_another_build_and_all_ontologies_are_removed(tmp_path, stamp, kept):
    folder = tmp_path / "kernels"
    folder.mkdir()
    (folder / "build").write_text(stamp)
    (folder / "total-1.kernel").touch()
    (folder / "old.ontology").touch()
    assert run_rehearsals(folder, []) == 0
    assert not (folder / "old.ontology").exists()
    assert (folder / "total-1.kernel").exists() == kept
    assert (folder / "build").read_text() == build_digest()


def test_failed_rehearsals_are_counted(tmp_path, capfd):
    assert run_rehearsals(tmp_path / "kernels", ["no such name"]) == 1
    assert "KeyError: 'no such name'" in capfd.readouterr().err


@pytest.fixture
def built(tmp_path, monkeypatch):
    """Runs the hook for a version of the wheel; returns what it adds to the wheel, and its messages."""
    folder = tmp_path / "build" / "compiled" / sys.implementation.cache_tag
    folder.mkdir(parents=True)
    for name in ("icd.ontology", "total-1.kernel"):
        (folder / name).touch()

    def run(version: str, *, code: int = 0, switch: str = "") -> tuple[dict[str, Any], list[str]]:
        data: dict[str, Any] = {"force_include": {}}
        messages: list[str] = []
        app = SimpleNamespace(display_info=messages.append, display_warning=messages.append)
        monkeypatch.setenv("STREAM_MASKER_BUILD_KERNELS", switch)
        monkeypatch.setattr(subprocess, "run", lambda *_, **__: SimpleNamespace(returncode=code))
        hook = hatch_build.ShippedFiles(str(tmp_path), {}, None, None, str(tmp_path), "wheel", app)
        hook.initialize(version, data)
        return data, messages

    return run


def included(folder: Path, *names: str) -> dict[str, str]:
    compiled = folder / "build" / "compiled" / sys.implementation.cache_tag
    return {str(compiled / name): f"stream_masker/compiled/{name}" for name in names}


def test_a_wheel_contains_ontologies_and_kernels_and_is_for_this_platform(built, tmp_path):
    data, _ = built("standard")
    files = included(tmp_path, "icd.ontology", "total-1.kernel")
    assert data == {"force_include": files, "pure_python": False, "infer_tag": True}
    assert Path("stream_masker/compiled").parts == SHIPPED.parts[-2:]


def test_an_editable_installation_contains_nothing(built):
    assert built("editable") == ({"force_include": {}}, [])


def test_the_switch_leaves_the_kernels_out(built, tmp_path):
    assert built("standard", switch="0") == ({"force_include": included(tmp_path, "icd.ontology")}, [])


def test_a_wheel_without_kernels_is_built_if_they_do_not_compile(built, tmp_path):
    data, messages = built("standard", code=1)
    assert data == {"force_include": included(tmp_path, "icd.ontology")}
    assert messages[-1] == "not everything compiled; the first use compiles the rest"


def unpacked_wheel(folder: Path) -> Path:
    """Build the wheel of this source tree, without kernels, and return the folder of its files."""
    for name in WHEEL_SOURCES:
        source, target = ROOT / name, folder / "source" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(source, target) if source.is_dir() else shutil.copy(source, target)
    environment = {**os.environ, "STREAM_MASKER_BUILD_KERNELS": "0", "HOME": str(folder / "home")}
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=folder / "source", env=environment, check=True, capture_output=True)
    (wheel,) = folder.glob("*-py3-none-any.whl")
    zipfile.ZipFile(wheel).extractall(folder / "unpacked")
    return folder / "unpacked"


def package_alone(folder: Path) -> Path:
    """Return a folder that contains the installed package; that of a wheel, if the installation contains nothing."""
    if not SHIPPED.exists():
        return unpacked_wheel(folder)
    folder.mkdir()
    (folder / SHIPPED.parent.name).symlink_to(SHIPPED.parent)
    return folder


def load(folder: Path, *path: Path) -> tuple[bool, bytes, list[str]]:
    """Load ICD-10-CM in a new process, with this path before that of this process, and its files in a new folder.

    Return whether the process parsed it, its compiled form, and the suffixes of the files in the cache.
    """
    folder.mkdir()
    cache, written = folder / "cache", folder / "loaded.ontology"
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, path)),
        "HOME": str(folder),
        "STREAM_MASKER_CACHE": str(cache),
        "NUMBA_CACHE_DIR": str(kernels_folder()),
    }
    command = [sys.executable, "-P", "-c", LOAD, str(written)]
    file, parsed = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout.split()
    assert Path(file).is_relative_to(path[0])
    return parsed == "True", written.read_bytes(), sorted(file.suffix for file in cache.glob("*"))


def other_source(folder: Path, pattern: str, before: str, after: str) -> Path:
    """Return a folder with a copy of the package that contains ICD-10-CM, with another text in one file."""
    installed = Path(str(importlib.metadata.distribution(ICD10CM_PACKAGE).locate_file("")))
    for part in installed.glob("simple_icd_10_cm*"):
        shutil.copytree(part, folder / part.name)
    (file,) = folder.glob(pattern)
    content = file.read_text()
    assert before in content
    file.write_text(content.replace(before, after))
    return folder


@pytest.mark.exhaustive
def test_an_installation_parses_icd10cm_only_if_its_version_or_content_differs(tmp_path):
    package = package_alone(tmp_path / "package")
    parsed, shipped, cached = load(tmp_path / "first", package)
    assert (parsed, cached) == (False, [])

    newer = other_source(tmp_path / "newer", "*.dist-info/METADATA", "\nVersion: ", "\nVersion: 9")
    assert load(tmp_path / "second", package, newer) == (True, shipped, [".lock", ".ontology"])

    other = other_source(tmp_path / "other", "*/data/*.xml", "<desc>Cholera</desc>", "<desc>Other label</desc>")
    parsed, content, cached = load(tmp_path / "third", package, other)
    assert (parsed, b"Other label" in content, cached) == (True, True, [".lock", ".ontology"])
