"""The environment of the demonstration: a configuration, a secret and free ports, in a temporary folder."""

from __future__ import annotations

import secrets
import socket
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

import orjson
import yaml

from stream_masker.service.configuration import Configuration, load_configuration
from stream_masker.service.demo.feed import MAX_LEAD
from stream_masker.service.events.synthetic import NESTED_EVENTS

TOPIC_PREFIX = "stream-masker-demo"


@dataclass(frozen=True, slots=True)
class DemoEnvironment:
    """The files and ports of one demonstration."""

    folder: Path
    configuration: Configuration
    calibrator_port: int
    worker_port: int

    @property
    def file(self) -> Path:
        """The configuration file."""
        return self.folder / "stream-masker.yaml"


def prepare_demo(
    folder: Path, *, bootstrap_servers: str, records: int, port: int, mechanism: str = "semantic_noise"
) -> DemoEnvironment:
    """Write the configuration and a new secret to ``folder``; uses ``port`` and the next one, or free ports."""
    secret = folder / "secret"
    secret.touch(mode=0o600)
    secret.write_bytes(secrets.token_bytes(32))
    calibrator_port = free_port(port)
    content = demo_configuration(bootstrap_servers, records, calibrator_port, secrets.token_hex(3), mechanism)
    (folder / "stream-masker.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
    configuration = load_configuration(folder / "stream-masker.yaml", {})
    return DemoEnvironment(folder, configuration, calibrator_port, free_port(calibrator_port + 1))


def demo_configuration(
    bootstrap_servers: str, records: int, port: int, run: str, mechanism: str = "semantic_noise"
) -> dict[str, Any]:
    """Return the demonstration's configuration: a nested event, a mechanism, a window of all ``records``."""
    topics = ("input", "output", "rejected", "calibration", "statistics", "drift")
    window = max(100, records)
    return {
        "kafka": {"bootstrap_servers": bootstrap_servers},
        "topics": {topic: f"{TOPIC_PREFIX}-{run}.{topic}" for topic in topics},
        **{section: NESTED_EVENTS[section] for section in ("ontologies", "attributes")},
        "mechanism": {"name": mechanism},
        "fields": {
            "keep": ["encounter_id", "age", "sex", "stay_days"],
            "drop": ["patient.name"],
            "pseudonymize": ["patient.id"],
            "unlisted": "drop",
        },
        "noise_key": "patient.id",
        "calibration": {
            "window_records": window,
            "every_records": max(50, records // 4),
            "every_seconds": 3,
            "core_share": 1.0,
            "min_records": min(window, max(20, records // 40), MAX_LEAD // 2),
        },
        "worker": {"batch_records": max(50, records // 40), "batch_delay": 0.2},
        "secret": {"file": "secret"},
        "http": {"port": port},
    }


def free_port(preferred: int) -> int:
    """Return ``preferred`` if nothing listens there, otherwise any free port."""
    for port in (preferred, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise AssertionError("the system gave no port")


def is_served(port: int) -> bool:
    """Return whether a server accepts connections on a local port."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


HEALTH_SECONDS = 5.0


def computing_seconds(port: int) -> float:
    """Return how long a local process has been at its present computation; 0 without one or without an answer."""
    return float(_answer(port, "/healthz").get("seconds_computing", 0.0))


def readiness_text(port: int) -> str:
    """Return why a local process is not ready, and what it notes."""
    answer = _answer(port, "/readyz")
    if not answer:
        return "no answer"
    return "; ".join([*answer["reasons"], *answer["notes"]]) or "ready"


def _answer(port: int, path: str) -> dict[str, Any]:
    """Return what a local process answers; empty without an answer."""
    connection = HTTPConnection("127.0.0.1", port, timeout=HEALTH_SECONDS)
    try:
        connection.request("GET", path)
        return dict(orjson.loads(connection.getresponse().read()))
    except (OSError, HTTPException, orjson.JSONDecodeError):
        return {}
    finally:
        connection.close()
