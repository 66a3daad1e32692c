"""The last build whose semantic transport had format 4, from the history of the repository."""

from __future__ import annotations

import io
import subprocess
import tarfile
from pathlib import Path

import pytest
from support.documentation import ROOT

COMMIT = "80b8fad67bee38fe5a4d1eb7b5ac69effcfee032"
FORMAT = 4

LAUNCHER = """
import runpy, sys
sys.path.insert(0, {folder!r})
if __name__ == "__main__":
    runpy.run_module("stream_masker", run_name="__main__")
"""


def earlier_build(folder: Path) -> tuple[str, ...]:
    """Unpack the build; return what the Python interpreter runs for it (``Processes.program``)."""
    packed = subprocess.run(
        ["git", "-C", str(ROOT), "archive", COMMIT, "stream_masker"], capture_output=True, check=False
    )
    if packed.returncode:
        pytest.skip(f"the repository has no history with {COMMIT[:8]}")
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
        archive.extractall(folder, filter="data")
    launcher = folder / "launch.py"
    launcher.write_text(LAUNCHER.format(folder=str(folder)))
    return ("-P", str(launcher))
