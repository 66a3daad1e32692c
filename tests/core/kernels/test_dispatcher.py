"""Kernels and the parts that they contain."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from stream_masker.core.kernels.jit import inlined, kernel, part


def tiny() -> Any:
    """A kernel, a part that it calls, and a part that this one calls; new dispatchers at each call."""

    @inlined
    def root(value: float) -> float:
        return np.sqrt(value)

    @part
    def checked_root(value: float) -> float:
        if value < 0:
            raise ValueError("no root")
        return root(value)

    @kernel
    def roots(values):
        return sum([checked_root(value) for value in values])

    @kernel
    def half_root(value: float) -> float:
        return checked_root(value) / 2

    return SimpleNamespace(root=root, checked_root=checked_root, roots=roots, half_root=half_root)


@pytest.fixture
def tiny_kernels(tmp_path, monkeypatch) -> Any:
    """``tiny``, with an empty disk cache."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    return tiny()


def test_a_part_has_no_entry_for_python_and_its_kernels_contain_it(tiny_kernels):
    assert tiny_kernels.roots(np.array([4.0, 9.0])) == 5.0
    for function in (tiny_kernels.root, tiny_kernels.checked_root):
        (compiled,) = function.overloads.values()
        assert compiled.library.get_pointer_to_function(compiled.fndesc.llvm_cpython_wrapper_name) == 0
    (compiled,) = tiny_kernels.roots.overloads.values()
    assert compiled.library.get_pointer_to_function(compiled.fndesc.llvm_cpython_wrapper_name) != 0


def test_python_cannot_call_a_part(tiny_kernels):
    with pytest.raises(TypeError, match=r"checked_root is a part, which only kernels call$"):
        tiny_kernels.checked_root(4.0)


def test_parts_and_kernels_are_loaded_from_disk(tiny_kernels):
    assert tiny_kernels.roots(np.array([4.0])) == 2.0
    later = tiny()
    assert (later.half_root(16.0), later.roots(np.array([9.0]))) == (2.0, 3.0)
    for function, hits, misses in ((later.checked_root, 1, 0), (later.half_root, 0, 1), (later.roots, 1, 0)):
        assert (sum(function.stats.cache_hits.values()), sum(function.stats.cache_misses.values())) == (hits, misses)


@pytest.mark.parametrize("loaded", [False, True])
def test_errors_in_parts_are_raised(tiny_kernels, loaded):
    made = tiny_kernels
    if loaded:
        assert made.roots(np.array([4.0])) == 2.0
        made = tiny()
    with pytest.raises(ValueError, match=r"^no root$"):
        made.roots(np.array([-1.0]))
    with pytest.raises(ValueError, match=r"^no root$"):
        made.half_root(-1.0)
