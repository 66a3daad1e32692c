"""Kernels: kept on disk if a folder can be written; the notice of a first use."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest
from numba.core import caching, event

from stream_masker.core import kernels

SOURCE = """
from stream_masker.core.kernels import kernel

@kernel
def total(a):
    s = a.dtype.type(0)
    for i in range(a.size):
        s += a[i]
    return s
"""


@pytest.fixture
def source(tmp_path, monkeypatch):
    """A module with a kernel, whose cache is beside it."""
    monkeypatch.setattr(caching.config, "CACHE_DIR", "")
    path = tmp_path / "one.py"
    path.write_text(SOURCE)
    return path


def load(path):
    """Import the module anew, as another process does."""
    spec = importlib.util.spec_from_file_location("stream_masker.one", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_another_process_finds_the_compiled_form(source):
    for hits in (0, 1):
        module = load(source)
        assert module.total(np.arange(4.0)) == 6.0
        assert sum(module.total.stats.cache_hits.values()) == hits


def test_without_a_folder_to_write_kernels_run_all_the_same(source, monkeypatch):
    def refused(*_, **__):
        raise OSError("read-only file system")

    monkeypatch.setattr(caching.tempfile, "TemporaryFile", refused)
    assert load(source).total(np.arange(4.0)) == 6.0


def test_compilation_is_logged_once(source, caplog):
    module = load(source)
    with event.install_listener("numba:compile", kernels.CompilationNotice()):
        for kind in (np.int8, np.int16, np.int32):
            module.total(np.arange(4, dtype=kind))
    own = [line for line in caplog.messages if line.startswith("compiling numerical code for the first use")]
    assert len(own) in (1, 2)  # that of the process, too, if nothing was compiled in it before
