"""The environment of the demonstration: a configuration, a secret and free ports, in a temporary folder."""

from __future__ import annotations

import secrets
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from stream_masker.service.configuration import Configuration, load_configuration
from stream_masker.service.demo.options import DemoOptions
from stream_masker.service.events.synthetic import NESTED_EVENTS

TOPICS = ("input", "output", "rejected", "calibration", "statistics", "drift")


@dataclass(frozen=True, slots=True)
class DemoEnvironment:
    """The configuration file of one demonstration, what it has, and the ports of the processes."""

    file: Path
    configuration: Configuration
    calibrator_port: int
    worker_port: int

    @property
    def ports(self) -> dict[str, int]:
        """The port of each process."""
        return {"calibrator": self.calibrator_port, "worker": self.worker_port}


def prepare_demo(folder: Path, bootstrap_servers: str, options: DemoOptions) -> DemoEnvironment:
    """Write the configuration and a new secret to a folder; uses the port of the options and the next one, or free
    ports."""
    file, secret = folder / "stream-masker.yaml", folder / "secret"
    secret.touch(mode=0o600)
    secret.write_bytes(secrets.token_bytes(32))
    port = free_port(options.port)
    file.write_text(yaml.safe_dump(demo_configuration(bootstrap_servers, options, port), sort_keys=False))
    return DemoEnvironment(file, load_configuration(file, {}), port, free_port(port + 1))


def demo_configuration(bootstrap_servers: str, options: DemoOptions, port: int) -> dict[str, Any]:
    """Return a configuration of nested events, with versions of a sample, of the first half and of the second one.

    A version is due after every nine twentieths of the events, and the window is two fifths of them: the window of the
    last version has only events of the outbreak.
    """
    records, run = options.records, secrets.token_hex(3)
    window = max(100, 2 * records // 5)
    return {
        **NESTED_EVENTS,
        "kafka": {"bootstrap_servers": bootstrap_servers},
        "topics": {topic: f"stream-masker-demo-{run}.{topic}" for topic in TOPICS},
        "mechanism": {"name": options.mechanism},
        "calibration": {
            "window_records": window,
            "every_records": 9 * records // 20,
            "every_seconds": 3_600,
            "core_share": 1.0,
            "min_records": max(10, records // 20),
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
