"""The demonstration on the embedded broker, and its components."""

from __future__ import annotations

import io
import os
import re
import signal
import socket
import subprocess
import sys
from types import SimpleNamespace

import orjson
import pytest
from kafka_broker import free_ports
from rich.console import Console
from support.small_configuration import write_secret

from stream_masker.errors import ServiceError
from stream_masker.pipeline.messages import DriftReport
from stream_masker.service.demo import run
from stream_masker.service.demo.environment import demo_configuration, free_port
from stream_masker.service.demo.options import DemoOptions
from stream_masker.service.demo.processes import ChildProcesses
from stream_masker.service.demo.run import MAX_LEAD, EventFeed
from stream_masker.service.demo.view import event_table, summary_lines
from stream_masker.service.demo.watch import Observations


@pytest.mark.exhaustive
def test_the_demonstration_masks_all_events_and_ends_with_six_lines():
    """Standard output is not a terminal here, so the output is plain lines."""
    options = ["--records", "2000", "--rate", "0", "--port", str(free_ports(1)[0])]
    command = [sys.executable, "-P", "-m", "stream_masker", "demo", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=540, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    output = done.stdout
    assert len(re.findall(r"http://127\.0\.0\.1:\d+/metrics", output)) == 2
    assert "principal diagnosis" in output
    assert "\x1b" not in output
    events, attacker, kept, drift, moved, following = output.splitlines()[-6:]
    assert events.startswith("Events:   2,000 masked, 0 rejected, in ")
    assert re.search(
        r"guesses right \d+% of the principal diagnoses \(without masks \d+%\) and \d+% of the sec", attacker
    )
    assert re.search(r"correlation of principal and secondary diagnoses 0\.\d+, after masking 0\.\d+", kept)
    assert drift.startswith("Drift:    ")
    assert "not shown" not in drift
    assert "(find out whether" in drift
    assert re.search(r"moved most: J09-J18 Influenza and pneumonia, \d\.\d% -> \d+\.\d%; J10\.", moved)
    assert "config init" in following


def test_stopped_child_is_reported_with_its_log(tmp_path):
    with ChildProcesses(tmp_path) as children:
        children.start("worker", ["--config", str(tmp_path / "none.yaml")])
        children.running["worker"].wait(60)
        with pytest.raises(ServiceError, match=r"worker stopped with exit code 2: .*none\.yaml"):
            children.check()
        assert re.match(r"worker: .*none\.yaml", children.last_words())


def test_children_import_this_package(tmp_path, monkeypatch):
    (tmp_path / "stream_masker").mkdir()
    (tmp_path / "stream_masker" / "__init__.py").write_text("raise SystemExit('another one')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with ChildProcesses(tmp_path) as children:
        children.start("ontology", ["--help"])
        assert children.running["ontology"].wait(60) == 0
    assert "Usage" in (tmp_path / "ontology.log").read_text()


STARTED = """
import sys, time
from pathlib import Path
from stream_masker.service.demo.processes import ChildProcesses
with ChildProcesses(Path(sys.argv[1])) as children:
    children.start("calibrator", ["--config", sys.argv[2]])
    time.sleep(600)
"""


def test_children_end_when_the_demonstration_is_killed(tmp_path):
    """The log of the child is a named pipe, which ends with the last process that writes to it."""
    write_secret(tmp_path, content=bytes(range(32)))
    configuration = demo_configuration("127.0.0.1:1", DemoOptions(records=100), free_ports(1)[0])
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


def test_port_in_use_is_replaced():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert free_port(port) != port


@pytest.mark.parametrize("records", [100, 20_000, 1_000_000])
def test_versions_are_due_in_both_halves(records):
    section = demo_configuration("localhost:1", DemoOptions(records=records), 9464)["calibration"]
    assert section["min_records"] <= section["window_records"] <= max(100, records // 2)
    assert 2 * section["every_records"] + section["min_records"] <= records


def feed(records, **seen):
    observed = Observations(100)
    for name, value in seen.items():
        setattr(observed, name, value)
    section = SimpleNamespace(min_records=50)
    environment = SimpleNamespace(configuration=SimpleNamespace(calibration=section))
    return EventFeed(environment, DemoOptions(records=records), observed)


def test_events_follow_the_statistics_and_the_worker_so_that_the_broker_drops_none():
    assert [feed(100_000).is_due(number) for number in (100, 101)] == [True, False]
    masking = feed(100_000, statistics="version 1")
    assert [masking.is_due(number) for number in (MAX_LEAD, MAX_LEAD + 1)] == [True, False]
    half = feed(100, statistics="version 1", masked=40)
    assert [half.is_due(number) for number in (50, 51)] == [True, False]
    half.opened.set()
    assert half.is_due(51)


def watched(monkeypatch, *states):
    """Watch a run of 100 events whose (outcomes, versions of full windows) are ``states``, 100 s after each other."""
    clock, seen = [0.0], Observations(25, produced=100)
    script = iter(states)

    def poll():
        clock[0] += 100.0
        seen.masked, versions = next(script)
        seen.versions.update(range(versions))

    monkeypatch.setattr(run, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    children = SimpleNamespace(check=lambda: None, last_words=lambda: "worker: no output")
    events, shown = feed(100), []
    run._watch_until_done(
        SimpleNamespace(poll=poll, observations=seen), children, events, lambda _, phase: shown.append(phase), 100
    )
    return clock[0], events.opened.is_set(), shown


def test_the_outbreak_waits_for_statistics_of_the_first_half_and_the_end_for_those_of_both(monkeypatch):
    end, opened, _ = watched(monkeypatch, (20, 0), (50, 0), (50, 1), (80, 1), (100, 1), (100, 2))
    assert (end, opened) == (600.0, True)


def test_statistics_that_do_not_come_are_not_waited_for(monkeypatch):
    end, opened, _ = watched(monkeypatch, (50, 0), (50, 0), (50, 0), (100, 0), (100, 0), (100, 0))
    assert (end, opened) == (600.0, True)


def test_a_run_without_progress_fails_with_the_last_words_of_the_processes(monkeypatch):
    with pytest.raises(ServiceError, match=r"^no progress for 300 s; 50 of 100 published .*; worker: no output$"):
        watched(monkeypatch, *[(50, 0)] * 6)


def test_events_that_cannot_be_published_end_the_demonstration(monkeypatch):
    events = feed(100)
    events.error = ServiceError("no broker")
    quiet = SimpleNamespace(check=lambda: None)
    watcher = SimpleNamespace(poll=lambda: None, observations=Observations(25))
    with pytest.raises(ServiceError, match=r"^the events cannot be published: no broker$"):
        run._watch_until_done(watcher, quiet, events, lambda *_: None, 100)


def event(number, code):
    diagnoses = {
        "principal": {"code": code, "display": f"about {code}"},
        "secondary": [{"code": "B1", "display": None}],
    }
    patient = {"id": f"p{number}", "name": "Synthetic"}
    return {"encounter_id": f"enc-{number:09d}", "patient": patient, "diagnoses": diagnoses}


def message(content):
    return SimpleNamespace(value=lambda: orjson.dumps(content))


def test_an_event_that_masking_changed_is_shown_before_and_after():
    seen = Observations(100)
    for number, code in enumerate(("A00.1", "J10.1")):
        seen.on_input(message(event(number, "A00.1")))
        seen.on_output(message(event(number, code)))
    assert [one["encounter_id"] for one in seen.pair] == ["enc-000000001"] * 2
    console = Console(file=io.StringIO(), width=120)
    console.print(event_table(*seen.pair))
    rows = [re.split(r"\s*│\s*", line)[1:-1] for line in console.file.getvalue().splitlines() if "│" in line]
    assert rows[:2] == [
        ["principal diagnosis", "A00.1 about A00.1", "J10.1 about J10.1"],
        ["secondary diagnosis", "B1", "B1"],
    ]


def drift_report(*moved):
    attribute = {"moved": [{"level": a, "concept": b, "label": "", "before": c, "now": d} for a, b, c, d in moved]}
    baseline = {"verdict": "act", "attributes": {"principal": attribute}}
    return DriftReport(3, 1, None, baseline, None, 100, 4)


def test_the_last_lines_name_the_codes_that_moved_and_what_is_not_known():
    seen = Observations(100, masked=3)
    lines = summary_lines(seen, 12.3, {})
    assert lines[0] == "Events:   3 masked, 0 rejected, in 12 s, one worker"
    assert [("this machine is busy" in line) for line in lines[1:4]] == [True] * 3
    seen.versions, codes = (
        {2, 3},
        [("codes", "E11", 0.2, 0.1), ("codes", "J10.1", 0.0, 0.05), ("codes", "J11", 0, 0.01)],
    )
    seen.drift = drift_report(("blocks", "J09-J18", 0.01, 0.08), *codes)
    *_, drift, moved, _ = summary_lines(seen, 12.3, {})
    assert drift.startswith("Drift:    act (find out whether patients, coding or a source have changed")
    assert moved.strip() == "moved most: J09-J18, 1.0% -> 8.0%; J10.1, 0.0% -> 5.0%"
