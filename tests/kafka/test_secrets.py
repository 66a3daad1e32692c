"""Workers with different masking secrets on a real Kafka, and the replacement of the secret."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from kafka_records import Record
from support.processes import Processes, terminate
from workers import Setting, event, ids, running, wait

from stream_masker.service.configuration.secret import secret_id

OLD, NEW, TOPICS = b"the old secret of patients", b"the new secret of patients", b"a secret of the topics"
RECORDS = 600
OWN = {"secret": {"file": "topics"}}
"""The section ``internal_topics`` with a secret of the topics' own."""


@pytest.fixture
def here(here: Setting, tmp_path: Path) -> Setting:
    """A setting whose calibrator publishes versions soon, with files for three secrets."""
    here.data["calibration"] = {"min_records": 100, "every_records": 100, "every_seconds": 1}
    for name, secret in (("old", OLD), ("new", NEW), ("topics", TOPICS)):
        (tmp_path / name).write_bytes(secret)
        (tmp_path / name).chmod(0o600)
    here.create(partitions=4, drift=1)
    return here


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    with Processes(tmp_path) as processes:
        yield processes


def calibrator(here: Setting, processes: Processes, name: str, **sections: Any) -> Any:
    """Start a calibrator; a section that is None is left out of its configuration."""
    path = here.folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump({k: v for k, v in {**here.data, **sections}.items() if v is not None}))
    return processes.start(name, "calibrator", "--config", str(path))


def worker(here: Setting, secret: str, **sections: Any) -> Any:
    instance = f"{secret}-{here.topics['input']}"
    return running(
        here.configuration(secret={"file": secret}, worker={"batch_delay": 0.2, "instance": instance}, **sections)
    )


def pseudonyms(records: list[Record]) -> dict[str, set[str]]:
    """The pseudonyms of each patient."""
    found = defaultdict(set)
    for record in records:
        found[event(record.json["id"])["patient"]["id"]].add(record.json["patient"]["id"])
    return found


def test_a_worker_with_another_secret_masks_nothing(here: Setting, processes: Processes) -> None:
    """The calibrator does not have the secret: it takes the id from the first worker."""
    calibrator(here, processes, "calibrator", secret=None, internal_topics=OWN)
    here.produce(range(RECORDS))
    with worker(here, "old", internal_topics=OWN) as one:
        one.reaches(RECORDS)
        wait(lambda: f"id {secret_id(OLD)}" in processes.log("calibrator"), "the published id")
        with worker(here, "new", internal_topics=OWN) as other:
            other.wait(lambda: other.metric("held_because", reason="other_secret") == 1, "the refusal")
            [reason] = other.health.reasons
            assert reason.startswith("another masking secret: version ")
            assert f"id {secret_id(OLD)}, and this process has {secret_id(NEW)}" in reason
            here.produce(range(RECORDS, 2 * RECORDS))
            one.reaches(2 * RECORDS)
            assert (other.metric("records_in_total"), other.metric("held")) == (0, 1)
    masked = here.read("output")
    assert sorted(ids(masked)) == list(range(2 * RECORDS))
    assert {len(found) for found in pseudonyms(masked).values()} == {1}


@pytest.mark.parametrize("own", [False, True], ids=["secret of the topics too", "topics have their own"])
def test_the_secret_is_replaced_in_the_documented_order(here: Setting, processes: Processes, own: bool) -> None:
    """All workers end, the calibrators get the new secret or its id, and workers with the new secret go on."""
    before: dict[str, Any] = {"internal_topics": OWN} if own else {}
    after: dict[str, Any] = {"internal_topics": OWN if own else {"previous_secrets": [{"file": "old"}]}}
    known = {"secret": None, "secret_id": secret_id(OLD)} if own else {"secret": {"file": "old"}}
    first = calibrator(here, processes, "first", **before, **known)
    here.produce(range(RECORDS))
    with worker(here, "old", **before) as one:
        one.reaches(RECORDS)
    here.produce(range(RECORDS, 2 * RECORDS))
    assert terminate(first) == 0
    known = {"secret": None, "secret_id": secret_id(NEW)} if own else {"secret": {"file": "new"}}
    calibrator(here, processes, "second", **after, **known)
    with worker(here, "new", **after) as other:
        other.reaches(RECORDS)
    masked = here.read("output")
    assert sorted(ids(masked)) == list(range(2 * RECORDS))
    old, new = (pseudonyms([r for r in masked if (r.json["id"] < RECORDS) == first]) for first in (True, False))
    assert {len(found) for found in [*old.values(), *new.values()]} == {1}
    assert not {*map(frozenset, old.values())} & {*map(frozenset, new.values())}
