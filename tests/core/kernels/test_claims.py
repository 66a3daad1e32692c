"""Claims on kernels: one process compiles, the others wait for it."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from stream_masker.core.kernels import disk_cache

HOLD = """
import sys
from pathlib import Path
from stream_masker.core.kernels.disk_cache import claimed
kernel = Path(sys.argv[1])
with claimed(kernel):
    print("claimed", flush=True)
    sys.stdin.readline()
    kernel.write_bytes(b"machine code")
"""


@pytest.fixture
def kernel(tmp_path: Path) -> Path:
    return tmp_path / "kernels" / "total-1.kernel"


@pytest.fixture
def other(kernel: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that holds the claim until it reads a line, and then writes the kernel."""
    command = [sys.executable, "-c", HOLD, str(kernel)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "claimed\n"
        yield process
        process.kill()


@pytest.fixture
def entered(kernel: Path, other: subprocess.Popen[str]) -> Iterator[threading.Event]:
    """Set as soon as a thread of this process has claimed the kernel, after 0.2 s in which it has not."""
    event = threading.Event()

    def claim() -> None:
        with disk_cache.claimed(kernel):
            event.set()

    thread = threading.Thread(target=claim)
    thread.start()
    assert not event.wait(0.2)
    yield event
    thread.join(60)


def test_a_process_waits_until_another_one_has_compiled(kernel, other, entered):
    other.communicate("compiled\n")
    assert entered.wait(60)
    assert kernel.exists()


def test_the_claim_of_a_killed_process_is_free(kernel, other, entered):
    other.send_signal(signal.SIGKILL)
    assert entered.wait(60)
    assert not kernel.exists()


def test_another_kernel_is_not_claimed(kernel, other):
    with disk_cache.claimed(kernel.with_name("total-2.kernel")):
        assert other.poll() is None


def test_an_existing_kernel_needs_no_claim(kernel, other):
    kernel.write_bytes(b"machine code")
    with disk_cache.claimed(kernel):
        assert other.poll() is None


def test_the_wait_for_a_stopped_process_ends(kernel, other, monkeypatch):
    monkeypatch.setattr(disk_cache, "MAX_CLAIM_WAIT_SECONDS", 0.1)
    with disk_cache.claimed(kernel):
        assert other.poll() is None


def test_a_folder_that_cannot_be_written_has_no_claims(tmp_path):
    (tmp_path / "file").touch()
    for _ in range(2):
        with disk_cache.claimed(tmp_path / "file" / "total-1.kernel"):
            assert (tmp_path / "file").is_file()
