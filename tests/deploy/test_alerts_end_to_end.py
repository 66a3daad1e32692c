"""Every alert fires when its fault occurs in the demonstration: real processes, a broker, and a real Prometheus."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import prometheus
import pytest
from alerts import Alert, Thresholds, alerts, rules
from confluent_kafka import Producer
from running_demo import running_demo

from stream_masker.service.demo.environment import DemoEnvironment
from stream_masker.service.demo.processes import ChildProcesses

pytestmark = [pytest.mark.scheduled, pytest.mark.timeout(3_600)]

NOISE = {"name": "semantic_noise", "rounding": "ceil", "candidates": "leaves"}
"""A mechanism whose masks are truncated and whose statistics take seconds to compute."""

FIRING_SECONDS = 600
"""Far more than an alert needs: the calibrator yields to other processes, so a busy machine delays it by minutes."""

SOON = Thresholds(
    window="10s",
    lag_window="10s",
    idle_window="60s",
    stale_seconds="8",
    divergence="0.02",
    truncated="0.01",
    lag="500",
)
"""Thresholds that are crossed within seconds of a fault."""


@dataclass(frozen=True)
class Installation:
    """The demonstration with a fault: its processes, and the Prometheus server that scrapes them."""

    environment: DemoEnvironment
    children: ChildProcesses
    server: prometheus.Prometheus

    def kill(self, name: str) -> None:
        """Kill a process, so that it cannot clean up."""
        process = self.children.running.pop(name)
        process.kill()
        process.wait()

    def expect_alerts(self, *names: str, provoke: Callable[[], object] = lambda: None) -> None:
        """Wait until all of these alerts have fired; ``provoke`` is called every second until then."""
        missing, deadline = {f"StreamMasker{name}" for name in names}, time.monotonic() + FIRING_SECONDS
        while missing and time.monotonic() < deadline:
            self.children.check()
            provoke()
            missing -= self.server.firing()
            time.sleep(1)
        assert not missing, f"not fired: {missing}"

    def write(self, topic: str, value: bytes) -> None:
        """Write a message that has the key of a statistics version."""
        producer = Producer({"bootstrap.servers": self.environment.configuration.kafka.bootstrap_servers})
        producer.produce(topic, key=b"1", value=value)
        assert producer.flush(10) == 0


def immediate() -> tuple[Alert, ...]:
    """Return the alerts with the thresholds ``SOON``, firing as soon as their expressions hold."""
    return tuple(replace(alert, lasts="0s") for alert in alerts(SOON))


@contextmanager
def installation(folder: Path, changes: Mapping[str, Any]) -> Iterator[Installation]:
    """Run the demonstration with a changed configuration, and Prometheus with the alerts."""
    prometheus.required()
    with (
        running_demo(folder, records=20_000, rate=400, drift_after=4_000, changes=changes) as demo,
        prometheus.scraping(folder, demo.ports, rules(immediate()), job="masking") as server,
    ):
        yield Installation(demo.environment, demo.children, server)


def test_a_risk_beyond_its_limit_withholds_statistics_and_nothing_is_masked(tmp_path: Path) -> None:
    """With ``hold`` no version is published, so workers hold. Then the only worker dies."""
    with installation(tmp_path, {"mechanism": NOISE, "risk": {"max_vulnerability": 0.001, "action": "hold"}}) as one:
        one.expect_alerts("RiskOverLimit", "StatisticsWithheld", "NotMasking")
        one.kill("worker")
        one.expect_alerts("NoWorker")


def test_a_slow_worker_wrong_noise_wrong_records_and_a_forged_message_are_noticed(tmp_path: Path) -> None:
    """A worker with a transaction for each record is too slow. Noise far above the taxonomy's distances is truncated.
    Then the calibrator dies while records arrive."""
    attributes = {
        "principal": {"path": "diagnoses.principal.code", "ontology": "icd", "alpha": 10},
        "secondary": {"path": "diagnoses.secondary[*].code", "ontology": "icd", "alpha": 10},
    }
    window = {"window_records": 1_200, "every_records": 600, "every_seconds": 2, "min_records": 300}
    changes = {"attributes": attributes, "mechanism": NOISE, "calibration": window, "worker": {"batch_records": 1}}
    with installation(tmp_path, changes) as one:
        topics = one.environment.configuration.topics

        def write_messages() -> None:
            one.write(topics.statistics, b"not a version")
            for _ in range(20):
                one.write(topics.input, b"not an event")

        noticed = ("TruncationRate", "UtilityOffTarget", "DriftOverThreshold", "RejectionRate", "MessagesRefused")
        one.expect_alerts(*noticed, "LagGrowing", provoke=write_messages)
        one.kill("calibrator")
        one.expect_alerts("StatisticsStale", "NoCalibrator")
