"""The fingerprint of a kernel, by which a process finds what another one has compiled."""

from __future__ import annotations

import os
import subprocess
import sys

SCRIPT = """\
from stream_masker.core.kernels.fingerprint import fingerprint
from stream_masker.core.mechanisms.transport.scaling.products import entry_products
print(fingerprint(entry_products))
"""


def test_it_is_the_same_in_processes_whose_sets_have_other_orders() -> None:
    """A kernel with two options of the compiler in a set was compiled again at every second start."""
    environments = ({**os.environ, "PYTHONHASHSEED": str(seed)} for seed in range(1, 5))
    found = {subprocess.check_output([sys.executable, "-P", "-c", SCRIPT], env=one) for one in environments}
    assert len(found) == 1
