"""The demonstration on the embedded broker, and its components."""

from __future__ import annotations

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
from prometheus_client import CollectorRegistry
from support.small_configuration import write_secret

from stream_masker.errors import ServiceError
from stream_masker.pipeline.messages import DriftReport
from stream_masker.pipeline.seal import TopicSeal
from stream_masker.service.configuration import parse_configuration
from stream_masker.service.demo import run
from stream_masker.service.demo.environment import computing_seconds, demo_configuration, free_port, readiness_text
from stream_masker.service.demo.feed import MAX_LEAD, EventFeed
from stream_masker.service.demo.options import DemoOptions
from stream_masker.service.demo.run import ChildProcesses, NoProgressError
from stream_masker.service.demo.view import pair_lines
from stream_masker.service.demo.watch import Observations, _newer
from stream_masker.service.observability.health import Health, HttpServer
from stream_masker.service.worker.statistics import VersionBuffer
from stream_masker.summary import ATTACKER

EVENT = {
    "encounter_id": "e",
    "patient": {"id": "p"},
    "diagnoses": {"principal": {"code": "A", "display": "Alpha"}, "secondary": [{"code": "B", "display": None}]},
}


PROMISES = {
    "semantic_transport": f"{ATTACKER} can be at most 50% sure of a code",
    "semantic_noise": "nothing is promised about single records",
}


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "mechanism", ["semantic_transport", pytest.param("semantic_noise", marks=pytest.mark.scheduled)]
)
def test_demo_masks_all_events_recalibrates_and_prints_a_summary(mechanism):
    """Standard output is not a terminal here, so the output is plain lines.

    Scheduled: the mechanism that is not the default. ``tests/test_summary.py`` shows what it promises.
    """
    options = ["--records", "1000", "--rate", "400", "--port", str(free_ports(1)[0]), "--mechanism", mechanism]
    command = [sys.executable, "-P", "-m", "stream_masker", "demo", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=540, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    output = done.stdout
    assert "embedded in-memory broker, for trials only" in output
    assert "1,000 events produced, 1,000 masked, 0 rejected: 1,000 accounted for" in output
    assert len(re.findall(r"http://127\.0\.0\.1:\d+/metrics", output)) == 2
    assert re.search(r"statistics version \d+ \(blocks, ", output)
    assert re.search(r"sdCor\(principal, secondary\): original 0\.\d+, masked 0\.\d+", output)
    assert re.search(r"RMSE actual 0\.\d+, target 0\.\d+", output)
    assert "the last one of 1,000 records" in output
    drift = re.search(r"drift of principal: sMean .* -> sMean .*, Jensen-Shannon (0\.\d+)", output)
    assert drift is not None
    assert float(drift.group(1)) > 0.05
    assert PROMISES[mechanism] in output.partition("promise: ")[2]
    assert "synthetic event enc-" in output
    assert "\x1b" not in output


def test_stopped_child_is_reported_with_its_log(tmp_path):
    with ChildProcesses(tmp_path) as children:
        children.start("worker", ["--config", str(tmp_path / "none.yaml")])
        children._running["worker"].wait(60)
        with pytest.raises(ServiceError, match=r"worker stopped with exit code 2: .*none\.yaml"):
            children.check()
        assert re.match(r"worker: .*none\.yaml", children.last_words())


def test_children_import_this_package_and_may_finish(tmp_path, monkeypatch):
    (tmp_path / "stream_masker").mkdir()
    (tmp_path / "stream_masker" / "__init__.py").write_text("raise SystemExit('another one')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with ChildProcesses(tmp_path) as children:
        children.start("ontology", ["--help"])
        assert children._running["ontology"].wait(60) == 0
        children.check(finished=("ontology",))
        with pytest.raises(ServiceError, match="ontology stopped with exit code 0"):
            children.check()
    assert "Usage" in (tmp_path / "ontology.log").read_text()


STARTED = """
import sys, time
from pathlib import Path
from stream_masker.service.demo.run import ChildProcesses
with ChildProcesses(Path(sys.argv[1])) as children:
    children.start("calibrator", ["--config", sys.argv[2]])
    time.sleep(600)
"""


def test_children_end_when_the_demonstration_is_killed(tmp_path):
    """The log of the child is a named pipe, which ends with the last process that writes to it."""
    write_secret(tmp_path, content=bytes(range(32)))
    configuration = demo_configuration("127.0.0.1:1", 100, free_ports(1)[0], "x")
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
def test_window_fits_the_number_of_records(records):
    calibration = demo_configuration("localhost:1", records, 9464, "x")["calibration"]
    assert calibration["min_records"] <= calibration["window_records"] <= records
    assert calibration["every_records"] <= calibration["window_records"]
    assert calibration["min_records"] < MAX_LEAD


def test_older_version_does_not_replace_a_newer_one():
    two, one = (DriftReport(version, 0, None, None, None, 0, 0) for version in (2, 1))
    assert _newer(_newer(None, two), one) is two
    assert Observations(VersionBuffer(TopicSeal("statistics"))).outcomes == 0


def feed(records, outcomes):
    made = EventFeed(
        parse_configuration(demo_configuration("unused:1", records, 9464, "x")), DemoOptions(records=records), outcomes
    )
    return made


def test_events_follow_the_worker_so_that_the_embedded_broker_drops_none():
    done = [0]
    events = feed(3 * MAX_LEAD, lambda: done[0])
    assert events._is_due(MAX_LEAD - 1)
    assert not events._is_due(MAX_LEAD)
    done[0] = 1
    assert events._is_due(MAX_LEAD)


def test_the_second_half_waits_for_statistics_of_the_first():
    events = feed(100, lambda: 0)
    assert [events._is_due(number) for number in (49, 50)] == [True, False]
    events.open_second_half()
    assert events._is_due(50)


def watched(monkeypatch, *states):
    """Watch a run of 100 events whose (outcomes, covered records, version) are ``states``, 100 s after each other.

    A fourth number is that of the seconds for which the calibrator has been at its present task.
    """
    clock, opened, task = [0.0], [], [0.0]
    seen = SimpleNamespace(produced=100, outcomes=0, covered=0, progress=0, computing=0, keep_halfway=lambda: None)
    script = iter(states)

    def poll():
        clock[0] += 100.0
        seen.outcomes, seen.covered, version, *task[:] = (*next(script), 0.0)[:4]
        seen.progress = seen.produced + seen.outcomes + version

    monkeypatch.setattr(run, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    quiet = SimpleNamespace(check=lambda: None, update=lambda _: None)
    events = SimpleNamespace(check=lambda: None, open_second_half=lambda: opened.append(clock[0]))
    run._watch_until_done(SimpleNamespace(poll=poll, observations=seen), quiet, events, quiet, 100, lambda: task[0])
    return clock[0], opened


def test_a_busy_machine_has_time_for_statistics_of_both_halves(monkeypatch):
    states = [(50, 0, 0), (50, 0, 1), (50, 10, 2), (50, 50, 3), (100, 50, 3), (100, 80, 4), (100, 100, 5)]
    end, opened = watched(monkeypatch, *states)
    assert (end, opened[0]) == (700.0, 400.0)


def test_a_calibrator_that_publishes_nothing_more_is_not_waited_for(monkeypatch):
    end, opened = watched(monkeypatch, *[(50, 0, 1)] * 3, *[(100, 0, 1)] * 3)
    assert (end, opened[0]) == (600.0, 300.0)


def test_a_run_without_progress_fails(monkeypatch):
    with pytest.raises(NoProgressError, match=r"^no progress for 300 s; 50 of 100 published records were processed$"):
        watched(monkeypatch, *[(50, 0, 1)] * 6)


def test_a_calibrator_that_computes_is_waited_for(monkeypatch):
    """On a busy machine the first statistics of 8,000 records take longer than the limit of a run without progress."""
    waiting = [(0, 0, 0, 100.0 * number) for number in range(1, 8)]
    end, opened = watched(monkeypatch, *waiting, (50, 50, 1), (100, 100, 2))
    assert (end, opened[0]) == (900.0, 800.0)


def test_a_calibrator_that_computes_without_end_fails_the_run(monkeypatch):
    with pytest.raises(ServiceError, match=r"processed; the calibrator has been computing statistics for 2100 s$"):
        watched(monkeypatch, *[(0, 0, 0, 100.0 * number) for number in range(30)])


def test_a_process_tells_how_long_it_has_been_computing_though_it_is_alive():
    clock = [0.0]
    health = Health(clock=lambda: clock[0])
    with HttpServer(host="127.0.0.1", port=0, health=health, registry=CollectorRegistry()) as server:
        with health.computing():
            clock[0] = 12.5
            health.beat()
            assert computing_seconds(server.port) == 12.5
        assert computing_seconds(server.port) == 0.0
    assert computing_seconds(free_port(0)) == 0.0


def test_a_run_without_progress_says_what_the_processes_say(monkeypatch):
    health = Health()
    health.note("statistics", "no statistics yet: 8000 records sampled, computing them")
    with HttpServer(host="127.0.0.1", port=0, health=health, registry=CollectorRegistry()) as server:
        ports = SimpleNamespace(calibrator_port=server.port, worker_port=free_port(0))
        assert run._states(ports) == (
            "; the calibrator says: starting; no statistics yet: 8000 records sampled, computing them"
            "; the worker says: no answer"
        )
        health.reason("start", None)
        health.note("statistics", None)
        assert readiness_text(server.port) == "ready"


def test_a_process_that_serves_nothing_ends_the_demonstration_with_its_last_words(monkeypatch):
    times = iter((0.0, 301.0))
    monkeypatch.setattr(run, "time", SimpleNamespace(monotonic=lambda: next(times), sleep=lambda _: None))
    children = SimpleNamespace(check=lambda: None, last_words=lambda: "worker: no output")
    with pytest.raises(ServiceError, match=r"^no /metrics after 300 s on port \d+; worker: no output$"):
        run._await_metrics(children, free_port(0))


def test_events_that_cannot_be_published_end_the_demonstration():
    events = feed(100, lambda: 0)
    events._error = ServiceError("no broker")
    with pytest.raises(ServiceError, match=r"^the events cannot be published: no broker$"):
        events.check()


def test_missing_labels_are_left_out():
    assert pair_lines(EVENT, EVENT)[1:3] == ["  principal: A Alpha -> A Alpha", "  secondary: B -> B"]


def test_the_shown_event_is_masked_with_statistics_of_half_the_run():
    def message(event):
        return SimpleNamespace(value=lambda: orjson.dumps(event))

    observations = Observations(VersionBuffer(TopicSeal("statistics")))
    diagnoses = {"principal": {"code": "C"}, "secondary": [{"code": "D"}]}
    for number, halfway in enumerate((None, "statistics")):
        observations.halfway = halfway
        event = {**EVENT, "encounter_id": str(number)}
        observations.on_input(message(event))
        observations.on_output(message({**event, "diagnoses": diagnoses}))
    assert observations.pair[0]["encounter_id"] == "1"
