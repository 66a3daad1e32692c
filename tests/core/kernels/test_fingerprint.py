"""The fingerprint of a kernel, by which a process finds what another one has compiled."""

from __future__ import annotations

import os
import subprocess
import sys

SCRIPT = """\
from stream_masker.core.kernels.fingerprint import fingerprint
from stream_masker.core.kernels.jit import kernel

@kernel
def is_short(unit):
    return unit in {"ms", "s"}

print(*next(one for one in is_short.py_func.__code__.co_consts if isinstance(one, frozenset)), sep=",")
print(fingerprint(is_short))
"""


def test_it_is_the_same_in_processes_whose_sets_have_other_orders() -> None:
    """A kernel with a set would be compiled again at every second start."""
    runs = [{**os.environ, "PYTHONHASHSEED": str(seed)} for seed in (1, 2)]
    printed = [subprocess.check_output([sys.executable, "-P", "-c", SCRIPT], env=run, text=True) for run in runs]
    orders, fingerprints = zip(*(text.split() for text in printed), strict=True)
    assert len(set(orders)) == 2
    assert len(set(fingerprints)) == 1
