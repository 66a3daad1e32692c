"""The demonstration on the embedded broker, and its components."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from stream_masker.errors import ServiceError
from stream_masker.service.demo.processes import Processes
from stream_masker.service.demo.run import summary_lines


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


def test_a_stopped_process_and_a_stall_are_reported_with_logs(tmp_path):
    with Processes(tmp_path) as processes:
        worker = processes.prepare("worker")
        processes.begin("worker")
        worker.wait(60)
        with pytest.raises(ServiceError, match=r"worker stopped with exit code 2: .*stream-masker\.yaml"):
            processes.check()
        assert "has stood still for 120 s; start it again. worker: Error: " in str(processes.stalled(120))


def test_the_last_lines_say_what_is_kept_and_which_codes_moved():
    codes = [("codes", "E11", 0.2, 0.1), ("codes", "J10.1", 0.0, 0.05), ("codes", "J11", 0, 0.01)]
    moved = [("blocks", "J09-J18", 0.01, 0.08), *codes]
    attribute = {"moved": [{"level": a, "concept": b, "label": "", "before": c, "now": d} for a, b, c, d in moved]}
    measured = [{"mean_distance": 0.0, "rmse_actual": 0.28}, {"mean_distance": 0.1, "rmse_actual": 0.2}]
    drift = {
        "baseline": {"verdict": "act", "attributes": {"principal": attribute}},
        "utility": {
            "verdict": "none",
            "attributes": dict(enumerate(measured)),
            "pairs": [{"correlation_error": 0.0125}, {"correlation_error": 0.001}],
        },
    }
    counts = {"masked": 3, "rejected": 0}
    events, *said, kept, drifted, _ = summary_lines(counts, 12.3, ["Learned.", "Unchanged.", "Kept."], drift)
    assert events == "Events: 3 masked, 0 rejected, in 12 s, one worker."
    assert said == ["Learned.", "Unchanged."]
    assert kept.startswith("Kept: correlations change by at most 0.013, and means by a distance of 0.10; codes move by")
    assert drifted.startswith("Drift: act (find out whether patients, coding or a source have changed")
    assert drifted.endswith("moved most: J09-J18, 1.0% -> 8.0%; J10.1, 0.0% -> 5.0%; the masks are as expected.")
