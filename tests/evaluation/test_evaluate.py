"""The command ``evaluate``."""

from __future__ import annotations

import json

import pytest
from support.file_commands import LINES, run, write, write_configuration

PRAM = ["--mechanism", "pram", "--processes", "1"]

pytestmark = pytest.mark.usefixtures("few_groups")


@pytest.fixture
def config(tmp_path):
    return write_configuration(tmp_path)


@pytest.fixture
def source(tmp_path):
    return write(tmp_path / "in.jsonl", LINES)


def test_the_same_report_is_written_twice(tmp_path, config, source):
    first, second = tmp_path / "first.html", tmp_path / "second.html"
    for output in (first, second):
        arguments = (*PRAM, "--mechanism", "naive_distortion", "-o", output, "--json", source)
        done = run("evaluate", "-c", config, *arguments)
    assert first.read_bytes() == second.read_bytes()
    data = json.loads(done.stdout)
    assert data["records"] == 120
    assert data["measurements"][0]["label"] == "as configured"
    assert data["measurements"][0]["options"]["rounding"] == "ceil"


def test_it_is_said_which_events_are_measured(tmp_path, config):
    source = write(tmp_path / "in.jsonl", [*LINES, b'{"a": "unknown", "b": "A1"}', b"{}"])
    report = tmp_path / "r.html"
    done = run("evaluate", "-c", config, *PRAM, "--records", "50", "-o", report, "--json", source)
    assert "2 of 122 events cannot be masked as configured and are left out" in done.stderr
    data = json.loads(done.stdout)
    assert (data["records"], data["available"], data["left_out"]) == (50, 120, 2)
    assert "They are a random sample of 120, always the same one." in report.read_text()
    assert "2 events of the file are left out" in report.read_text()


def test_the_nearest_method_is_named_if_none_is_within_limits(tmp_path, config, source):
    limits = ["--max-rmse", "0", "--min-correlation", "1", "--max-vulnerability", "0"]
    report = tmp_path / "r.html"
    done = run("evaluate", "-c", config, *PRAM, *limits, "-o", report, "--json", "-q", source, code=3)
    assert json.loads(done.stdout)["recommendation"]["met"] is False
    assert "settings meets the limits" in report.read_text()
