"""The demonstration, from its command to its summary, on the embedded broker."""

from __future__ import annotations

import re
import socket
import subprocess
import sys

import pytest

from stream_masker.errors import ServiceError
from stream_masker.pipeline.wire.messages import DriftReport
from stream_masker.service.demo.children import ChildProcesses
from stream_masker.service.demo.environment import demo_configuration, free_port
from stream_masker.service.demo.view import pair_lines
from stream_masker.service.demo.watch import Observations, _newer

EVENT = {
    "encounter_id": "e",
    "patient": {"id": "p"},
    "diagnoses": {"principal": {"code": "A", "display": "Alpha"}, "secondary": [{"code": "B", "display": None}]},
}


def test_it_masks_all_recalibrates_and_ends_with_a_summary():
    """Plain lines, since standard output is no terminal here."""
    command = [sys.executable, "-P", "-m", "stream_masker", "demo", "--records", "2000", "--rate", "400"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=540, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    told = done.stdout
    assert "embedded in-memory broker, for trials only" in told
    assert "2,000 events produced, 2,000 masked, 0 rejected: 2,000 accounted for" in told
    assert len(re.findall(r"http://127\.0\.0\.1:\d+/metrics", told)) == 2
    assert re.search(r"statistics version \d+ \(blocks, ", told)
    assert re.search(r"sdCor\(principal, secondary\): original 0\.\d+, masked 0\.\d+", told)
    assert re.search(r"RMSE actual 0\.\d+, target 0\.\d+", told)
    assert "synthetic event enc-" in told
    assert "\x1b" not in told


def test_a_child_that_stops_is_told_with_the_end_of_its_log(tmp_path):
    with ChildProcesses(tmp_path) as children:
        children.start("worker", ["--config", str(tmp_path / "none.yaml")])
        children._running["worker"].wait(60)
        with pytest.raises(ServiceError, match=r"worker stopped with exit code 2: .*none\.yaml"):
            children.check()


def test_a_child_may_finish_where_that_is_its_job(tmp_path):
    with ChildProcesses(tmp_path) as children:
        children.start("ontology", ["--help"])
        children._running["ontology"].wait(60)
        children.check(finished=("ontology",))
        with pytest.raises(ServiceError, match="ontology stopped with exit code 0"):
            children.check()


def test_children_run_this_package_whatever_lies_in_the_working_directory(tmp_path, monkeypatch):
    (tmp_path / "stream_masker").mkdir()
    (tmp_path / "stream_masker" / "__init__.py").write_text("raise SystemExit('another one')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with ChildProcesses(tmp_path) as children:
        children.start("ontology", ["--help"])
        assert children._running["ontology"].wait(60) == 0
    assert "Usage" in (tmp_path / "ontology.log").read_text()


def test_a_taken_port_is_replaced():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert free_port(port) != port


@pytest.mark.parametrize("records", [100, 20_000, 1_000_000])
def test_windows_suit_the_number_of_records(records):
    calibration = demo_configuration("localhost:1", records, 9464, "x")["calibration"]
    assert calibration["min_records"] <= calibration["window_records"] <= records
    assert calibration["every_records"] <= calibration["window_records"]


def test_versions_out_of_order_do_not_go_back():
    two, one = (DriftReport(version, 0, None, None, None, 0, 0) for version in (2, 1))
    assert _newer(_newer(None, two), one) is two
    assert Observations().outcomes == 0


def test_a_pair_is_shown_without_its_missing_labels():
    assert pair_lines(EVENT, EVENT)[1:3] == ["  principal: A Alpha -> A Alpha", "  secondary: B -> B"]
