"""The files of the package that a record and a statistics version pass, outside of the mechanism.

A profile notes them: of a record from its read to its commit, of a version from the blocks of its window to the worker
that masks with it.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from unittest.mock import MagicMock

import orjson
from calibration_bench import ONTOLOGY, CalibrationBench, block
from confluent_kafka import KafkaError
from consumer import FakeClient, FakeMessage, source_of
from prometheus_client import CollectorRegistry
from support.small_configuration import write_small

import stream_masker
from stream_masker.pipeline.messages import block_key, encode_block, encode_statistics
from stream_masker.pipeline.records import Block
from stream_masker.service.calibrator.bootstrap import build_components
from stream_masker.service.configuration import load_configuration
from stream_masker.service.configuration.secret import read_secret, secret_id, topic_seal
from stream_masker.service.masking import Masking
from stream_masker.service.observability.metrics import Health, Metrics
from stream_masker.service.worker.source import Limits
from stream_masker.service.worker.statistics import ActiveStatistics
from stream_masker.service.worker.transactions import Outputs, Transactions
from stream_masker.service.worker.worker import Worker, WorkerReport, _Session

PACKAGE = Path(stream_masker.__file__).parent
END = KafkaError(KafkaError._PARTITION_EOF, "the end")
MECHANISM = "core/mechanisms"
RECORDS = 100
MOST_OF_A_RECORD, MOST_OF_A_VERSION = 16, 22
"""Upper limits: what joins the way must take the place of something on it."""


class Record(FakeMessage):
    """A record with two codes."""

    def value(self) -> bytes:
        return orjson.dumps({"one": "defg"[self.offset() % 4], "two": "gdfe"[self.offset() % 4]})

    def headers(self) -> None:
        return None


class Parts:
    """A calibrator, and a worker that masks with its versions."""

    def __init__(self, folder: Path) -> None:
        sections = {"calibration": {"every_records": 10, "min_records": 10}, "secret": b"the secret of all processes"}
        self.configuration = load_configuration(write_small(folder, "one", "two", rows=ONTOLOGY, **sections), {})
        names = self.configuration.topics
        self.bench = CalibrationBench(build_components(self.configuration))
        self.seals = [topic_seal(self.configuration, topic) for topic in (names.calibration, names.statistics)]
        masking, self.client, self.reader = Masking(self.configuration), FakeClient(), MagicMock()
        self.taxonomies, self.blocks, self.read = masking.taxonomies, list[tuple[bytes, bytes]](), 0
        secret = secret_id(read_secret(self.configuration))
        self.statistics = ActiveStatistics(lambda: self.reader, masking, self.seals[1], secret_id=secret)
        self.source = source_of(self.client, limits=Limits(RECORDS, 10**6))
        report = WorkerReport(Metrics(CollectorRegistry(), "worker"), Health())
        outputs = Outputs(names, self.encoded)
        producer = MagicMock(**{"flush.return_value": 0})
        clients = self.source, Transactions(lambda: producer, outputs, running=lambda: True), None
        self.session = _Session(
            Worker(
                connect=lambda _: clients,
                statistics=self.statistics,
                running=lambda *_: True,
                report=report,
                check=lambda: None,
                had_outage=lambda: False,
            )
        )
        self.session.open()
        self.client.assign(0)

    def encoded(self, block: Block) -> tuple[bytes, bytes]:
        """Return the message of a block, which is merged later."""
        key = block_key(block)
        self.blocks.append((key, self.seals[0].seal(key, encode_block(block, self.taxonomies))))
        return self.blocks[-1]

    def pass_records(self) -> None:
        """Let the worker read, mask and commit a batch."""
        self.client.events = [Record(0, self.read + number) for number in range(RECORDS)]
        self.read += RECORDS
        self.reader.consume.return_value = []
        self.session.turn()
        self.session._settle()

    def pass_version(self) -> None:
        """Let the calibrator merge the blocks so far and publish a version, and the worker mask with it."""
        for number, (key, value) in enumerate(self.blocks):
            self.bench.calibration.merge(self.read + number, self.read, key, value)
        self.blocks.clear()
        assert self.bench.advance(1e6 * self.read)
        message = self.bench.messages[-1]
        value = self.seals[1].seal(message.key, encode_statistics(message))
        self.reader.consume.return_value = [Version(message.key, value), FakeMessage(0, 0, error=END)]
        self.statistics.poll()
        assert self.statistics.version == message.version


class Version(FakeMessage):
    """A message of the statistics topic."""

    def __init__(self, key: bytes, value: bytes) -> None:
        super().__init__(0, 0)
        self.content = key, value

    def key(self) -> bytes:
        return self.content[0]

    def value(self) -> bytes:
        return self.content[1]


@contextmanager
def noted() -> Iterator[set[str]]:
    """Note the files of the package that run, on this thread and on new ones, but nothing within a mechanism."""
    files, inside = set[str](), threading.local()

    def note(frame: FrameType, event: str, _: object) -> None:
        path = Path(frame.f_code.co_filename)
        if event not in {"call", "return"} or not path.is_relative_to(PACKAGE):
            return
        file = path.relative_to(PACKAGE).as_posix()
        if file.startswith(MECHANISM):
            inside.depth = getattr(inside, "depth", 0) + (1 if event == "call" else -1)
        elif not getattr(inside, "depth", 0):
            files.add(file)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield files
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def test_a_record_and_a_version_pass_few_files(tmp_path: Path) -> None:
    parts = Parts(tmp_path)
    for number in range(3):
        parts.bench.deliver(number, block(10 * number))
    parts.pass_version()
    parts.pass_records()
    with noted() as of_a_record:
        parts.pass_records()
    with noted() as of_a_version:
        parts.pass_version()
    assert len(of_a_record) <= MOST_OF_A_RECORD, sorted(of_a_record)
    assert len(of_a_version) <= MOST_OF_A_VERSION, sorted(of_a_version)
