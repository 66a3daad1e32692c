"""Outages of a broker, the calibrator and the worker: real processes, a real Kafka and a real Prometheus.

Each alert fires, and ends when what has gone is back.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import prometheus
import pytest
from alerts import Alert, Thresholds, alerts, rules
from kafka_broker import Cluster, KafkaUnavailableError, free_ports, running
from processes import Processes
from workers import setting

PROCESSES = ("worker", "calibrator")
ALERT_SECONDS = 120
"""Far more than an alert needs: the watch of the brokers takes 6 s, and Prometheus evaluates every second."""

NAMES = ("NoWorker", "NoCalibrator", "NoBroker")


@dataclass(frozen=True)
class Installation:
    """A worker and a calibrator on a cluster, and the Prometheus server that scrapes them."""

    config: Path
    cluster: Cluster
    processes: Processes
    ports: dict[str, int]
    server: prometheus.Prometheus

    def start(self, name: str) -> None:
        start(self.processes, self.config, name, self.ports[name])

    def kill(self, name: str) -> None:
        """Kill a process, so that it cannot clean up."""
        process = next(one for one in self.processes.running if name in one.args)
        self.processes.running.remove(process)
        process.kill()
        process.wait()

    def firing(self) -> set[str]:
        full = {f"StreamMasker{name}" for name in NAMES}
        return {name.removeprefix("StreamMasker") for name in self.server.firing() & full}

    def expect(self, *names: str, after: Callable[[], object]) -> None:
        """Wait until exactly these alerts fire after an action."""
        start = time.monotonic()
        after()
        self.processes.wait(lambda: self.firing() == {*names}, f"alerts {names}", ALERT_SECONDS)
        print(f"{', '.join(names) or 'no alert'} after {time.monotonic() - start:.1f} s")


def immediate() -> tuple[Alert, ...]:
    """Return the alerts, firing as soon as their expressions hold."""
    return tuple(replace(alert, lasts="0s") for alert in alerts(Thresholds()))


@contextmanager
def installation(folder: Path) -> Iterator[Installation]:
    prometheus.required()
    with ExitStack() as stack:
        try:
            cluster = stack.enter_context(running(folder / "kafka", heap="384m"))
        except KafkaUnavailableError as error:
            pytest.skip(str(error))
        here = setting(cluster.bootstrap, folder)
        processes = stack.enter_context(Processes(folder))
        processes.run("topics", "--config", str(here.path))
        ports = dict(zip(PROCESSES, free_ports(2), strict=True))
        for name, port in ports.items():
            start(processes, here.path, name, port)
        server = stack.enter_context(prometheus.scraping(folder, ports, rules(immediate()), job="masking"))
        yield Installation(here.path, cluster, processes, ports, server)


def start(processes: Processes, config: Path, name: str, port: int) -> None:
    processes.start(name, name, "--config", str(config), "--http-port", str(port))


@pytest.mark.kafka
@pytest.mark.exhaustive
def test_outages_fire_their_alerts_and_recoveries_end_them(tmp_path: Path) -> None:
    with installation(tmp_path) as one:
        one.expect(after=lambda: None)
        one.expect("NoBroker", after=lambda: one.cluster.freeze(1))
        one.expect(after=lambda: one.cluster.thaw(1))
        one.expect("NoCalibrator", after=lambda: one.kill("calibrator"))
        one.expect(after=lambda: one.start("calibrator"))
        one.expect("NoWorker", after=lambda: one.kill("worker"))
        one.expect(after=lambda: one.start("worker"))
