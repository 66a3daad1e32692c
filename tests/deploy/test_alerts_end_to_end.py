"""Every alert fires when its fault occurs in the demonstration: real processes, a broker, and a real Prometheus."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import prometheus
import pytest
import yaml
from alerts import Alert, Thresholds, alerts, rules
from confluent_kafka import Producer

from stream_masker.service.configuration import load_configuration
from stream_masker.service.demo.environment import DemoEnvironment, is_served, prepare_demo
from stream_masker.service.demo.run import ChildProcesses, EmbeddedBroker
from stream_masker.service.demo.watch import TopicWatcher
from stream_masker.service.runtime.warmup import warm_up

pytestmark = pytest.mark.scheduled

RECORDS, RATE = 100_000, 400
"""Far more events than a test processes before it ends."""

NOISE = {"name": "semantic_noise", "rounding": "ceil", "candidates": "leaves"}
"""A mechanism whose masks are truncated and whose statistics take seconds to compute."""

FIRING_SECONDS = 150
START_SECONDS = 120

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
        process = self.children._running.pop(name)
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
    """Run calibrator, worker and simulation with a changed configuration, and Prometheus with the alerts."""
    prometheus.required()
    with ExitStack() as stack:
        broker = stack.enter_context(EmbeddedBroker()).address
        environment = changed(prepare_demo(folder, bootstrap_servers=broker, records=20_000, port=0), changes)
        warm_up(environment.configuration)
        TopicWatcher(environment.configuration).close()  # its requests create the topics
        children = stack.enter_context(ChildProcesses(folder))
        config = ["--config", str(environment.file)]
        children.start("calibrator", config)
        children.start("worker", [*config, "--http-port", str(environment.worker_port)])
        ports = {"calibrator": environment.calibrator_port, "worker": environment.worker_port}
        await_served(children, ports)
        children.start("simulate", [*config, "--records", str(RECORDS), "--rate", str(RATE), "--drift-after", "4000"])
        server = stack.enter_context(prometheus.scraping(folder, ports, rules(immediate()), job="masking"))
        yield Installation(environment, children, server)


def changed(environment: DemoEnvironment, changes: Mapping[str, Any]) -> DemoEnvironment:
    content = {**yaml.safe_load(environment.file.read_text()), **changes}
    content["http"] = {"port": environment.calibrator_port}
    environment.file.write_text(yaml.safe_dump(content, sort_keys=False))
    return replace(environment, configuration=load_configuration(environment.file, {}))


def await_served(children: ChildProcesses, ports: Mapping[str, int]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not all(is_served(port) for port in ports.values()):
        children.check()
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_a_risk_beyond_its_limit_withholds_statistics_and_nothing_is_masked(tmp_path: Path) -> None:
    """With ``hold`` no version is published, so workers hold and the lag grows. Then the only worker dies."""
    with installation(tmp_path, {"mechanism": NOISE, "risk": {"max_vulnerability": 0.001, "action": "hold"}}) as one:
        one.expect_alerts("RiskOverLimit", "StatisticsWithheld", "NotMasking", "LagGrowing")
        one.kill("worker")
        one.expect_alerts("NoWorker")


def test_wrong_noise_wrong_records_and_a_forged_message_are_noticed(tmp_path: Path) -> None:
    """Noise far above the taxonomy's distances is truncated. Then the calibrator dies while records arrive."""
    attributes = {
        "principal": {"path": "diagnoses.principal.code", "ontology": "icd", "alpha": 10},
        "secondary": {"path": "diagnoses.secondary[*].code", "ontology": "icd", "alpha": 10},
    }
    window = {"window_records": 1_200, "every_records": 600, "every_seconds": 2, "min_records": 300}
    with installation(tmp_path, {"attributes": attributes, "mechanism": NOISE, "calibration": window}) as one:
        topics = one.environment.configuration.topics

        def write_messages() -> None:
            one.write(topics.statistics, b"not a version")
            for _ in range(20):
                one.write(topics.input, b"not an event")

        def change_configuration() -> None:
            one.environment.file.write_text(f"wrong: {time.monotonic()}\n")

        noticed = ("TruncationRate", "UtilityOffTarget", "DriftOverThreshold", "RejectionRate", "MessagesRefused")
        one.expect_alerts(*noticed, provoke=write_messages)
        one.expect_alerts("ConfigurationRefused", provoke=change_configuration)
        one.kill("calibrator")
        one.expect_alerts("StatisticsStale", "NoCalibrator")
