"""What a worker imports: it starts within seconds, so nothing that it does not use."""

import subprocess
import sys

import pytest

UNUSED = ("kafka", "networkx", "faust", "simple_icd_10_cm", "rich", "dcor")


@pytest.mark.parametrize("module", ["cli.worker", "service.worker.run"])
def test_a_worker_imports_nothing_that_it_does_not_use(module):
    code = f"import sys, stream_masker.{module}; print(*sys.modules)"
    imported = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert f"stream_masker.{module}" in imported
    assert not set(UNUSED) & set(imported)
