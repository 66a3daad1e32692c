"""The imports of a worker: only what it uses, so that it starts within seconds."""

import subprocess
import sys

UNUSED = ("kafka", "networkx", "faust", "simple_icd_10_cm", "rich", "dcor")


def test_worker_imports_no_unused_libraries():
    code = "import sys, stream_masker.cli.processes, stream_masker.service.worker.run; print(*sys.modules)"
    imported = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert {"stream_masker.cli.processes", "stream_masker.service.worker.run"} <= set(imported)
    assert not set(UNUSED) & set(imported)
