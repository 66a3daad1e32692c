"""A real Prometheus for tests: a server that scrapes loopback ports, and promtool's check of metrics."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from kafka_broker import LOOPBACK, die_with_parent, free_ports

PROGRAMS = ("prometheus", "promtool")

_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def required() -> None:
    """Skip the test if Prometheus is not installed; with ``STREAM_MASKER_REQUIRE_PROMETHEUS=1``, fail it."""
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    if not missing:
        return
    if os.environ.get("STREAM_MASKER_REQUIRE_PROMETHEUS") == "1":
        pytest.fail(f"Prometheus is required, not installed: {', '.join(missing)}", pytrace=False)
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


@dataclass(frozen=True)
class Series:
    """A series of a query result: its name, its other labels, and its current value."""

    name: str
    labels: Mapping[str, str]
    value: float


class Prometheus:
    """A running server, queried through its HTTP API."""

    def __init__(self, process: subprocess.Popen[bytes], port: int, log: Path) -> None:
        self._process = process
        self._url = f"http://{LOOPBACK}:{port}/api/v1"
        self._log = log

    def get_data(self, path: str, **parameters: str) -> Any:
        """Return the data of an API response. Raises URLError or ConnectionError while the server is not up."""
        response_data = json.loads(fetch(f"{self._url}/{path}?{urllib.parse.urlencode(parameters)}"))
        assert response_data["status"] == "success", response_data
        return response_data["data"]

    def query(self, expression: str) -> list[Series]:
        """Return the series that an expression selects."""
        found = self.get_data("query", query=expression)["result"]
        return [_series(dict(one["metric"]), float(one["value"][1])) for one in found]

    def firing(self) -> set[str]:
        """Return the names of the alerts that fire."""
        return {
            alert["labels"]["alertname"] for alert in self.get_data("alerts")["alerts"] if alert["state"] == "firing"
        }

    def targets(self) -> dict[str, str]:
        """Return the result of the last scrape of each process: ``up``, or the error."""
        active = self.get_data("targets", state="active")["activeTargets"]
        return {target["scrapePool"]: target["lastError"] or target["health"] for target in active}

    def wait(self, jobs: Mapping[str, int], timeout: float = 120.0) -> None:
        """Wait until every process is up and its metrics can be queried."""
        deadline = time.monotonic() + timeout
        while (state := self._state()) != (dict.fromkeys(jobs, "up"), len(jobs)):
            assert self._process.poll() is None, f"Prometheus ended:\n{self._log.read_text()[-3000:]}"
            assert time.monotonic() < deadline, f"after {timeout} s: {state}\n{self._log.read_text()[-3000:]}"
            time.sleep(0.2)

    def _state(self) -> tuple[dict[str, str], int]:
        try:
            return self.targets(), len(self.query("up == 1"))
        except (urllib.error.URLError, ConnectionError) as error:
            return {"prometheus": str(error)}, 0


def _series(metric: dict[str, str], value: float) -> Series:
    return Series(metric.pop("__name__", ""), metric, value)


@contextlib.contextmanager
def scraping(
    folder: Path, jobs: Mapping[str, int], rules: Mapping[str, Any] | None = None, *, job: str | None = None
) -> Iterator[Prometheus]:
    """Run a server that scrapes each process's port every second, until the block ends, also by an exception.

    ``rules``: groups of rules, which it evaluates every second. ``job``: the label ``job`` of all processes, by default
    the name of each.
    """
    (folder / "rules.yml").write_text(yaml.safe_dump(rules or {"groups": []}))
    with configured(folder, _settings(jobs, job)) as server:
        server.wait(jobs)
        yield server


@contextlib.contextmanager
def configured(folder: Path, content: Mapping[str, Any]) -> Iterator[Prometheus]:
    """Run a server with a configuration until the block ends, also by an exception."""
    log, (port,) = folder / "prometheus.log", free_ports(1)
    process = _started(folder, port, content, log)
    try:
        yield Prometheus(process, port, log)
    finally:
        process.kill()
        process.wait()


def _started(folder: Path, port: int, content: Mapping[str, Any], log: Path) -> subprocess.Popen[bytes]:
    settings = folder / "prometheus.yml"
    settings.write_text(yaml.safe_dump(content))
    command = [
        "prometheus",
        f"--config.file={settings}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address={LOOPBACK}:{port}",
        "--log.level=warn",
    ]
    with log.open("wb") as output:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=folder,
            preexec_fn=die_with_parent,  # noqa: PLW1509 - it only calls prctl
        )


def _settings(jobs: Mapping[str, int], job: str | None) -> dict[str, Any]:
    labels = {} if job is None else {"job": job}
    return {
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
        "rule_files": ["rules.yml"],
        "scrape_configs": [
            {"job_name": name, "static_configs": [{"targets": [f"{LOOPBACK}:{port}"], "labels": labels}]}
            for name, port in jobs.items()
        ],
    }
