"""The demonstration on the embedded broker, and its components."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys

import orjson
import pytest
from support.small_configuration import write_secret

from stream_masker.errors import ServiceError
from stream_masker.service.demo.processes import check, running
from stream_masker.service.demo.run import demo_configuration


@pytest.mark.exhaustive
def test_the_demonstration_masks_all_events_and_ends_with_six_sentences():
    """Standard output is not a terminal here, so the output is plain lines."""
    command = [sys.executable, "-P", "-m", "stream_masker", "demo", "--records", "1000"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=540, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    output = done.stdout
    assert re.search(r"principal diagnosis\W+[A-Z]\d\S+ \w+.*?\W{2,}[A-Z]\d\S+ \w+", output), "before and after"
    assert "\x1b" not in output
    events, learned, unchanged, kept, drift, following = output.splitlines()[-6:]
    assert events.startswith("Events: 1,000 masked, 0 rejected, in ")
    assert re.search(r"best guess of a code is right in \d+% .* without masks", learned)
    assert re.search(r"\d+% of the codes of principal, \d+% of .* stay as they were", unchanged)
    assert re.match(r"Kept: correlations change by at most 0\.\d+, and means by a distance of 0\.\d+", kept)
    assert re.search(r"Drift: (watch|act) \(.*\); moved most: J09-J18 .*, \d\.\d% -> \d+\.\d%", drift)
    assert "config init" in following


def test_a_stopped_child_is_reported_with_its_log(tmp_path):
    with running(tmp_path, {"worker": ["--config", str(tmp_path / "none.yaml")]}) as processes:
        processes["worker"].wait(60)
        with pytest.raises(ServiceError, match=r"worker stopped with exit code 2: .*none\.yaml"):
            check(tmp_path, processes)


STARTED = """
import sys, time
from pathlib import Path
from stream_masker.service.demo.processes import running
with running(Path(sys.argv[1]), {"calibrator": ["--config", sys.argv[2], "--http-port", "0"]}):
    time.sleep(600)
"""


def test_children_end_when_the_demonstration_is_killed(tmp_path):
    """The log of the child is a named pipe, which ends with the last process that writes to it."""
    write_secret(tmp_path, content=bytes(range(32)))
    configuration = demo_configuration("127.0.0.1:1", 1_000, "semantic_noise")
    (tmp_path / "stream-masker.yaml").write_text(orjson.dumps(configuration).decode())
    os.mkfifo(tmp_path / "calibrator.log")
    command = [sys.executable, "-P", "-c", STARTED, str(tmp_path), str(tmp_path / "stream-masker.yaml")]
    with subprocess.Popen(command) as started, (tmp_path / "calibrator.log").open("rb") as log:
        for line in log:
            if b"serving /metrics" in line:
                break
        started.kill()
        assert started.wait() == -signal.SIGKILL
        assert b"stopping" not in log.read()
