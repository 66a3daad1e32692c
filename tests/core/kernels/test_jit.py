"""Kernels: kept on disk, also where it can only be read; the notice of a first use; bits and sums."""

from __future__ import annotations

import importlib.util
import math
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba.core import caching, event

from stream_masker.core.kernels import bits, jit
from stream_masker.core.kernels.jit import kernel
from stream_masker.core.kernels.sums import sum_of, sum_of_products

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
WORDS = st.integers(0, 2**64 - 1)


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


@kernel
def all_bits(word: np.uint64, other: np.uint64):
    return bits.popcount(word), bits.lowest_bit(word), bits.highest_bit(word), bits.multiply_high(word, other)


@given(WORDS.filter(bool), WORDS)
def test_bits_are_those_of_integers(word: int, other: int) -> None:
    expected = word.bit_count(), (word & -word).bit_length() - 1, word.bit_length() - 1, word * other >> 64
    assert all_bits(np.uint64(word), np.uint64(other)) == expected


@kernel
def moved(data, at, to):
    word = bits.word_at(data, at)
    bits.put_word(data, to, word)
    return word


@given(st.binary(min_size=20, max_size=20), st.integers(0, 4), st.integers(8, 12))
def test_words_of_bytes(content: bytes, at: int, to: int) -> None:
    data = np.frombuffer(content, np.uint8).copy()
    assert moved(data, at, to) == int.from_bytes(content[at : at + 8], "little")
    assert data.tobytes() == content[:to] + content[at : at + 8] + content[to + 8 :]


@kernel
def both_sums(one, other):
    return sum_of(one), sum_of_products(one, other)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("size", [0, 1, 31, 1000])
def test_sums(kind: type, size: int) -> None:
    one, other = np.random.default_rng(size).normal(size=(2, size)).astype(kind)
    expected = math.fsum(one.tolist()), math.fsum((one.astype(float) * other.astype(float)).tolist())
    np.testing.assert_allclose(both_sums(one, other), expected, rtol=0, atol=1e3 * np.finfo(kind).eps)
