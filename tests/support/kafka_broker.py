"""A real Apache Kafka for tests: KRaft brokers on free loopback ports, their jars from Maven Central.

The jars are resolved once per user and kept in the cache folder. Brokers are child processes; each is ended by its own
id, and the system ends them when the test process dies without doing so.
"""

from __future__ import annotations

import base64
import contextlib
import ctypes
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TypeAlias

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

Artifact: TypeAlias = tuple[str, str, str]
"""Group, name and version of what Maven resolves."""

VERSION = "4.1.1"
LOGGER: Artifact = ("org.apache.logging.log4j", "log4j-slf4j-impl", "2.24.3")
ARTIFACTS = (("org.apache.kafka", "kafka_2.13", VERSION), LOGGER)
COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
LOOPBACK = "127.0.0.1"
PORTS = range(20_000, 32_000)
"""Below the ephemeral ports, so that no client's own connection can take the port of a broker that is down."""

LOGGING = """\
status = error
rootLogger.level = warn
rootLogger.appenderRef.stdout.ref = STDOUT
appender.stdout.type = Console
appender.stdout.name = STDOUT
appender.stdout.layout.type = PatternLayout
appender.stdout.layout.pattern = %d{HH:mm:ss.SSS} %-5p %c{1}: %m%n%throwable{1}
"""
JVM = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.awt.headless=true")

_launcher = ThreadPoolExecutor(max_workers=1, thread_name_prefix="broker-launcher")


class KafkaUnavailableError(Exception):
    """There is no Kafka on this machine and no way to get one; the message says what is missing."""


class BrokerError(Exception):
    """A broker does not start; the message ends with the last lines of its log."""


def find(program: str) -> str:
    """The path of a program; under JAVA_HOME first."""
    home = os.environ.get("JAVA_HOME")
    inside = Path(home, "bin", program) if home else None
    found = str(inside) if inside is not None and inside.is_file() else shutil.which(program)
    if found is None:
        raise KafkaUnavailableError(f"no {program} on this machine: Apache Kafka needs it (openjdk 17 or later, maven)")
    return found


def jars(name: str = "kafka", artifacts: Sequence[Artifact] = ARTIFACTS) -> Path:
    """The folder of Kafka's jars, or of others: in the user's cache, resolved by Maven on first use."""
    target = cache_folder() / f"{name}-{VERSION}"
    if not target.is_dir():
        resolve(target, artifacts)
    return target


def cache_folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "stream-masker-tests"


def resolve(target: Path, artifacts: Sequence[Artifact]) -> None:
    """Copies the jars beside the target and renames: the folder is whole or not there, whoever else does the same."""
    maven = find("mvn")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as temporary:
        folder = Path(temporary)
        (folder / "pom.xml").write_text(pom(artifacts))
        copy_dependencies(maven, folder)
        with contextlib.suppress(OSError):  # another test run was first
            (folder / "jars").rename(target)
    if not target.is_dir():
        raise KafkaUnavailableError(f"the jars of Apache Kafka cannot be put into {target}")


def pom(artifacts: Sequence[Artifact]) -> str:
    dependencies = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>"
        "</dependency>"
        for group, artifact, version in artifacts
    )
    return (
        "<project><modelVersion>4.0.0</modelVersion><groupId>tests</groupId><artifactId>kafka</artifactId>"
        f"<version>1</version><dependencies>{dependencies}</dependencies></project>"
    )


def copy_dependencies(maven: str, folder: Path) -> None:
    command = [maven, "-B", "-q", "-f", str(folder / "pom.xml"), COPY, f"-DoutputDirectory={folder / 'jars'}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    if done.returncode:
        said = (done.stdout + done.stderr)[-500:]
        raise KafkaUnavailableError(f"Maven cannot resolve Apache Kafka {VERSION}: {said}")


def free_ports(count: int) -> list[int]:
    """Ports that nothing listens on."""
    free = [port for port in random.sample(PORTS, k=50 * count) if is_free(port)]
    return free[:count]


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((LOOPBACK, port)) != 0


def die_with_parent() -> None:
    """Asks Linux to kill this process when the thread that started it ends: no broker outlives the tests."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)


@dataclass(frozen=True)
class Ports:
    """Where a broker listens.

    Clients that ask at ``detour`` are sent there again: nothing listens, unless a test forwards it to ``behind``.
    """

    port: int
    controller: int
    behind: int
    detour: int


@dataclass
class Broker:
    """One broker and controller process. ``kill`` is a crash, ``stop`` an orderly end; data stay for ``start``."""

    id: int
    folder: Path
    ports: Ports
    properties: Mapping[str, object]
    heap: str
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def address(self) -> str:
        return f"{LOOPBACK}:{self.ports.port}"

    @property
    def log(self) -> Path:
        return self.folder / "broker.log"

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def format(self, cluster_id: str) -> subprocess.Popen[bytes]:
        """Writes the settings and starts the formatting of the log folder."""
        self.folder.mkdir(parents=True)
        (self.folder / "log4j2.properties").write_text(LOGGING)
        lines = "".join(f"{name}={value}\n" for name, value in self.properties.items())
        (self.folder / "server.properties").write_text(lines)
        return self.run("kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", self.settings)

    def start(self) -> None:
        if not self.running:
            self.process = self.run("kafka.Kafka", self.settings)

    def kill(self) -> None:
        """Ends the process at once, as a crash does."""
        self.end(signal.SIGKILL)

    def stop(self, timeout: float = 30.0) -> None:
        """Shuts the broker down in order, and by force when that takes longer than ``timeout`` seconds."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.end(signal.SIGTERM, timeout)
        self.kill()

    def end(self, how: signal.Signals, timeout: float | None = None) -> None:
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait(timeout)

    def tail(self, lines: int = 40) -> str:
        """The last lines of the log."""
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return "\n".join(text.splitlines()[-lines:])

    @property
    def settings(self) -> str:
        return str(self.folder / "server.properties")

    def run(self, main: str, *arguments: str) -> subprocess.Popen[bytes]:
        """Starts a main class of Kafka, its output going to the log, from a thread that lives as long as the tests."""
        return _launcher.submit(self.launch, main, *arguments).result()

    def launch(self, main: str, *arguments: str) -> subprocess.Popen[bytes]:
        logging = f"-Dlog4j2.configurationFile={(self.folder / 'log4j2.properties').as_uri()}"
        command = [find("java"), f"-Xmx{self.heap}", *JVM, logging, "-cp", f"{jars()}/*", main, *arguments]
        with self.log.open("ab") as log:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=die_with_parent,  # noqa: PLW1509 - it only calls prctl
            )


class Cluster:
    """Brokers that form one cluster, by their ids 1, 2, ..."""

    def __init__(self, brokers: Sequence[Broker]) -> None:
        self.brokers = {broker.id: broker for broker in brokers}

    @property
    def bootstrap(self) -> str:
        """The addresses of all brokers, for ``bootstrap.servers``."""
        return ",".join(broker.address for broker in self.brokers.values())

    def create(self) -> None:
        """Formats and starts every broker, and waits until all have joined."""
        random_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        cluster_id = f"A{random_id[1:]}"  # with a dash at its start it would be taken for an option
        tools = [(broker, broker.format(cluster_id)) for broker in self.brokers.values()]
        for broker, tool in tools:
            if tool.wait(120):
                raise BrokerError(f"broker {broker.id} cannot be formatted:\n{broker.tail()}")
        self.heal()

    def heal(self) -> None:
        """Starts what is down, and waits until all brokers have joined."""
        for broker in self.brokers.values():
            broker.start()
        self.wait()

    def start(self, broker_id: int) -> None:
        """Starts a broker that is down, and waits until every running one has joined."""
        self.brokers[broker_id].start()
        self.wait()

    def stop(self, broker_id: int) -> None:
        self.brokers[broker_id].stop()

    def kill(self, broker_id: int) -> None:
        self.brokers[broker_id].kill()

    def restart(self, broker_id: int) -> None:
        """Stops a broker in order and starts it again."""
        self.stop(broker_id)
        self.start(broker_id)

    def destroy(self) -> None:
        """Ends every broker at once; nothing of theirs is needed any more."""
        for broker in self.brokers.values():
            broker.kill()

    def wait(self, timeout: float = 240.0) -> None:
        """Waits until the metadata name every broker that should be up."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        deadline = time.monotonic() + timeout
        expected = {broker.id for broker in self.brokers.values() if broker.process is not None and broker.running}
        while not expected <= joined(admin):
            self.check_alive(expected)
            if time.monotonic() > deadline:
                raise BrokerError(f"the brokers {sorted(expected)} are not up after {timeout:.0f} s:\n{self.tails()}")
            time.sleep(0.1)

    def check_alive(self, expected: set[int]) -> None:
        dead = [broker for broker in self.brokers.values() if broker.id in expected and not broker.running]
        if dead:
            raise BrokerError(f"broker {dead[0].id} ended while it started:\n{dead[0].tail()}")

    def tails(self) -> str:
        return "\n".join(f"-- broker {broker.id}\n{broker.tail()}" for broker in self.brokers.values())


def joined(admin: AdminClient) -> set[int]:
    """The ids of the brokers that the metadata name; none while no broker answers."""
    try:
        return set(admin.list_topics(timeout=2).brokers)
    except KafkaException:
        return set()


def build(folder: Path, *, brokers: int, heap: str) -> Cluster:
    """A cluster of so many brokers (each a controller too) under ``folder``, not yet started."""
    free = iter(free_ports(4 * brokers))
    ports = [Ports(*islice(free, 4)) for _ in range(brokers)]
    voters = ",".join(f"{number}@{LOOPBACK}:{port.controller}" for number, port in enumerate(ports, 1))
    return Cluster(
        [
            Broker(
                id=number,
                folder=folder / f"broker-{number}",
                ports=port,
                properties=settings(number, folder, port, voters, brokers),
                heap=heap,
            )
            for number, port in enumerate(ports, 1)
        ]
    )


def settings(number: int, folder: Path, ports: Ports, voters: str, brokers: int) -> dict[str, object]:
    """The settings of one broker. Topics appear only when created; internal ones have few partitions."""
    return {
        "process.roles": "broker,controller",
        "node.id": number,
        "controller.quorum.voters": voters,
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAINTEXT",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,DETOUR:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "listeners": addresses(PLAINTEXT=ports.port, DETOUR=ports.behind, CONTROLLER=ports.controller),
        "advertised.listeners": addresses(PLAINTEXT=ports.port, DETOUR=ports.detour),
        "log.dirs": folder / f"broker-{number}" / "data",
        "auto.create.topics.enable": "false",
        "group.initial.rebalance.delay.ms": 0,
        "offsets.topic.num.partitions": 8,
        "transaction.state.log.num.partitions": 8,
        "share.coordinator.state.topic.num.partitions": 2,
        "log.cleaner.dedupe.buffer.size": 8 * 1024 * 1024,
        **replication(min(brokers, 3)),
    }


def addresses(**listeners: int) -> str:
    """Listeners and their ports, as the settings name them."""
    return ",".join(f"{name}://{LOOPBACK}:{port}" for name, port in listeners.items())


def replication(factor: int) -> dict[str, object]:
    """Every topic, internal ones too, on ``factor`` brokers; all but one of them must be in sync."""
    in_sync = max(1, factor - 1)
    return {
        "default.replication.factor": factor,
        "min.insync.replicas": in_sync,
        "offsets.topic.replication.factor": factor,
        "transaction.state.log.replication.factor": factor,
        "transaction.state.log.min.isr": in_sync,
        "share.coordinator.state.topic.replication.factor": factor,
        "share.coordinator.state.topic.min.isr": in_sync,
    }


@contextlib.contextmanager
def running(folder: Path, *, brokers: int = 1, heap: str = "512m") -> Iterator[Cluster]:
    """A running cluster; its processes end with the block, whatever happens in it."""
    find("java")
    jars()
    cluster = build(folder, brokers=brokers, heap=heap)
    try:
        cluster.create()
        yield cluster
    finally:
        cluster.destroy()
