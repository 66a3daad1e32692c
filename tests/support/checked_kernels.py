"""The scanner's kernels as plain Python, with bounds checks on every array access.

Import this module before stream_masker, in a separate process: it disables numba's compiler.
"""

from __future__ import annotations

import os
import sys
import warnings
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path

os.environ["NUMBA_DISABLE_JIT"] = "1"
warnings.simplefilter("ignore", RuntimeWarning)

import numpy as np  # noqa: E402


class Checked(np.ndarray):
    """An array that raises IndexError for negative indices too."""

    def __getitem__(self, index):
        return super().__getitem__(self._inside(index))

    def __setitem__(self, index, value):
        super().__setitem__(self._inside(index), value)

    def _inside(self, index):
        for one, size in zip(index if isinstance(index, tuple) else (index,), self.shape, strict=False):
            if isinstance(one, int | np.integer) and not 0 <= one < size:
                raise IndexError(f"{one} of {size}")
        return index


def _eight(data, at):
    at = int(at)
    if not 0 <= at <= len(data) - 8:
        raise IndexError(f"eight bytes from {at} of {len(data)}")
    return np.asarray(data)[at : at + 8]


def word_at(data, at):
    return np.uint64(int.from_bytes(_eight(data, at).tobytes(), "little"))


def put_word(data, at, word):
    _eight(data, at)[:] = np.frombuffer(int(word).to_bytes(8, "little"), np.uint8)


def lowest_bit(word):
    return (int(word) & -int(word)).bit_length() - 1


def multiply_high(one, other):
    return np.uint64(int(one) * int(other) >> 64)


def checked(value):
    if isinstance(value, tuple):
        return type(value)(*map(checked, value))
    return value.view(Checked) if isinstance(value, np.ndarray) else value


def checked_bits():
    """The module of words and bits with checked access to words, loaded before any other module imports it."""
    path = Path(find_spec("stream_masker").origin).parent / "core" / "kernels" / "bits.py"
    spec = spec_from_file_location("stream_masker.core.kernels.bits", path)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    module.word_at, module.put_word = word_at, put_word
    module.lowest_bit, module.multiply_high = lowest_bit, multiply_high
    return module


def replace_kernels():
    """Replace the kernels that Python calls with checked ones, and leave out the self-check."""
    sys.modules["stream_masker.core.kernels.bits"] = checked_bits()
    from stream_masker.pipeline.codec import fallback
    from stream_masker.pipeline.codec.scanner import codec, render

    fallback.scanner_agrees = lambda: True
    for module, names in (
        (codec, ("scan_all", "render_all", "measure_all")),
        (render, ("find_rendered_texts", "fill_in_missing", "join_numbers")),
    ):
        for name in names:
            kernel = getattr(module, name)
            setattr(module, name, lambda *given, kernel=kernel: kernel(*map(checked, given)))


replace_kernels()
