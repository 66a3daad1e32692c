"""A real Apache Kafka for tests: KRaft brokers on free loopback ports, with jars from Maven Central.

The jars are resolved once per user and cached. Brokers are child processes that are ended by their ids; the operating
system kills them if the test process dies first.
"""

from __future__ import annotations

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
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, TypeAlias

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

Artifact: TypeAlias = tuple[str, str, str]
"""Group, name and version of a Maven artifact."""

VERSION = os.environ.get("STREAM_MASKER_TEST_KAFKA", "4.1.1")
LOGGER: Artifact = ("org.apache.logging.log4j", "log4j-slf4j-impl", "2.24.3")
ARTIFACTS = (("org.apache.kafka", "kafka_2.13", VERSION), LOGGER)
COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
POM = """\
<project><modelVersion>4.0.0</modelVersion><groupId>tests</groupId><artifactId>kafka</artifactId><version>1</version>
<dependencies>{}</dependencies></project>
"""
DEPENDENCY = "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>"

LOOPBACK = "127.0.0.1"
PORTS = range(20_000, 32_000)
"""Below the ephemeral ports, so that no client connection can use the port of a stopped broker."""

JVM = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.awt.headless=true")
LOGGING = """\
status = error
rootLogger.level = warn
rootLogger.appenderRef.stdout.ref = STDOUT
appender.stdout.type = Console
appender.stdout.name = STDOUT
appender.stdout.layout.type = PatternLayout
appender.stdout.layout.pattern = %d{HH:mm:ss.SSS} %-5p %c{1}: %m%n%throwable{1}
"""
SETTINGS = """\
process.roles=broker,controller
node.id={number}
controller.quorum.voters={voters}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,DETOUR:PLAINTEXT,CONTROLLER:PLAINTEXT
listeners=PLAINTEXT://{host}:{port},DETOUR://{host}:{behind},CONTROLLER://{host}:{controller}
advertised.listeners=PLAINTEXT://{host}:{port},DETOUR://{host}:{detour}
log.dirs={data}
auto.create.topics.enable=false
group.initial.rebalance.delay.ms=0
offsets.topic.num.partitions=8
transaction.state.log.num.partitions=8
share.coordinator.state.topic.num.partitions=2
log.cleaner.dedupe.buffer.size=8388608
default.replication.factor={replicas}
min.insync.replicas={in_sync}
offsets.topic.replication.factor={replicas}
transaction.state.log.replication.factor={replicas}
transaction.state.log.min.isr={in_sync}
share.coordinator.state.topic.replication.factor={replicas}
share.coordinator.state.topic.min.isr={in_sync}
"""
"""The settings of a broker: no automatic topics, few partitions of internal topics, all but one replica in sync."""

_ports = iter(random.SystemRandom().sample(PORTS, k=len(PORTS)))
_taken: list[IO[str]] = []
"""The locks of the ports that this process has taken."""
_launcher = ThreadPoolExecutor(max_workers=1, thread_name_prefix="launcher")
"""The thread that starts processes; it lives as long as the tests."""


class KafkaUnavailableError(Exception):
    """Kafka is neither installed nor obtainable; the message names what is missing."""


class BrokerError(Exception):
    """A broker failed to start; the message ends with the last lines of its log."""


def find(program: str) -> str:
    """Return the path of a program, preferably under JAVA_HOME."""
    inside = Path(os.environ.get("JAVA_HOME", "/nowhere"), "bin", program)
    found = str(inside) if inside.is_file() else shutil.which(program)
    if found is None:
        raise KafkaUnavailableError(f"install Java 17 or newer and Maven: no {program}")
    return found


def jars(name: str = "kafka", artifacts: Sequence[Artifact] = ARTIFACTS) -> Path:
    """Return the folder of Kafka's or other jars in the user's cache; Maven resolves them on first use."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "stream-masker-tests"
    target = cache / f"{name}-{VERSION}"
    if target.is_dir():
        return target
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as temporary:
        own, copied = Path(temporary, "pom.xml"), Path(temporary, "jars")
        own.write_text(POM.format("".join(DEPENDENCY.format(*one) for one in artifacts)))
        command = [find("mvn"), "-B", "-q", "-f", str(own), COPY, f"-DoutputDirectory={copied}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
        if done.returncode:
            said = (done.stdout + done.stderr)[-500:]
            raise KafkaUnavailableError(f"Maven cannot resolve Apache Kafka {VERSION}: {said}")
        with contextlib.suppress(OSError):  # a concurrent run created it first
            copied.rename(target)
    return target


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


def launch(command: Sequence[str], log: Path, folder: Path) -> subprocess.Popen[bytes]:
    """Start a process in a folder with its output to a log. Linux kills it when the tests end."""

    def die_with_parent() -> None:
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(1, signal.SIGKILL)

    def start() -> subprocess.Popen[bytes]:
        with log.open("ab") as output:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=folder,
                preexec_fn=die_with_parent,  # noqa: PLW1509 - it only calls prctl
            )

    return _launcher.submit(start).result()


@dataclass(frozen=True)
class Ports:
    """The ports of a broker.

    The listener at ``behind`` advertises ``detour``, where nothing listens unless a test forwards it to ``behind``.
    """

    port: int
    controller: int
    behind: int
    detour: int


MoreSettings = Callable[[Ports], str]
"""Further settings of a broker, which replace others of the same name."""


class Cluster:
    """Brokers with the ids 1, 2, …, which are also controllers. A broker that starts again has its data."""

    def __init__(self, folder: Path, brokers: int, heap: str, more: MoreSettings) -> None:
        free = iter(free_ports(4 * brokers))
        self.ports = {number: Ports(*islice(free, 4)) for number in range(1, brokers + 1)}
        self.folder, self.heap = folder, heap
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        voters = ",".join(f"{number}@{LOOPBACK}:{ports.controller}" for number, ports in self.ports.items())
        replicas = {"replicas": min(brokers, 3), "in_sync": max(1, min(brokers, 3) - 1)}
        for number, ports in self.ports.items():
            own = self.path(number)
            own.mkdir(parents=True)
            (own / "log4j2.properties").write_text(LOGGING)
            given = {"number": number, "voters": voters, "host": LOOPBACK, "data": own / "data", **replicas}
            (own / "server.properties").write_text(SETTINGS.format(**given, **vars(ports)) + more(ports))

    def __getstate__(self) -> dict[str, object]:
        """Leave out the processes, which a copy in another process cannot end."""
        return {**vars(self), "processes": {}}

    @property
    def bootstrap(self) -> str:
        """The ``bootstrap.servers`` of all brokers."""
        return ",".join(f"{LOOPBACK}:{ports.port}" for ports in self.ports.values())

    @property
    def running(self) -> set[int]:
        return {number for number, process in self.processes.items() if process.poll() is None}

    def create(self) -> None:
        """Format and start every broker, and wait until all have joined."""
        cluster_id = f"A{uuid.uuid4().hex[:21]}"
        tool = ("kafka.tools.StorageTool", "format", "-t", cluster_id, "-c")
        tools = {number: self.run(number, *tool) for number in self.ports}
        for number, process in tools.items():
            if process.wait(120):
                raise BrokerError(f"broker {number} cannot be formatted:\n{self.tails()}")
        self.heal()

    def heal(self) -> None:
        """Start the stopped brokers, and wait until all have joined."""
        self.start(*self.ports)

    def start(self, *numbers: int) -> None:
        """Start those of some brokers that are stopped, and wait until every running one has joined."""
        for number in set(numbers) - self.running:
            self.processes[number] = self.run(number, "kafka.Kafka")
        self.wait()

    def kill(self, number: int) -> None:
        """Kill a broker, like a crash."""
        self.processes[number].kill()
        self.processes[number].wait()

    def stop(self, number: int, timeout: float = 30.0) -> None:
        """Shut a broker down cleanly; kill it after ``timeout`` seconds."""
        self.processes[number].terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.processes[number].wait(timeout)
        self.kill(number)

    def freeze(self, number: int) -> None:
        """Suspend a broker: connections stay open, and nothing is answered."""
        self.processes[number].send_signal(signal.SIGSTOP)

    def thaw(self, number: int) -> None:
        """Let a frozen broker continue, and wait until every running one has joined."""
        self.processes[number].send_signal(signal.SIGCONT)
        self.wait()

    def destroy(self) -> None:
        for number in self.processes:
            self.kill(number)

    def wait(self, timeout: float = 240.0) -> None:
        """Wait until the metadata contain every running broker."""
        deadline, expected = time.monotonic() + timeout, self.running
        while not expected <= joined(self.bootstrap):
            if self.running < expected or time.monotonic() > deadline:
                raise BrokerError(f"of the brokers {expected}, only {self.running} run, or too late:\n{self.tails()}")
            time.sleep(0.1)

    def tails(self, lines: int = 40) -> str:
        """Return the last lines of all logs."""
        logs = {number: self.path(number, "broker.log") for number in self.ports}
        texts = {number: log.read_text(errors="replace") for number, log in logs.items() if log.exists()}
        return "\n".join(f"-- broker {n}\n" + "\n".join(text.splitlines()[-lines:]) for n, text in texts.items())

    def path(self, number: int, file: str = "") -> Path:
        return self.folder / f"broker-{number}" / file

    def run(self, number: int, *main: str) -> subprocess.Popen[bytes]:
        """Start a main class of Kafka, whose last argument is the settings of a broker."""
        own = self.path(number)
        logging = f"-Dlog4j2.configurationFile={(own / 'log4j2.properties').as_uri()}"
        command = [find("java"), f"-Xmx{self.heap}", *JVM, logging, "-cp", f"{jars()}/*", *main, "server.properties"]
        return launch(command, own / "broker.log", own)


def joined(bootstrap: str) -> set[int]:
    """Return the ids of the brokers in the metadata; none while no broker is reachable.

    The client is new: one that saw a broker stop or start may be left without any.
    """
    try:
        return set(AdminClient({"bootstrap.servers": bootstrap, "log_level": 0}).list_topics(timeout=2).brokers)
    except KafkaException:
        return set()


@contextlib.contextmanager
def running(
    folder: Path, *, brokers: int = 1, heap: str = "512m", more: MoreSettings = lambda _: ""
) -> Iterator[Cluster]:
    """Run a cluster until the block ends, also by an exception. ``more``: further settings of a broker."""
    find("java")
    jars()
    cluster = Cluster(folder, brokers, heap, more)
    try:
        cluster.create()
        yield cluster
    finally:
        cluster.destroy()
