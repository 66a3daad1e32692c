"""Kafka's own admin operations in random order, while workers and a calibrator run, and the audit after them.

Records have unique ids. ``AdminStream.audit`` compares the ids that were published with those of the outputs: a record
may be missing only if its offset was deleted, and workers must have counted it.
"""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import KafkaException, Message, Producer
from confluent_kafka.admin import AclBinding, AdminClient, NewPartitions, NewTopic
from fault_checker import PATIENT, committed, masking_errors
from fault_load import REJECTED
from fault_stream import Fleet, read_metric
from kafka_records import QUIET, Record
from processes import Processes
from secured_kafka import SecuredKafka, acl_bindings
from workers import START, Setting, http_port, setting, value, wait

REFRESH_MS = 2_000
"""How often clients look for changes of topics."""

BURST = 120
"""Records that are published after each operation."""

SETTLING = 240.0

SETTINGS = (
    ("input", "retention.ms", "86400000"),
    ("input", "compression.type", "zstd"),
    ("output", "min.insync.replicas", "2"),
    ("output", "compression.type", "lz4"),
    ("rejected", "min.insync.replicas", "2"),
    ("calibration", "min.insync.replicas", "2"),
    ("calibration", "segment.ms", "1000"),
    ("statistics", "min.insync.replicas", "2"),
    ("statistics", "max.message.bytes", "2000"),
)
"""Topic settings that an operation changes; with two replicas in sync, one broker refuses what is written."""

RECREATED = ("statistics", "calibration")


class Audit(NamedTuple):
    """What a comparison of the records that were sent with those of the outputs has shown.

    ``repeated``: records with two outcomes. ``unknown``: outcomes of records that were not sent. ``raw``: what is not
    masked. ``lost``, ``counted``: how many records have no outcome, and how many workers have counted as skipped.
    """

    sent: int
    repeated: list[int]
    unknown: list[int]
    raw: list[object]
    lost: int
    counted: float


class AdminStream:
    """Workers and a calibrator with credentials on a broker that authorises every request."""

    def __init__(self, broker: SecuredKafka, here: Setting, fleet: Fleet, seed: int) -> None:
        self.broker = broker
        self.here = here
        self.fleet = fleet
        self.random = random.Random(seed)
        self.admin = AdminClient({"bootstrap.servers": broker.bootstrap, **QUIET})
        self.producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 5, **QUIET})
        self.places: dict[int, tuple[int, int]] = {}
        self.sent = 0
        self.deleted: Counter[int] = Counter()
        self.denied: list[AclBinding] = []
        self.changed: list[tuple[str, str, str]] = []
        self.counted: dict[str, float] = {}
        self.rules: list[AclBinding] = []
        self.done: list[str] = []

    def run(self, rounds: int) -> None:
        """Do each operation once in each round, in random order, and publish records after each of them."""
        for _ in range(rounds):
            for operation in self.random.sample(OPERATIONS, len(OPERATIONS)):
                self.done.append(f"{operation.__name__} {operation(self)}")
                self.publish(BURST)
                self.watch(self.random.uniform(0.5, 4.0))

    def publish(self, records: int) -> None:
        """Publish events to random partitions; one in 40 cannot be masked."""
        name = self.here.topics["input"]
        partitions = len(self.producer.list_topics(name, timeout=30).topics[name].partitions)
        for number in range(self.sent, self.sent + records):
            self.producer.produce(
                name,
                REJECTED if number % 40 == 7 else value(number),
                key=b"p%d" % (number % 7),
                partition=self.random.randrange(partitions),
                timestamp=START + number,
                on_delivery=self._delivered(number),
            )
        self.sent += records
        assert self.producer.flush(60) == 0

    def _delivered(self, number: int) -> Callable[[Any, Message], None]:
        def note(error: Any, message: Message) -> None:
            assert error is None, error
            self.places[number] = message.partition(), message.offset()

        return note

    def partitions(self, role: str) -> int:
        return len(self.admin.list_topics(self.here.topics[role], timeout=30).topics[self.here.topics[role]].partitions)

    def add_partitions(self) -> str:
        """Add a partition to the input or the output; records of the input's wait until the output has it."""
        role = self.random.choice(["input", "output"])
        self._extend(role, self.partitions(role) + 1)
        return role

    def _extend(self, role: str, partitions: int) -> None:
        name = self.here.topics[role]
        self.admin.create_partitions([NewPartitions(name, partitions)])[name].result(60)
        wait(lambda: self.partitions(role) == partitions, f"{partitions} partitions of {role}")

    def configure(self) -> str:
        """Change a setting of a topic, or take a change back."""
        if self.changed and self.random.random() < 0.5:
            return f"back {self._unset()}"
        role, name, new = self.random.choice(SETTINGS)
        if name in {changed for of, changed, _ in self.changed if of == role}:
            return f"{role} {name} again"
        self.changed.append((role, name, self.here.setting_of(role, name)))
        self.here.alter(role, **{name: new})
        return f"{role} {name}={new}"

    def _unset(self) -> str:
        role, name, old = self.changed.pop(self.random.randrange(len(self.changed)))
        self.here.alter(role, **{name: old})
        return f"{role} {name}"

    def authorize(self) -> str:
        """Take an access from the worker or the calibrator, or give one back."""
        if self.denied and self.random.random() < 0.6:
            return f"allow {self._allow()}"
        binding = self.random.choice([each for each in self.rules if each not in self.denied])
        self.broker.remove(binding)
        self.denied.append(binding)
        return f"deny {binding.principal} {binding.operation.name} {binding.name}"

    def _allow(self) -> str:
        binding = self.denied.pop(self.random.randrange(len(self.denied)))
        self.broker.add([binding])
        return f"{binding.principal} {binding.operation.name} {binding.name}"

    def delete_records(self) -> str:
        """Delete the records of a partition that workers have not read, as retention does while they are stopped."""
        offsets = committed(self.here.configuration(), self.partitions("input"))
        begun = [partition for partition, offset in enumerate(offsets) if offset]
        if not begun:
            return "nothing"
        partition = self.random.choice(begun)
        with self._asleep():
            self.publish(BURST)
            last = max(offset for of, offset in self.places.values() if of == partition)
            before = self.random.randint(offsets[partition], last + 1)
            self.deleted[partition] = max(self.deleted[partition], before)
            self.here.delete_records(partition, before)
        return f"{partition} before {before}"

    @contextmanager
    def _asleep(self) -> Iterator[None]:
        """Suspend the workers for a moment that is shorter than their session."""
        workers = [process for name, process in self.fleet.running.items() if name != "calibrator"]
        for process in workers:
            process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            for process in workers:
                process.send_signal(signal.SIGCONT)

    def recreate(self) -> str:
        """Delete an internal topic and create it again."""
        role = self.random.choice(RECREATED)
        name = self.here.topics[role]
        self.changed = [change for change in self.changed if change[0] != role]
        self.admin.delete_topics([name])[name].result(60)

        def created() -> bool:
            try:
                self.admin.create_topics([NewTopic(name, 1, 1)])[name].result(60)
            except KafkaException:
                return False
            return True

        wait(created, f"the new {role} topic")
        return role

    def watch(self, seconds: float) -> None:
        """For some seconds read the counts of skipped records, and start processes again that have ended."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._look()
            time.sleep(0.2)

    def _look(self) -> None:
        for name, process in list(self.fleet.running.items()):
            if process.poll() is not None:
                assert process.returncode == 1, self.fleet.log(name)[-3000:]
                self.fleet.processes.running.remove(process)
                self.fleet.start(name, "calibrator" if name == "calibrator" else "worker")
            elif name != "calibrator" and "http://127.0.0.1:" in self.fleet.log(name):
                log = self.fleet.logs[name][-1]
                self.counted[log] = skipped(http_port(self.fleet.processes, log), self.counted.get(log, 0.0))

    def audit(self) -> Audit:
        """Undo what stops the stream, wait until every record has an outcome or is deleted, and audit all of them."""
        while self.denied:
            self._allow()
        while self.changed:
            self._unset()
        self._extend_output()
        deadline = time.monotonic() + SETTLING
        while missing := self.missing():
            assert time.monotonic() < deadline, f"{len(missing)} records are missing: {missing[:5]}\n{self.tails()}"
            self.watch(1.0)
        self.watch(2 * REFRESH_MS / 1000)
        outcomes = self.outcomes()
        repeated = [number for number, times in outcomes.items() if times > 1]
        lost, unknown = self.places.keys() - outcomes.keys(), sorted(outcomes.keys() - self.places.keys())
        self._wait_for_version()
        return Audit(self.sent, repeated, unknown, self._raw(), len(lost), sum(self.counted.values()))

    def _wait_for_version(self) -> None:
        """Wait until the calibrator publishes, from records that are masked now."""
        newest, deadline = self._newest_version(), time.monotonic() + SETTLING
        while self._newest_version() == newest:
            assert time.monotonic() < deadline, f"no version after {newest}\n{self.tails()}"
            self.publish(BURST)
            self.watch(2.0)

    def _newest_version(self) -> int:
        return max((int(record.key) for record in self.here.read("drift") if record.key), default=0)

    def _extend_output(self) -> None:
        if (wanted := self.partitions("input")) > self.partitions("output"):
            self._extend("output", wanted)

    def missing(self) -> list[int]:
        """The records without an outcome whose offsets are not deleted."""
        outcomes = self.outcomes()
        return [n for n, (p, offset) in self.places.items() if n not in outcomes and offset >= self.deleted[p]]

    def outcomes(self) -> Counter[int]:
        """How often each record is in the output or among the rejections."""
        of_place = {place: number for number, place in self.places.items()}
        rejections = (record.json for record in self.here.read("rejected"))
        rejected = (of_place[each["partition"], each["offset"]] for each in rejections)
        return Counter([*(record.json["id"] for record in self.here.read("output")), *rejected])

    def _raw(self) -> list[object]:
        """What is not masked in the records of the outputs, those of aborted transactions included."""
        hashes = {self.here.configuration().hash.encode()}
        raw: list[object] = [error for record in self._written("output") for error in masking_errors(record, hashes)]
        others = (record for role in ("rejected", "drift") for record in self._written(role))
        return raw + [record for record in others if PATIENT.search(record.value or b"")]

    def _written(self, role: str) -> list[Record]:
        return self.here.read(role, isolation="read_uncommitted")

    def tails(self) -> str:
        ends = (f"--- {name}\n{self.fleet.log(name)[-2500:]}" for name in self.fleet.running)
        return "\n".join(["operations: " + "; ".join(self.done), *ends])


OPERATIONS: tuple[Callable[[AdminStream], str], ...] = (
    AdminStream.add_partitions,
    AdminStream.configure,
    AdminStream.authorize,
    AdminStream.delete_records,
    AdminStream.recreate,
)


def skipped(port: int, before: float) -> float:
    """The records that retention deleted before a worker read them; ``before``: the count if it does not answer."""
    try:
        return read_metric(port, r'records_skipped_total\{cause="retention"')
    except OSError:
        return before


@contextmanager
def administered_stream(broker: SecuredKafka, folder: Path, seed: int) -> Iterator[AdminStream]:
    """Run two workers and a calibrator with only the access that ``topics --acls`` prints."""
    here = setting(broker.bootstrap, folder)
    here.data["kafka"]["properties"] |= {
        "topic.metadata.refresh.interval.ms": REFRESH_MS,
        "metadata.max.age.ms": REFRESH_MS,
    }
    here.data["calibration"] = {"min_records": 100, "every_records": 100, "every_seconds": 1}
    here.data["message"] = {"key": "pseudonymize"}
    here.create(drift=1)
    here.publish(1)
    with Processes(folder) as processes:
        printed = processes.run("topics", "--config", str(here.path), "--acls").stdout.splitlines()
        broker.allow(printed)
        fleet = Fleet(here, processes)
        running = AdminStream(broker, here, fleet, seed)
        users = ("stream-masker-worker", "stream-masker-calibrator")
        running.rules = [each for line in printed for each in acl_bindings(line) if each.principal[5:] in users]
        for name in ("calibrator", "one", "two"):
            user = users[name == "calibrator"]
            properties = broker.scram(user)
            bootstrap = properties.pop("bootstrap.servers")
            sections: dict[str, Any] = {"kafka": {"bootstrap_servers": bootstrap, "properties": properties}}
            if name == "calibrator":
                fleet.start(name, "calibrator", **sections)
            else:
                fleet.worker(name, **sections)
        running.publish(BURST)
        wait(lambda: fleet.has_masked("one") or fleet.has_masked("two"), "masked records")
        yield running
