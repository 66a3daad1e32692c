"""The imports of a worker: only what it uses, so that it starts within seconds."""

import subprocess
import sys

import pytest

UNUSED = ("kafka", "networkx", "faust", "simple_icd_10_cm", "rich", "dcor")


@pytest.mark.parametrize("module", ["cli.worker", "service.worker.run"])
def test_worker_imports_no_unused_libraries(module):
    code = f"import sys, stream_masker.{module}; print(*sys.modules)"
    imported = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert f"stream_masker.{module}" in imported
    assert not set(UNUSED) & set(imported)
