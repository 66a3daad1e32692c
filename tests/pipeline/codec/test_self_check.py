"""The self-check of the scanner: it finds wrong machine code, and the reference codec takes over."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from stream_masker.pipeline.codec import self_check
from stream_masker.pipeline.codec.scanner import codec as scanner_codec

FLAT = {"a": {"path": "diag_1"}, "b": {"path": "diag_2", "missing": "keep"}}


@pytest.fixture(autouse=True)
def _forgotten_result() -> Any:
    self_check.scanner_agrees.cache_clear()
    yield
    self_check.scanner_agrees.cache_clear()


def test_the_scanner_is_correct_here(bench):
    assert self_check.find_difference() is None
    assert bench(FLAT).masker.is_compiled


@pytest.mark.scheduled
def test_the_scanner_is_correct_with_checks_of_array_bounds(tmp_path):
    """With them, LLVM compiled an earlier scanner to code that read negative numbers of its tables as large ones.

    It compiles the whole scanner again. ``test_kernels_stay_inside_their_arrays`` checks the same bounds in Python.
    """
    code = "from stream_masker.pipeline.codec.self_check import find_difference; print(find_difference())"
    environment = {**os.environ, "NUMBA_BOUNDSCHECK": "1", "STREAM_MASKER_CACHE": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "None\n"


def wrong_values(*given: Any) -> Any:
    """``scan_all`` whose values are wrong."""
    result = SCAN_ALL(*given)
    given[6].values[0, :1] = 0
    return result


def wrong_bytes(*given: Any) -> Any:
    """``scan_all`` that writes a wrong byte."""
    result = SCAN_ALL(*given)
    given[6].out[0] = ord("[")
    return result


def too_many(*given: Any) -> Any:
    """``scan_all`` that leaves all records undecided."""
    given[2][:] = 2
    return len(given[2])


def fails(*_: Any) -> Any:
    raise IndexError("index is out of bounds")


def without_kept_values(buffers: Any, places: np.ndarray, *given: Any) -> Any:
    """``render_all`` that writes a placeholder as null."""
    places[0] = -1, 4
    return RENDER_ALL(buffers, places, *given)


SCAN_ALL, RENDER_ALL = scanner_codec.scan_all, scanner_codec.render_all


@pytest.mark.parametrize(
    ("kernel", "wrong", "message"),
    [
        ("scan_all", wrong_values, "it reads other values"),
        ("scan_all", wrong_bytes, "it writes other bytes"),
        ("scan_all", too_many, "it does not decode a plain record"),
        ("scan_all", fails, "it failed with IndexError"),
        ("render_all", without_kept_values, "it writes other bytes"),
    ],
)
def test_wrong_machine_code_is_not_used(bench, monkeypatch, caplog, kernel, wrong, message):
    monkeypatch.setattr(scanner_codec, kernel, wrong)
    with caplog.at_level(logging.ERROR):
        masker = bench(FLAT).masker
    assert not masker.is_compiled
    assert message in caplog.text
    assert [line.levelno for line in caplog.records] == [logging.ERROR]
    bench_with_reference = bench(FLAT)
    assert bench_with_reference.mask_one({"diag_1": "I10", "diag_2": None}) == {"diag_1": "E11.9", "diag_2": None}
