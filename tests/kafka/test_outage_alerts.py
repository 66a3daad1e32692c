"""Outages and drift: real processes, a real Kafka and a real Prometheus.

Each alert of an outage fires, and ends when what has gone is back.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import orjson
import prometheus
import pytest
from alerts import PREFIX, RULES
from kafka_broker import Cluster, KafkaUnavailableError, free_ports, running
from service import Process, Service, event, service, value, wait

COMMANDS = ("worker", "calibrator")
ALERT_SECONDS = 120
"""Far more than an alert needs: a process looks for a broker for 10 s, and Prometheus evaluates every second."""

NAMES = ("NoWorker", "NoCalibrator", "NoBroker", "DriftNeedsAction")

OUTBREAK = orjson.dumps({**event(1), "first": "C44"})


@dataclass(frozen=True)
class Installation:
    """The service on a cluster, and the Prometheus server that scrapes its worker and its calibrator."""

    cluster: Cluster
    service: Service
    ports: dict[str, int]
    server: prometheus.Prometheus

    def start(self, command: str) -> None:
        self.service.start(command, http={"port": self.ports[command]})

    def running(self, command: str) -> Process:
        return next(one for one in self.service.processes if one.name == command and not one.ended)

    def expect(self, *names: str) -> None:
        """Wait until exactly these alerts fire."""
        wanted = {PREFIX + name for name in names}
        wait(lambda: self.server.firing() == wanted, f"alerts {names}", ALERT_SECONDS)


IMMEDIATE = {"groups": [{"name": "immediate", "rules": [{**RULES[PREFIX + name], "for": "0s"} for name in NAMES]}]}
"""The alerts of the tests, firing as soon as their expressions hold."""


@contextmanager
def installation(folder: Path) -> Iterator[Installation]:
    prometheus.required()
    with ExitStack() as stack:
        try:
            cluster = stack.enter_context(running(folder / "kafka", heap="384m"))
        except KafkaUnavailableError as error:
            pytest.skip(str(error))
        here = service(cluster.bootstrap, folder)
        stack.callback(here.end)
        here.create()
        ports = dict(zip(COMMANDS, free_ports(2), strict=True))
        for command, port in ports.items():
            here.start(command, http={"port": port}, calibration={"every_seconds": 2})
        server = stack.enter_context(prometheus.scraping(folder, ports, IMMEDIATE, job="masking"))
        yield Installation(cluster, here, ports, server)


@pytest.mark.kafka
@pytest.mark.exhaustive
def test_outages_fire_their_alerts_and_recoveries_end_them(tmp_path: Path) -> None:
    with installation(tmp_path) as one:
        one.expect()
        for command in COMMANDS:
            one.running(command).kill()
        one.expect("NoCalibrator", "NoWorker")
        one.cluster.freeze(1)
        for command in COMMANDS:
            one.start(command)
        one.expect("NoBroker")
        one.cluster.thaw(1)
        one.expect()


@pytest.mark.kafka
@pytest.mark.exhaustive
@pytest.mark.scheduled
def test_an_outbreak_fires_the_alert_of_drift_and_a_new_baseline_ends_it(tmp_path: Path) -> None:
    with installation(tmp_path) as one:
        calibrator = one.running("calibrator")
        one.service.produce(range(2_000))
        calibrator.wait(lambda: calibrator.metric("statistics_version") >= 2, "a version of blocks")
        one.expect()
        one.service.produce(range(2_000, 6_000), value=OUTBREAK)
        one.expect("DriftNeedsAction")
        renew_baseline(one.service)
        one.expect()


def renew_baseline(here: Service) -> None:
    """Make the records with the outbreak the baseline; the calibrator measures against it with its next version."""
    sample = here.folder / "with-the-outbreak.jsonl"
    sample.write_bytes(b"\n".join([*map(value, range(2_000)), *[OUTBREAK] * 4_000]))
    here.command("calibrate", str(sample), "--publish", "--baseline", "--quiet")
    here.produce(range(6_000, 6_100))
    here.produce(range(6_100, 6_300), value=OUTBREAK)
