"""The scanner's kernels run as plain Python, with every index into every array checked.

To be imported before anything of stream_masker, in a process of its own: numba's compiler is switched off in it.
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
    """An array that refuses indices from the end, too."""

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


def checked(value):
    if isinstance(value, tuple):
        return type(value)(*map(checked, value))
    return value.view(Checked) if isinstance(value, np.ndarray) else value


def machine():
    """The module of machine instructions, loaded before anything imports it, with words that are checked."""
    path = Path(find_spec("stream_masker").origin).parent / "core" / "kernels" / "intrinsics.py"
    spec = spec_from_file_location("stream_masker.core.kernels.intrinsics", path)
    made = module_from_spec(spec)
    spec.loader.exec_module(made)
    made.word_at, made.put_word, made.lowest_bit = word_at, put_word, lowest_bit
    return made


def replace_kernels():
    """Puts checked kernels in the place of those that are called from Python."""
    sys.modules["stream_masker.core.kernels.intrinsics"] = machine()
    from stream_masker.pipeline.codec.scanner import codec, render_cache

    for module, names in (
        (codec, ("scan_all", "render_all", "measure_all")),
        (render_cache, ("find_rendered_texts", "fill_in_missing", "put_all")),
    ):
        for name in names:
            kernel = getattr(module, name)
            setattr(module, name, lambda *given, kernel=kernel: kernel(*map(checked, given)))


replace_kernels()
