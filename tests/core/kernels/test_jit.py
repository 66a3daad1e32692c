"""Kernels: kept on disk, also where it can only be read; the notice of a first use."""

from __future__ import annotations

import importlib.util
import math
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from numba.core import caching, event

from stream_masker.core.kernels import jit

SOURCE = """
from stream_masker.core.kernels.jit import inlined, kernel

@inlined
def twice(x):
    return 2 * x

@kernel
def total(a):
    s = a.dtype.type(0)
    for i in range(a.size):
        s += twice(a[i])
    return s / s if s == 0 else s
"""


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module with a kernel, whose cache is beside it."""
    monkeypatch.setattr(caching.config, "CACHE_DIR", "")
    path = tmp_path / "one.py"
    path.write_text(SOURCE)
    return path


def load(path: Path) -> ModuleType:
    """Import the module anew, as another process does."""
    spec = importlib.util.spec_from_file_location("stream_masker.one", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def hits(module: ModuleType) -> int:
    return sum(module.total.stats.cache_hits.values())


def read_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse to create files of any cache; the superuser may write to folders that nobody can write."""

    def refused(*_: object, **__: object) -> None:
        raise OSError("read-only file system")

    monkeypatch.setattr(caching.tempfile, "TemporaryFile", refused)
    monkeypatch.setattr(caching.IndexDataCacheFile, "_open_for_write", refused)


def test_another_process_finds_the_compiled_form(source: Path) -> None:
    first, second = load(source), None
    assert first.total(np.arange(4.0)) == 12.0
    second = load(source)
    assert second.total(np.arange(4.0)) == 12.0
    assert (hits(first), hits(second)) == (0, 1)
    source.write_text(SOURCE.replace("2 * x", "30 * x"))
    assert load(source).total(np.arange(4.0)) == 180.0


def test_a_folder_that_can_only_be_read_is_read(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in an image, whose build has compiled some kernels."""
    load(source).total(np.arange(4.0))
    read_only(monkeypatch)
    image = load(source)
    assert (image.total(np.arange(4.0)), hits(image)) == (12.0, 1)
    assert (image.total(np.arange(4)), hits(image)) == (12, 1)


def test_kernels_divide_as_numpy_does(source: Path) -> None:
    assert math.isnan(load(source).total(np.zeros(1)))


def test_a_long_compilation_is_logged_once(source: Path, monkeypatch: pytest.MonkeyPatch, caplog) -> None:
    monkeypatch.setattr(jit, "SILENT_SECONDS", 1e6)
    module = load(source)
    with event.install_listener("numba:compile", jit._CompilationNotice()):
        module.total(np.arange(4.0))
        assert not caplog.messages
        monkeypatch.setattr(jit, "SILENT_SECONDS", 0.0)
        monkeypatch.setattr(jit.NOTICE, "_said", True)
        for kind in (np.int8, np.int16, np.int32):
            module.total(np.arange(4, dtype=kind))
    assert [line.split(",")[0] for line in caplog.messages] == ["compiling numerical code for the first use"]
