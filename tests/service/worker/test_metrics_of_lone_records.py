"""What the metrics of a worker tell of the mask of a record that is the only one between two scrapes."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable
from itertools import starmap
from pathlib import Path
from typing import NamedTuple

import numpy as np
import orjson
import pytest
from flooding import LEAVES
from prometheus_client import CollectorRegistry
from support.small_configuration import write_small

from stream_masker.pipeline.records import InputRecord
from stream_masker.service.configuration import load_configuration
from stream_masker.service.files.inputs import FileEvent
from stream_masker.service.files.masking import FileMasking
from stream_masker.service.masking import Masking
from stream_masker.service.observability.health import Health
from stream_masker.service.observability.metrics import Metrics
from stream_masker.service.worker.report import WorkerReport
from stream_masker.service.worker.run import block_encoder
from stream_masker.service.worker.transactions import Outputs, Transactions

RECORDS = 400
TIMES = ("_duration_seconds_sum", "_duration_seconds_bucket", "_created")


class Observation(NamedTuple):
    """A record that was masked alone. metrics: the series of the worker that it changed, with their differences."""

    original: str
    mask: str
    unchanged: int
    metrics: Hashable


@pytest.fixture(scope="module")
def observed(tmp_path_factory: pytest.TempPathFactory) -> list[Observation]:
    """Mask records one by one, and read the metrics after each."""
    masking, events = calibrated(tmp_path_factory.mktemp("lone"))
    registry = CollectorRegistry()
    report = WorkerReport(Metrics(registry, "worker"), Health())
    outputs = Outputs(masking.configuration.topics, 1, block_encoder(masking.configuration, masking))
    writing = Transactions(FakeProducer, outputs, running=lambda: True)
    writing.open()
    observations, before = [], samples(registry)
    for offset, event in enumerate(events):
        result = masking.masker.mask("in", 0, [InputRecord(offset, event, timestamp=1)], statistics_version=1)
        report.committed([result], writing.write({0: result}, None).result(), 0.1)
        after = samples(registry)
        changes = frozenset((place, value - before.get(place, 0.0)) for place, value in after.items())
        original, mask = (orjson.loads(value or b"")["code"] for value in (event, result.values[0]))
        observations.append(Observation(original, mask, result.blocks[0].unchanged, changes))
        before = after
    return observations


class FakeProducer:
    """A producer whose broker accepts everything."""

    def __getattr__(self, step: str) -> Callable[..., int]:
        return lambda *_: 0


def calibrated(folder: Path) -> tuple[Masking, list[bytes]]:
    """Return a masking with the statistics of events, and the events."""
    rows = ["concept,parent", "root,", *(f"{c},root" for c in "abcd")]
    rows += [f"{c}{g},{c}" for c in "abcd" for g in "1234"] + [f"{leaf},{leaf[:2]}" for leaf in LEAVES]
    path = write_small(
        folder,
        rows="\n".join([*rows, ""]),
        secret=b"the secret of all processes",
        topics={"input": "in"},
        attributes={"a": {"path": "code", "ontology": "small", "alpha": 1.0}},
        mechanism={"name": "semantic_transport"},
        calibration={"min_records": RECORDS},
    )
    configuration = load_configuration(path, {})
    codes = np.random.default_rng(7).choice(LEAVES[::12], RECORDS)
    events = [orjson.dumps({"code": str(code)}) for code in codes]
    masking = Masking(configuration)
    masking.restore(FileMasking(configuration).snapshot(starmap(FileEvent, enumerate(events))))
    return masking, events


def samples(registry: CollectorRegistry) -> dict[tuple[str, ...], float]:
    """Return the values of all series that do not measure time."""
    every = (sample for family in registry.collect() for sample in family.samples)
    return {(s.name, *s.labels.values()): s.value for s in every if not s.name.endswith(TIMES)}


def right_guesses(observed: Iterable[Observation], seen: Callable[[Observation], Hashable]) -> float:
    """Return the share of records whose original is the most frequent one of what an attacker sees."""
    originals: dict[Hashable, Counter[str]] = defaultdict(Counter)
    for record in observed:
        originals[seen(record)][record.original] += 1
    return sum(counts.most_common(1)[0][1] for counts in originals.values()) / RECORDS


def test_the_metrics_of_a_worker_tell_nothing_of_the_mask_of_a_lone_record(observed: list[Observation]) -> None:
    """A counter of unchanged values would tell."""
    assert {record.unchanged for record in observed} == {0, 1}
    assert len({record.metrics for record in observed}) == 1
    from_mask = right_guesses(observed, lambda record: record.mask)
    assert right_guesses(observed, lambda record: (record.mask, record.metrics)) == from_mask
    assert right_guesses(observed, lambda record: (record.mask, record.unchanged)) > from_mask + 0.1
