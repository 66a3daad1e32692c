"""What the demonstration starts first: the broker in this process, and commands of stream-masker in others.

It imports little, so that the worker starts soon.
"""

from __future__ import annotations

import secrets
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import KafkaException, Producer

from stream_masker.errors import ServiceError

START_SECONDS = 10.0

MODULES = {"worker": "stream_masker.service.worker.run", "calibrator": "stream_masker.service.calibrator.process"}
PREPARED = "import sys, stream_masker.cli, {module}; sys.stdin.read(); stream_masker.cli.main()"
"""The program of a process: its command has its modules before standard input ends, and begins then."""

SILENT = 2
"""The log level of the demonstration's own clients: without the lines of their connections when the broker ends."""

TOPICS = ("input", "output", "rejected", "calibration", "statistics", "drift")


def demo_configuration(servers: str, records: int) -> str:
    """Return a configuration as YAML, with one statistics version of masked events, all of the outbreak.

    Windows of fewer than 200 events would not show it. With the newer protocol of groups, the worker is assigned its
    partitions at once.
    """
    return f"""
kafka: {{bootstrap_servers: "{servers}", properties: {{group.protocol: consumer}}}}
topics: {{{", ".join(f"{topic}: {topic}" for topic in TOPICS)}}}
ontologies: {{icd: {{source: icd10cm}}}}
attributes:
  principal: {{path: diagnoses.principal.code, label: diagnoses.principal.display, ontology: icd}}
  secondary: {{path: "diagnoses.secondary[*].code", label: "diagnoses.secondary[*].display", ontology: icd}}
fields: {{keep: [encounter_id, age, sex, stay_days], pseudonymize: [patient.id], unlisted: drop}}
noise_key: patient.id
calibration:
  window_records: {max(records // 8, 200)}
  min_records: {records // 20}
  every_records: {7 * records // 10}
  every_seconds: 3600
  core_share: 1.0
worker: {{batch_records: {records // 40}, batch_delay: 0.1}}
secret: {{file: secret}}
"""


@contextmanager
def started(records: int) -> Iterator[Processes]:
    """Run the broker and the worker for this number of events until the block ends.

    Raises ServiceError if the broker does not start.
    """
    with (
        tempfile.TemporaryDirectory(prefix="stream-masker-demo-") as folder,
        embedded_broker() as servers,
        Processes(Path(folder)) as processes,
    ):
        secret = processes.folder / "secret"
        secret.touch(mode=0o600)
        secret.write_bytes(secrets.token_bytes(32))
        processes.configuration.write_text(demo_configuration(servers, records))
        processes.prepare("worker")
        processes.begin("worker")
        yield processes


@contextmanager
def embedded_broker() -> Iterator[str]:
    """Run librdkafka's in-memory broker with the topics, and give its address, host:port.

    It supports consumer groups and transactions. It has no CreateTopics: topics are created on first use with four
    partitions. It does not hide aborted transactions from readers, and describes no topics, which noise by position
    needs. Raises ServiceError if it does not start.
    """
    client = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "embedded", "log_level": 3})
    try:
        for topic in TOPICS:
            brokers = client.list_topics(topic, START_SECONDS).brokers.values()
    except KafkaException:
        raise ServiceError("the embedded broker did not start") from None
    yield ",".join(f"{broker.host}:{broker.port}" for broker in brokers)


class Processes:
    """Processes of the service with one configuration, each with its log in ``folder``, until a ``with`` block ends.

    Nothing of the demonstration outlives it, so they are killed.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.configuration = folder, folder / "stream-masker.yaml"
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *error: object) -> None:
        for process in self._running.values():
            process.kill()
            process.wait()

    def prepare(self, name: str) -> subprocess.Popen[bytes]:
        """Start a process by the name of its command. It imports what it needs, and waits for ``begin``."""
        options = ["--config", str(self.configuration), "--http-port", "0"]
        command = [sys.executable, "-P", "-c", PREPARED.format(module=MODULES[name]), name, *options]
        with (self.folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log)  # noqa: S603 - our own
        self._running[name] = process
        return process

    def begin(self, name: str) -> None:
        """Let a process begin."""
        stream = self._running[name].stdin
        assert stream is not None, "it is a pipe"
        stream.close()

    def check(self) -> None:
        """Raise ServiceError with the end of its log if a process has stopped."""
        for name, process in self._running.items():
            if (code := process.poll()) is not None:
                raise ServiceError(f"{name} stopped with exit code {code}: {self._last_lines(name)}")

    def stalled(self, seconds: float) -> ServiceError:
        """Return the error that nothing has come from the processes for some time, with the ends of their logs."""
        logs = "; ".join(f"{name}: {self._last_lines(name)}" for name in self._running)
        return ServiceError(f"the demonstration has stood still for {seconds:.0f} s; start it again. {logs}")

    def _last_lines(self, name: str) -> str:
        with (self.folder / f"{name}.log").open(errors="replace") as lines:
            return " | ".join(line.strip() for line in deque(lines, 5)) or "no output"
