"""The fingerprint of a kernel, by which a process finds what another one has compiled."""

from __future__ import annotations

import os
import subprocess
import sys

SCRIPT = """\
from stream_masker.core.kernels.fingerprint import fingerprint
from stream_masker.core.kernels.jit import reduction

@reduction
def total(values):
    return values.sum()

print(*total.targetoptions["fastmath"], sep=",")
print(fingerprint(total))
"""


def test_it_is_the_same_in_processes_whose_sets_have_other_orders() -> None:
    """A kernel with two options of the compiler in a set was compiled again at every second start."""
    runs = [{**os.environ, "PYTHONHASHSEED": str(seed)} for seed in (1, 2)]
    printed = [subprocess.check_output([sys.executable, "-P", "-c", SCRIPT], env=run, text=True) for run in runs]
    orders, fingerprints = zip(*(text.split() for text in printed), strict=True)
    assert len(set(orders)) == 2
    assert len(set(fingerprints)) == 1
