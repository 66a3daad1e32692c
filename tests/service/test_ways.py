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
import pytest
from calibration_bench import ONTOLOGY, CalibrationBench, array_block, block
from confluent_kafka import KafkaError
from consumer import FakeClient, FakeMessage, source_of
from prometheus_client import CollectorRegistry
from support.small_configuration import write_small

import stream_masker
from stream_masker.pipeline.messages import encode_statistics
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
MOST_OF_A_RECORD, MOST_OF_A_VERSION = 16, 16
"""Upper limits: what joins the way must take the place of something on it."""


class KeyedMessage(FakeMessage):
    """A message with a key, if it has one, and a value."""

    def __init__(self, offset: int, key: bytes | None, value: bytes) -> None:
        super().__init__(0, offset)
        self.content = key, value

    def key(self) -> bytes | None:
        return self.content[0]

    def value(self) -> bytes:
        return self.content[1]


class Parts:
    """A calibrator, and a worker that masks with its versions. ``has_lists``: whether records have lists of codes."""

    def __init__(self, folder: Path, *, has_lists: bool) -> None:
        sections = {"calibration": {"every_records": 10, "min_records": 10}, "secret": b"the secret of all processes"}
        paths = {"one": "one", "two": "two[*]" if has_lists else "two"}
        attributes = {name: {"path": path, "ontology": "small"} for name, path in paths.items()}
        path = write_small(folder, rows=ONTOLOGY, attributes=attributes, **sections)
        self.configuration = load_configuration(path, {})
        names = self.configuration.topics
        self.bench = CalibrationBench(build_components(self.configuration))
        self.seals = [topic_seal(self.configuration, topic) for topic in (names.calibration, names.statistics)]
        masking, self.client, self.reader = Masking(self.configuration), FakeClient(), MagicMock()
        self.producer, self.read = MagicMock(**{"flush.return_value": 0}), 0
        codes = zip("defg", [["g"], ["d", "f"], [], ["e", "e", "d"]] if has_lists else "gdfe", strict=True)
        self.values = [orjson.dumps({"one": one, "two": two}) for one, two in codes]
        secret = secret_id(read_secret(self.configuration))
        self.statistics = ActiveStatistics(lambda _: self.reader, masking, self.seals[1], secret_id=secret)
        self.source = source_of(self.client, limits=Limits(RECORDS, 10**6))
        report = WorkerReport(Metrics(CollectorRegistry(), "worker"), Health())
        outputs = Outputs(names, self.seals[0], masking.mechanism)
        clients = self.source, Transactions(lambda: self.producer, outputs, running=lambda: True), None
        self.session = _Session(
            Worker(
                connect=lambda _: clients,
                statistics=self.statistics,
                running=lambda *_: True,
                report=report,
                check=lambda: None,
            )
        )
        self.session.open()
        self.client.assign(0)

    def pass_records(self) -> None:
        """Let the worker read, mask and commit a batch."""
        self.client.events = [KeyedMessage(self.read + n, None, self.values[n % 4]) for n in range(RECORDS)]
        self.read += RECORDS
        self.reader.consume.return_value = []
        self.session.turn()
        self.session._settle()

    def pass_version(self) -> None:
        """Let the calibrator merge the blocks so far and publish a version, and the worker mask with it."""
        sent = [each.args for each in self.producer.produce.call_args_list]
        blocks = [(key, value) for topic, value, key, *_ in sent if topic == self.configuration.topics.calibration]
        assert self.configuration.topics.rejected not in {topic for topic, *_ in sent}
        for offset, message in enumerate(blocks, 10):
            self.bench.calibration.merge(offset, self.read, *message)
        assert self.bench.advance(1e6 * self.read)
        message = self.bench.messages[-1]
        value = self.seals[1].seal(message.key, encode_statistics(message))
        self.reader.consume.return_value = [KeyedMessage(0, message.key, value), FakeMessage(0, 0, error=END)]
        self.statistics.poll()
        assert self.statistics.version == message.version


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


@pytest.mark.parametrize("has_lists", [False, True])
def test_a_record_and_a_version_pass_few_files(tmp_path: Path, has_lists: bool) -> None:
    parts = Parts(tmp_path, has_lists=has_lists)
    for number in range(3):
        parts.bench.deliver(number, array_block(10 * number, range(5)) if has_lists else block(10 * number))
    parts.pass_version()
    parts.pass_records()
    with noted() as of_a_record:
        parts.pass_records()
    with noted() as of_a_version:
        parts.pass_version()
    assert len(of_a_record) <= MOST_OF_A_RECORD, sorted(of_a_record)
    assert len(of_a_version) <= MOST_OF_A_VERSION, sorted(of_a_version)
