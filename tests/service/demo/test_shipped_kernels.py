"""The kernels that an installation contains, and the hook of the build that compiles them."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.documentation import ROOT

from stream_masker.core.kernels.disk_cache import SHIPPED
from stream_masker.core.kernels.fingerprint import build_digest
from stream_masker.service.demo import shipped_kernels
from stream_masker.service.demo.shipped_kernels import REHEARSALS, run_rehearsals

COUNT = """
import sys
from stream_masker.core.kernels.compilations import compilations_reported
from stream_masker.service.demo.shipped_kernels import REHEARSALS

with compilations_reported(print):
    REHEARSALS[sys.argv[1]]()
"""

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
def test_kernels_of_another_build_are_removed(tmp_path, monkeypatch, stamp, kept):
    monkeypatch.setattr(shipped_kernels, "REHEARSALS", {})
    folder = tmp_path / "kernels"
    folder.mkdir()
    (folder / "build").write_text(stamp)
    (folder / "total-1.kernel").touch()
    assert run_rehearsals(folder) == 0
    assert (folder / "total-1.kernel").exists() == kept
    assert (folder / "build").read_text() == build_digest()


def test_failed_rehearsals_are_counted(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(shipped_kernels, "REHEARSALS", {"no such name": None})
    assert run_rehearsals(tmp_path / "kernels") == 1
    assert "KeyError: 'no such name'" in capfd.readouterr().err


@pytest.fixture
def built(tmp_path, monkeypatch):
    """Runs the hook for a version of the wheel; returns what it adds to the wheel, and its messages."""

    def run(version: str, *, code: int = 0, switch: str = "") -> tuple[dict[str, Any], list[str]]:
        data: dict[str, Any] = {"force_include": {}}
        messages: list[str] = []
        app = SimpleNamespace(display_info=messages.append, display_warning=messages.append)
        monkeypatch.setenv("STREAM_MASKER_BUILD_KERNELS", switch)
        monkeypatch.setattr(subprocess, "run", lambda *_, **__: SimpleNamespace(returncode=code))
        hook = hatch_build.ShippedKernels(str(tmp_path), {}, None, None, str(tmp_path), "wheel", app)
        hook.initialize(version, data)
        return data, messages

    return run


def test_a_wheel_contains_the_kernels_and_is_for_this_platform(built, tmp_path):
    data, _ = built("standard")
    folder = tmp_path / "build" / "kernels"
    assert data == {"force_include": {str(folder): "stream_masker/compiled"}, "pure_python": False, "infer_tag": True}
    assert Path("stream_masker/compiled").parts == SHIPPED.parts[-2:]


@pytest.mark.parametrize(("version", "switch"), [("editable", ""), ("standard", "0")])
def test_an_editable_installation_and_the_switch_leave_kernels_out(built, version, switch):
    assert built(version, switch=switch) == ({"force_include": {}}, [])


def test_a_wheel_without_kernels_is_built_if_they_do_not_compile(built):
    data, messages = built("standard", code=1)
    assert data == {"force_include": {}}
    assert messages[-1] == "the kernels did not compile; the first use compiles them"
