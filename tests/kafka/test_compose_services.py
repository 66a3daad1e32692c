"""The services of the Compose file as processes, in the order of their dependencies, on a real Kafka.

Compose itself and its images are not run: ``tests/deploy/test_compose.py`` checks the file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from kafka_broker import running
from kafka_records import read_all
from support.documentation import ROOT
from support.processes import Processes, terminate
from support.small_configuration import write_secret

FOLDER = ROOT / "deploy" / "compose"
SERVICES = yaml.safe_load((FOLDER / "compose.yaml").read_text())["services"]
MASKED = 200
"""The number of masked records after which the services stop."""

pytestmark = [pytest.mark.kafka, pytest.mark.scheduled]


@pytest.fixture
def broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a new broker, and the environment of the services with it."""
    write_secret(tmp_path, content=os.urandom(32))
    with running(tmp_path / "kafka") as cluster:
        given = SERVICES["worker"]["environment"] | {
            "STREAM_MASKER_CONFIG": str(FOLDER / "stream-masker.yaml"),
            "STREAM_MASKER__KAFKA__BOOTSTRAP_SERVERS": cluster.bootstrap,
            "STREAM_MASKER__SECRET__FILE": str(tmp_path / "secret"),
            "STREAM_MASKER__HTTP__PORT": "0",
        }
        for name, value in given.items():
            monkeypatch.setenv(name, value)
        yield cluster.bootstrap


def in_order(names: list[str]) -> list[str]:
    """Services of stream-masker, each after those that it depends on."""
    done: list[str] = []
    while len(done) < len(names):
        done += [n for n in names if n not in done and not (set(SERVICES[n]["depends_on"]) & set(names)) - set(done)]
    return done


def test_the_services_mask_records(broker: str, tmp_path: Path) -> None:
    names = in_order(["producer", "worker", "calibrator", "topics"])
    assert names[0] == "topics"
    with Processes(tmp_path) as processes:
        processes.run(*SERVICES["topics"]["command"])
        started = [processes.start(name, *SERVICES[name]["command"]) for name in names[1:]]
        processes.wait(lambda: len(read_all(broker, "discharges.masked")) >= MASKED, "masked records")
        for process in started:
            terminate(process)
