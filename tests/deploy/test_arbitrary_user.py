"""Processes of a user that the machine does not know, in the group 0, as OpenShift runs them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

USER, MOUNTED_GROUP = 1_000_680_000, 1_000_680_000
PROGRAM = (sys.executable, "-P", "-m", "stream_masker")
CONFIGURATION = """\
ontologies: {icd: {values: [I10, E11.9]}}
attributes: {principal: {path: code, ontology: icd}}
fields: {keep: [age], pseudonymize: [patient], unlisted: drop}
noise_key: patient
secret: {file: secret}
"""

pytestmark = [
    pytest.mark.exhaustive,
    pytest.mark.skipif(
        os.geteuid() != 0 or shutil.which("setpriv") is None, reason="run as root, with setpriv of util-linux"
    ),
]


def run_as_arbitrary_user(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command without a home. It may read all files, because those of Python may belong to root alone."""
    groups = (f"--reuid={USER}", "--regid=0", f"--groups={MOUNTED_GROUP}")
    readable = ("--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search")
    return subprocess.run(
        ["setpriv", *groups, *readable, *PROGRAM, *arguments],
        cwd=folder,
        env={name: os.environ[name] for name in ("PATH", "PYTHONPATH", "NUMBA_CACHE_DIR") if name in os.environ},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that every user may read; folders of pytest belong to one user."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.mark.parametrize(("mode", "accepted"), [(0o440, True), (0o444, False)])
def test_a_mounted_secret_is_read(folder: Path, mode: int, accepted: bool) -> None:
    """The kubelet mounts a Secret as a file of root and of the group that ``fsGroup`` names, or OpenShift chooses."""
    (folder / "stream-masker.yaml").write_text(CONFIGURATION)
    secret = folder / "secret"
    secret.write_bytes(b"a secret of 32 bytes for a test.")
    os.chown(secret, 0, MOUNTED_GROUP)
    secret.chmod(mode)
    done = run_as_arbitrary_user(folder, "config", "check", "--config", "stream-masker.yaml")
    assert done.returncode == 0, done.stderr
    assert ("secret: id " in done.stdout) == accepted
    assert ("every user has access" in done.stderr) != accepted
