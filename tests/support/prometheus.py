"""A real Prometheus for tests: a server that scrapes loopback ports, and promtool's check of metrics."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from kafka_broker import LOOPBACK, free_ports, launch
from polling import wait

PROGRAMS = ("prometheus", "promtool")
START_SECONDS = 120.0

_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def required() -> None:
    """Skip the test if Prometheus is not installed; with ``STREAM_MASKER_REQUIRE_PROMETHEUS=1``, fail it."""
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    if missing and os.environ.get("STREAM_MASKER_REQUIRE_PROMETHEUS") == "1":
        pytest.fail(f"Prometheus is required, not installed: {', '.join(missing)}", pytrace=False)
    if missing:
        pytest.skip(f"install Prometheus (Debian package prometheus): no {' and no '.join(missing)}")


def fetch(url: str) -> bytes:
    """Fetch a loopback URL without a proxy."""
    with _direct.open(url, timeout=60) as response:
        body: bytes = response.read()
        return body


def complaints(page: bytes) -> str:
    """Return the output of ``promtool check metrics``, empty if the metrics are valid."""
    done = subprocess.run(["promtool", "check", "metrics"], input=page, capture_output=True, timeout=60, check=False)
    said = (done.stdout + done.stderr).decode()
    return said or (f"exit {done.returncode}" if done.returncode else "")


class Series(NamedTuple):
    """A series of a query result: its name, its other labels, and its current value."""

    name: str
    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True)
class Prometheus:
    """A running server, queried through its HTTP API."""

    url: str

    def _data(self, path: str, **parameters: str) -> Any:
        """Return the data of an API response. Raises URLError or ConnectionError while the server is not up."""
        response = json.loads(fetch(f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"))
        assert response["status"] == "success", response
        return response["data"]

    def query(self, expression: str) -> list[Series]:
        """Return the series that an expression selects."""
        found = [(dict(one["metric"]), one["value"]) for one in self._data("query", query=expression)["result"]]
        return [Series(labels.pop("__name__", ""), labels, float(value)) for labels, (_, value) in found]

    def firing(self) -> set[str]:
        """Return the names of the alerts that fire."""
        alerts = self._data("alerts")["alerts"]
        return {alert["labels"]["alertname"] for alert in alerts if alert["state"] == "firing"}

    def scraped(self) -> int:
        """Return how many processes were up at the last scrape; 0 while the server starts."""
        try:
            return len(self.query("up == 1"))
        except (urllib.error.URLError, ConnectionError):
            return 0


@contextlib.contextmanager
def scraping(
    folder: Path, jobs: Mapping[str, int], rules: Mapping[str, Any] | None = None, *, job: str | None = None
) -> Iterator[Prometheus]:
    """Run a server that scrapes each process's port every second, until the block ends, also by an exception.

    ``rules``: groups of rules, which it evaluates every second. ``job``: the label ``job`` of all processes, by default
    the name of each.
    """
    labels = {} if job is None else {"job": job}
    settings = {
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
        "rule_files": ["rules.yml"],
        "scrape_configs": [
            {"job_name": name, "static_configs": [{"targets": [f"{LOOPBACK}:{port}"], "labels": labels}]}
            for name, port in jobs.items()
        ],
    }
    (folder / "rules.yml").write_text(yaml.safe_dump(rules or {"groups": []}))
    (folder / "prometheus.yml").write_text(yaml.safe_dump(settings))
    server, log = Prometheus(f"http://{LOOPBACK}:{free_ports(1)[0]}"), folder / "prometheus.log"
    options = ("--config.file=prometheus.yml", "--storage.tsdb.path=data", "--log.level=warn")
    listening = f"--web.listen-address={server.url.removeprefix('http://')}"
    process = launch(["prometheus", *options, listening], log, folder)
    try:
        wait(lambda: process.poll() is not None or server.scraped() == len(jobs), f"scrape of {jobs}", START_SECONDS)
        assert process.poll() is None, f"Prometheus ended:\n{log.read_text()[-3000:]}"
        yield server
    finally:
        process.kill()
        process.wait()
