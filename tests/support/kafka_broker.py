"""A real Apache Kafka for tests: KRaft brokers on free loopback ports, with jars from Maven Central.

The jars are resolved once per user and cached. Brokers are child processes that are ended by their ids; the operating
system kills them if the test process dies first.
"""

from __future__ import annotations

import base64
import contextlib
import ctypes
import fcntl
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
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import IO, TypeAlias

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

Artifact: TypeAlias = tuple[str, str, str]
"""Group, name and version of a Maven artifact."""

VERSION = "4.1.1"
LOGGER: Artifact = ("org.apache.logging.log4j", "log4j-slf4j-impl", "2.24.3")
ARTIFACTS = (("org.apache.kafka", "kafka_2.13", VERSION), LOGGER)
COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
LOOPBACK = "127.0.0.1"
PORTS = range(20_000, 32_000)
"""Below the ephemeral ports, so that no client connection can use the port of a stopped broker."""

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

_ports = iter(random.SystemRandom().sample(PORTS, k=len(PORTS)))
_taken: list[IO[str]] = []
"""The locks of the ports that this process has taken."""
_launcher = ThreadPoolExecutor(max_workers=1, thread_name_prefix="broker-launcher")


class KafkaUnavailableError(Exception):
    """Kafka is neither installed nor obtainable; the message names what is missing."""


class BrokerError(Exception):
    """A broker failed to start; the message ends with the last lines of its log."""


def find(program: str) -> str:
    """Return the path of a program, preferably under JAVA_HOME."""
    home = os.environ.get("JAVA_HOME")
    inside = Path(home, "bin", program) if home else None
    found = str(inside) if inside is not None and inside.is_file() else shutil.which(program)
    if found is None:
        raise KafkaUnavailableError(f"install Java 17 or newer and Maven: no {program}")
    return found


def jars(name: str = "kafka", artifacts: Sequence[Artifact] = ARTIFACTS) -> Path:
    """Return the folder of Kafka's or other jars in the user's cache; Maven resolves them on first use."""
    target = cache_folder() / f"{name}-{VERSION}"
    if not target.is_dir():
        resolve(target, artifacts)
    return target


def cache_folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "stream-masker-tests"


def resolve(target: Path, artifacts: Sequence[Artifact]) -> None:
    """Copy the jars to a temporary folder and rename it, so that concurrent runs never see an incomplete folder."""
    maven = find("mvn")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as temporary:
        folder = Path(temporary)
        (folder / "pom.xml").write_text(pom(artifacts))
        copy_dependencies(maven, folder)
        with contextlib.suppress(OSError):  # a concurrent run created it first
            (folder / "jars").rename(target)
    if not target.is_dir():
        raise KafkaUnavailableError(f"the jars of Apache Kafka cannot be stored in {target}")


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
    """Return ports that nothing listens on, and that no process of a test run has been given before and still has."""
    return list(islice(filter(take_port, _ports), count))


def take_port(port: int) -> bool:
    """Take a port until this process ends; return False if another one has it, or something listens on it.

    A broker listens seconds after its port was chosen, so the port is locked on this machine meanwhile.
    """
    folder = Path(tempfile.gettempdir(), f"stream-masker-ports-{os.getuid()}")
    folder.mkdir(exist_ok=True)
    lock = (folder / str(port)).open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        return False
    _taken.append(lock)
    with socket.socket() as probe:
        return probe.connect_ex((LOOPBACK, port)) != 0


def die_with_parent() -> None:
    """Have Linux kill this process when the thread that started it ends, so that no broker outlives the tests."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)


@dataclass(frozen=True)
class Ports:
    """The ports of a broker.

    The listener at ``behind`` advertises ``detour``, where nothing listens unless a test forwards it to ``behind``.
    """

    port: int
    controller: int
    behind: int
    detour: int


@dataclass
class Broker:
    """A broker and controller process. ``kill`` is a crash, ``stop`` a clean shutdown; ``start`` keeps the data."""

    id: int
    folder: Path
    ports: Ports
    properties: Mapping[str, object]
    heap: str
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    def __getstate__(self) -> dict[str, object]:
        """Leave out the process, which a copy in another process cannot end."""
        return {**vars(self), "process": None}

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
        """Write the settings and start to format the log folder."""
        self.folder.mkdir(parents=True)
        (self.folder / "log4j2.properties").write_text(LOGGING)
        lines = "".join(f"{name}={value}\n" for name, value in self.properties.items())
        (self.folder / "server.properties").write_text(lines)
        return self.run("kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", self.settings)

    def start(self) -> None:
        if not self.running:
            self.process = self.run("kafka.Kafka", self.settings)

    def kill(self) -> None:
        """Kill the process, like a crash."""
        self.end(signal.SIGKILL)

    def stop(self, timeout: float = 30.0) -> None:
        """Shut the broker down cleanly; kill it after ``timeout`` seconds."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.end(signal.SIGTERM, timeout)
        self.kill()

    def freeze(self) -> None:
        """Suspend the process: connections stay open, and nothing is answered."""
        if self.process is not None:
            self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let the process continue."""
        if self.process is not None:
            self.process.send_signal(signal.SIGCONT)

    def end(self, how: signal.Signals, timeout: float | None = None) -> None:
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait(timeout)

    def tail(self, lines: int = 40) -> str:
        """Return the last lines of the log."""
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return "\n".join(text.splitlines()[-lines:])

    @property
    def settings(self) -> str:
        return str(self.folder / "server.properties")

    def run(self, main: str, *arguments: str) -> subprocess.Popen[bytes]:
        """Start a main class of Kafka with output to the log, from a thread that lives as long as the tests."""
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
    """A cluster of brokers with the ids 1, 2, ..."""

    def __init__(self, brokers: Sequence[Broker]) -> None:
        self.brokers = {broker.id: broker for broker in brokers}

    @property
    def bootstrap(self) -> str:
        """The ``bootstrap.servers`` of all brokers."""
        return ",".join(broker.address for broker in self.brokers.values())

    def create(self) -> None:
        """Format and start every broker, and wait until all have joined."""
        random_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        cluster_id = f"A{random_id[1:]}"  # a leading dash would be parsed as an option
        tools = [(broker, broker.format(cluster_id)) for broker in self.brokers.values()]
        for broker, tool in tools:
            if tool.wait(120):
                raise BrokerError(f"broker {broker.id} cannot be formatted:\n{broker.tail()}")
        self.heal()

    def heal(self) -> None:
        """Start the stopped brokers, and wait until all have joined."""
        for broker in self.brokers.values():
            broker.start()
        self.wait()

    def start(self, broker_id: int) -> None:
        """Start a stopped broker, and wait until every running one has joined."""
        self.brokers[broker_id].start()
        self.wait()

    def stop(self, broker_id: int) -> None:
        self.brokers[broker_id].stop()

    def freeze(self, broker_id: int) -> None:
        self.brokers[broker_id].freeze()

    def thaw(self, broker_id: int) -> None:
        """Let a frozen broker continue, and wait until every running one has joined."""
        self.brokers[broker_id].thaw()
        self.wait()

    def destroy(self) -> None:
        """Kill every broker."""
        for broker in self.brokers.values():
            broker.kill()

    def wait(self, timeout: float = 240.0) -> None:
        """Wait until the metadata contain every running broker."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        deadline = time.monotonic() + timeout
        expected = {broker.id for broker in self.brokers.values() if broker.process is not None and broker.running}
        while not expected <= joined(admin):
            for broker in self.brokers.values():
                if broker.id in expected and not broker.running:
                    raise BrokerError(f"broker {broker.id} ended while it started:\n{broker.tail()}")
            if time.monotonic() > deadline:
                raise BrokerError(f"the brokers {sorted(expected)} are not up after {timeout:.0f} s:\n{self.tails()}")
            time.sleep(0.1)

    def tails(self) -> str:
        return "\n".join(f"-- broker {broker.id}\n{broker.tail()}" for broker in self.brokers.values())


def joined(admin: AdminClient) -> set[int]:
    """Return the ids of the brokers in the metadata; none while no broker is reachable."""
    try:
        return set(admin.list_topics(timeout=2).brokers)
    except KafkaException:
        return set()


MoreSettings = Callable[[Ports], Mapping[str, object]]


def build(folder: Path, *, brokers: int, heap: str, more: MoreSettings) -> Cluster:
    """Build a cluster of brokers, which are also controllers, under ``folder``, without starting it.

    ``more``: further settings of a broker.
    """
    free = iter(free_ports(4 * brokers))
    ports = [Ports(*islice(free, 4)) for _ in range(brokers)]
    voters = ",".join(f"{number}@{LOOPBACK}:{port.controller}" for number, port in enumerate(ports, 1))
    return Cluster(
        [
            Broker(
                id=number,
                folder=folder / f"broker-{number}",
                ports=port,
                properties={**settings(number, folder, port, voters, brokers), **more(port)},
                heap=heap,
            )
            for number, port in enumerate(ports, 1)
        ]
    )


def settings(number: int, folder: Path, ports: Ports, voters: str, brokers: int) -> dict[str, object]:
    """Return the settings of one broker, without automatic topics and with few partitions for internal topics."""
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
    """Return the value of a listeners setting."""
    return ",".join(f"{name}://{LOOPBACK}:{port}" for name, port in listeners.items())


def replication(factor: int) -> dict[str, object]:
    """Return the settings that replicate all topics ``factor`` times, with all but one replica in sync."""
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
def running(
    folder: Path, *, brokers: int = 1, heap: str = "512m", more: MoreSettings = lambda _: {}
) -> Iterator[Cluster]:
    """Run a cluster until the block ends, also by an exception. ``more``: further settings of a broker."""
    find("java")
    jars()
    cluster = build(folder, brokers=brokers, heap=heap, more=more)
    try:
        cluster.create()
        yield cluster
    finally:
        cluster.destroy()
