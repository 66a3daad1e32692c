"""What a calibrator publishes to people: nothing after a few records, and the privacy budget that it spends."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import orjson
import pytest
from calibration_session import ONTOLOGY, SessionBench, array_block, block
from prometheus_client import generate_latest
from support.small_configuration import write_small

from stream_masker.core.batch import Distortion
from stream_masker.pipeline.calibration.publication import Publication
from stream_masker.pipeline.calibration.window import MaskingEffect
from stream_masker.pipeline.records import Block
from stream_masker.pipeline.wire.reports import encode_drift
from stream_masker.service.calibrator.components import build_components
from stream_masker.service.configuration import load_configuration

FAR_FUTURE = 1e12
"""Seconds: any time limit has passed."""


FEW_RECORDS = {"alpha": 0.3, "certainty": 1.0, "least": 1}
"""What lets transport mask windows of a few records."""


def bench_with(folder: Path, mechanism: str = "semantic_transport", **publication: Any) -> SessionBench:
    small = {"alpha": 0.3, "certainty": 1.0, "least": 1} if mechanism == "semantic_transport" else {}
    path = write_small(
        folder,
        *("one", "two"),
        rows=ONTOLOGY,
        secret=b"the secret of all processes",
        calibration={"window_records": 1_000, "every_records": 20, "every_seconds": 60, "min_records": 10},
        mechanism={"name": mechanism, **small},
        publication=publication,
    )
    return SessionBench(build_components(load_configuration(path, {})))


def publish(bench: SessionBench) -> None:
    while bench.session.pending_windows:
        bench.session.publish_next()


def seen(bench: SessionBench) -> tuple[list[bytes], list[str]]:
    """Return everything that people see: all drift reports, and the metrics about the window."""
    metrics = [line for line in generate_latest(bench.registry).decode().splitlines() if "blocks_read" not in line]
    about = [line for line in metrics if "age_seconds" not in line and "_created" not in line]
    return [encode_drift(published.report) for published in bench.publisher.published], about


@pytest.fixture
def bench(tmp_path: Path) -> SessionBench:
    """A calibrator that has published a version of 30 records."""
    made = bench_with(tmp_path)
    for number in range(3):
        made.deliver(number, block(10 * number, [1, 2] * 5))
        publish(made)
    assert len(made.publisher.published) == 2
    return made


@pytest.mark.parametrize("code", range(7))
def test_nothing_that_people_see_changes_after_a_persons_record(bench: SessionBench, code: int) -> None:
    made, before = bench, seen(bench)
    made.session.tick(0.0)
    made.deliver(9, block(90, [code]))
    made.session.tick(FAR_FUTURE)
    publish(made)
    assert seen(made) == before


def test_the_next_version_has_at_least_as_many_new_records_as_configured(tmp_path: Path) -> None:
    made = bench_with(tmp_path, min_records=35)
    for number in range(12):
        made.deliver(number, block(10 * number, [1, 2] * 5))
        made.session.tick(FAR_FUTURE * (number + 1))
        publish(made)
    ends = [published.message.blocks.last for published in made.publisher.published]
    assert ends == [0, 4, 8]


def test_a_limit_of_one_record_suppresses_nothing(tmp_path: Path) -> None:
    made = bench_with(tmp_path, min_records=1)
    made.deliver(0, block(0, [1, 2] * 5))
    made.session.tick(0.0)
    made.deliver(1, block(10, [3]))
    made.session.tick(FAR_FUTURE)
    publish(made)
    assert [published.message.version for published in made.publisher.published] == [1, 2]
    assert made.publisher.published[-1].previous.attributes["one"].novel == pytest.approx(1 / 11)


def test_the_budget_of_all_versions_is_added_up(tmp_path: Path) -> None:
    made = bench_with(tmp_path, epsilon=0.25)
    assert made.metric("publication_epsilon_total") == 0
    for number in range(6):
        made.deliver(number, block(10 * number, [1, 2] * 5))
        publish(made)
    versions = len(made.publisher.published)
    assert versions == 3
    assert made.metric("publication_epsilon_total") == pytest.approx(0.25 * versions)


def test_without_noise_no_budget_is_spent(bench: SessionBench) -> None:
    assert bench.metric("publication_epsilon_total") == 0


def test_the_risk_that_people_see_is_rounded(bench: SessionBench, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO"):
        bench.session.assess_risk()
    families = [f for f in bench.registry.collect() if f.name.startswith("stream_masker_risk_")]
    figures = {(s.name, *s.labels.values()): s.value for family in families for s in family.samples}
    assert ("stream_masker_risk_vulnerability", "one", "record") in figures
    for place, value in figures.items():
        assert math.isinf(value) or value == pytest.approx(round(value, 2), abs=1e-12), place
    assert "vulnerability 0." in caplog.text


def masked_window(number: int, unchanged: int, size: int = 500) -> Block:
    """Return a block of records of which masking left ``unchanged`` as they are."""
    made = block(size * number, [1, 2] * (size // 2))
    effect = Distortion(size, 2.5, 0.9, truncated=unchanged // 2, unsigned=unchanged // 4, unchanged=unchanged)
    return replace(made, last_offset=size * (number + 1) - 1, distortions=(effect, effect), unchanged=unchanged)


def test_the_effect_of_masking_is_that_of_the_window(tmp_path: Path) -> None:
    made = bench_with(tmp_path)
    for number, unchanged in enumerate((97, 107)):
        made.deliver(number, masked_window(number, unchanged))
        publish(made)
    names = ("unchanged_share", "truncated_share", "unsigned_share")
    assert [made.metric(name, attribute="two") for name in names] == [0.2, 0.1, 0.05]
    assert made.metric("unchanged_records_share") == 0.2


def test_a_lone_record_seldom_changes_the_effect_that_people_see(tmp_path: Path) -> None:
    """Even somebody who knows all other records of the smallest window learns from one in ten only."""
    publication = bench_with(tmp_path).components.publication
    planned = Publication(publication, {}, 2)
    effects = [MaskingEffect(unchanged={}, truncated={}, unsigned={}, unchanged_records=k / 1000) for k in range(1001)]
    shown = [planned.effect(effect, 1000) for effect in effects]
    assert sum(one != other for one, other in pairwise(shown)) <= 100


@pytest.mark.parametrize("limits", [{}, {"min_records": 1}, {"epsilon": 1.0}])
def test_only_the_risk_depends_on_how_many_elements_arrays_have(tmp_path: Path, limits: dict[str, float]) -> None:
    """Windows with the same rows, but other numbers of elements."""
    found = []
    for name, lengths in (("equal", [3] * 40), ("unequal", [1, 5] * 20)):
        (tmp_path / name).mkdir()
        made = bench_with(tmp_path / name, "semantic_noise", **limits)
        for number in range(2):
            made.deliver(number, array_block(40 * number, lengths))
            publish(made)
        made.session.assess_risk()
        reports, metrics = seen(made)
        assert len(reports) == 2
        figures = [line for line in metrics if "_seconds" not in line and "stream_masker_risk_" not in line]
        found.append(([orjson.loads(report) | {"published": 0} for report in reports], figures))
    assert found[0] == found[1]
