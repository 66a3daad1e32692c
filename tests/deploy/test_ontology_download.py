"""The command of the container that downloads ontologies before a process starts, as the chart renders it."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from hashlib import sha256
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from rendered_chart import NEEDS_HELM, rendered

pytestmark = NEEDS_HELM

CONTENT = b"concept,parent,label\nroot,,all\nA,root,a\n"
RIGHT, WRONG = sha256(CONTENT).hexdigest(), sha256(b"another file").hexdigest()


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """The address of a server that serves the file ``small.csv``."""
    (tmp_path / "served").mkdir()
    (tmp_path / "served" / "small.csv").write_bytes(CONTENT)
    handler = partial(SimpleHTTPRequestHandler, directory=str(tmp_path / "served"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def download(folder: Path, address: str, checksum: str) -> subprocess.CompletedProcess[str]:
    """Run the container's command with an address and a folder that differ from those in the cluster."""
    file = {"url": "https://files.example/small.csv", "sha256": checksum, "name": "terms.csv"}
    objects = rendered({"ontologies": {"urls": [file]}})
    pod = objects["Deployment", "release-stream-masker-worker"]["spec"]["template"]["spec"]
    (container,) = pod["initContainers"]
    assert container["volumeMounts"] == [{"name": "ontologies", "mountPath": "/target"}]
    python, option, script = container["command"]
    assert python == "python"
    arguments = [one.replace("https://files.example", address) for one in container["args"]]
    command = [sys.executable, option, script.replace('"/target"', repr(str(folder))), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_file_with_its_checksum_is_kept(tmp_path: Path, address: str) -> None:
    done = download(tmp_path, address, RIGHT)
    assert (done.returncode, done.stdout) == (0, "terms.csv: downloaded\n"), done.stderr
    assert (tmp_path / "terms.csv").read_bytes() == CONTENT


def test_a_file_with_another_checksum_is_removed_and_the_pod_does_not_start(tmp_path: Path, address: str) -> None:
    done = download(tmp_path, address, WRONG)
    assert done.returncode == 1
    assert done.stderr == f"terms.csv: the SHA-256 of the download is {RIGHT}, not {WRONG}\n"
    assert not (tmp_path / "terms.csv").exists()
