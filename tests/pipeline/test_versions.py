"""The next statistics version from blocks, a sample or a snapshot, with drift, utility and baseline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from stream_masker.core.batch import Batch, Column, Distortion
from stream_masker.core.distance import WuPalmer
from stream_masker.core.mechanisms import mechanism
from stream_masker.core.ontology import Ontology
from stream_masker.core.statistics import compute_statistics
from stream_masker.core.statistics.counts import Counts, count_batch, merge
from stream_masker.core.statistics.drift import VERDICTS, drift_between, utility
from stream_masker.errors import StatisticsError
from stream_masker.pipeline import versions
from stream_masker.pipeline import versions as versions_module
from stream_masker.pipeline.messages import BlockRange, decode_statistics, encode_statistics
from stream_masker.pipeline.records import Block
from stream_masker.pipeline.risk import RiskLimits
from stream_masker.pipeline.versions import History, Publish, Subject, VersionPlanner
from stream_masker.pipeline.window import Window

EDGES = [("b", "a"), ("c", "a"), ("d", "b"), ("e", "b"), ("f", "c"), ("g", "c")]
TAU = Ontology.from_edges(EDGES).taxonomy()
TAXONOMIES, ALPHA = {"one": TAU, "two": TAU}, {"one": 0.3, "two": 0.5}
SUBJECT = Subject(
    mechanism("semantic_noise")(TAXONOMIES, alpha=ALPHA, reference="pair", seed=b"s" * 32),
    alpha=ALPHA,
    configuration="0123456789abcdef",
)
DISTANCES = (WuPalmer(TAU), WuPalmer(TAU))
NOW = 1_700_000_000_000


def calibration(history: History | None = None, **subject: Any) -> VersionPlanner:
    given = replace(SUBJECT, **subject)
    return VersionPlanner(given, history or History(given))


def counts(pairs: list[tuple[str, str]]) -> Counts:
    columns = tuple(Column(TAU.encode(values)) for values in zip(*pairs, strict=True))
    return count_batch(Batch(len(pairs), columns), (len(TAU), len(TAU)))


MORNING = counts([("d", "e"), ("d", "d"), ("e", "f"), ("g", "f")])
NOON = counts([("f", "g"), ("g", "g"), ("f", "f"), ("d", "d"), ("b", "b")])
MASKED = counts([("e", "d"), ("b", "e"), ("a", "g"), ("f", "c"), ("d", "d")])


def entry(offset: int, original: Counts, masked: Counts = MASKED) -> Block:
    distortions = (Distortion(5, 0.5, 0.25, 1, 0), Distortion(5, 0.75, 0.5, 0, 2))
    return Block("discharges", 0, offset, offset + 9, 0, original, masked, distortions)


def window(*entries: Block) -> Window:
    return Window(entries, BlockRange(entries[0].first_offset, entries[-1].first_offset))


def publish(made: VersionPlanner, *entries: Block, now: int = NOW) -> Publish:
    done = made.on_window(window(*entries), now)
    made.published(done)
    return done


def same(a: Any, b: Any) -> bool:
    return bool(encoded(a) == encoded(b))


def encoded(statistics: Any) -> Mapping[str, Any]:
    """The statistics without the model, which is the mechanism's own."""
    return {name: figures for name, figures in statistics.to_dict().items() if name != "model"}


def test_a_version_holds_the_statistics_of_all_blocks_of_the_window() -> None:
    done = calibration().on_window(window(entry(3, MORNING), entry(7, NOON)), NOW)
    direct = compute_statistics(merge([MORNING, NOON]), ("one", "two"), DISTANCES, version=1)
    assert same(done.message.statistics, direct)
    assert (done.message.version, done.message.source, done.message.published) == (1, "blocks", NOW)
    assert done.message.blocks == BlockRange(3, 7)
    assert done.report["window"] == {"records": 9}


def test_version_numbers_increase_and_observed_concepts_stay_observed() -> None:
    made = calibration()
    _, second = publish(made, entry(3, MORNING)), publish(made, entry(7, NOON))
    previous = compute_statistics(MORNING, ("one", "two"), DISTANCES, version=1)
    direct = compute_statistics(NOON, ("one", "two"), DISTANCES, version=2, previous=previous)
    assert same(second.message.statistics, direct)


def test_drift_is_measured_against_the_previous_version_and_the_baseline() -> None:
    made = calibration()
    versions = [publish(made, entry(3, MORNING)), publish(made, entry(7, NOON)), publish(made, entry(9, MORNING))]
    first, second, third = (v.message.statistics for v in versions)
    assert (versions[0].report["previous"], versions[0].report["baseline"]) == (None, None)
    assert versions[2].previous == drift_between(second, third, DISTANCES, MORNING, comparisons=3)
    assert versions[2].baseline == drift_between(first, third, DISTANCES, MORNING, comparisons=3)
    assert versions[2].report["previous"] == versions[2].previous.to_dict()
    assert versions[2].report["baseline"]["since"] == 1


def test_the_baseline_is_the_first_version_from_blocks_and_renewed_only_by_a_version_that_says_so() -> None:
    made, snapshot = calibration(), calibration().on_window(window(entry(3, NOON)), NOW).message
    versions = [made.on_sample(MORNING, NOW)]
    made.published(versions[0])
    versions.append(publish(made, entry(1, MORNING)))
    for baseline in (False, True):
        versions.append(made.on_snapshot(snapshot, NOW, baseline=baseline))
        made.published(versions[-1])
        versions.append(publish(made, entry(2 + baseline, MORNING)))
    assert (versions[0].message.source, versions[0].message.blocks, versions[0].utility) == ("bootstrap", None, None)
    since = [version.baseline and version.baseline.since for version in versions]
    assert since == [None, None, 2, 2, 2, 5]
    assert [v.message.baseline for v in versions] == [1, 2, 2, 2, 5, 5]
    again = History(SUBJECT)
    for version in versions:
        again.add(version.message.version, version.message)
    assert again.baseline == versions[4].message


def test_utility_compares_the_masked_window_with_the_original_one() -> None:
    done = calibration().on_window(window(entry(3, MORNING), entry(7, NOON)), NOW)
    masked = compute_statistics(merge([MASKED, MASKED]), ("one", "two"), DISTANCES, version=1)
    distortions = (Distortion(10, 1.0, 0.5, 2, 0), Distortion(10, 1.5, 1.0, 0, 4))
    assert same(done.shown["masked"], replace(masked, values={}))
    plain = utility(done.message.statistics, masked, distortions, ALPHA, DISTANCES)
    assert replace(done.utility, expected=None) == plain
    assert done.utility.verdict in VERDICTS
    masks = done.utility.expected
    assert [(name, *each.figures) for name, each in masks.attributes.items()] == [
        ("one", "mean", "variance"),
        ("two", "mean", "variance"),
    ]
    assert [*masks.pairs] == [("one", "two")]
    assert done.report["utility"] == done.utility.to_dict()


def test_the_shares_that_masking_leaves_unchanged_are_those_of_the_whole_window() -> None:
    blocks = [replace(entry(offset, MORNING), unchanged=offset) for offset in (1, 2)]
    kept = tuple(replace(one, unchanged=2) for one in blocks[1].distortions)
    done = calibration().on_window(window(blocks[0], replace(blocks[1], distortions=kept)), NOW)
    assert (done.unchanged, done.unchanged_records) == ({"one": 0.2, "two": 0.2}, 3 / 8)


def test_a_history_that_is_read_back_continues_like_the_original() -> None:
    made, history = calibration(), History(SUBJECT)
    for version in (publish(made, entry(3, MORNING)), publish(made, entry(7, NOON))):
        history.add(version.message.version, decode_statistics(encode_statistics(version.message)))
    resumed, never_stopped = (c.on_window(window(entry(9, MORNING)), NOW) for c in (calibration(history), made))
    assert encode_statistics(resumed.message) == encode_statistics(never_stopped.message)
    assert resumed.report == never_stopped.report


def test_a_snapshot_brings_its_chances_and_the_latest_version_its_window() -> None:
    """The latest version becomes one for the secret that workers must have."""
    made = calibration()
    publish(made, entry(3, MORNING))
    assert not made.secret_differs
    other = calibration(made.history, secret_id="ef")
    assert other.secret_differs
    other.published(again := other.on_snapshot(made.history.latest, NOW))
    assert (again.message.version, again.message.secret_id, other.secret_differs) == (2, "ef", False)
    assert again.message.blocks == BlockRange(3, 3)
    given = {"guessed": {"pram": 0.5}, "blocks": None}
    other.published(snapshot := other.on_snapshot(replace(again.message, **given, source="file"), NOW))
    assert {name: getattr(snapshot.message, name) for name in given} == given
    assert (other.history.latest.version, other.history.windowed) == (3, BlockRange(3, 3))


def test_expired_versions_are_removed_except_the_baseline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "KEPT_VERSIONS", 3)
    made = calibration()
    assert [publish(made, entry(i, MORNING)).expired for i in range(1, 8)] == [None, None, None, None, 2, 3, 4]


@pytest.mark.parametrize(
    "defect",
    [{"format": 99}, {}, {"taxonomies": {"one": "of", "two": "another"}}],
    ids=["of another release", "of another version", "of another ontology"],
)
def test_a_version_that_cannot_be_used_keeps_its_number_alone(defect: dict[str, Any]) -> None:
    """The next version is the one without it, apart from the number."""
    usable = calibration().on_window(window(entry(3, MORNING)), NOW).message
    history = History(SUBJECT)
    history.add(2, replace(usable, version=2, snapshot={**usable.snapshot, **defect}))
    history.add(3, None)
    made = calibration(history)
    assert (history.latest, history.refused) == (None, 2)
    found, alone = (each.on_sample(NOON, NOW) for each in (made, calibration(History(SUBJECT, newest=3))))
    assert found.message.version == 4
    assert encode_statistics(found.message) == encode_statistics(alone.message)


def test_an_earlier_version_is_used_if_the_latest_one_does_not_fit() -> None:
    usable, history = calibration().on_window(window(entry(3, MORNING)), NOW).message, History(SUBJECT)
    history.add(1, usable)
    history.add(2, replace(usable, version=2, snapshot={**usable.snapshot, "mechanism": "another"}))
    assert (history.newest, history.latest, history.refused) == (2, usable, 1)


def test_statistics_below_the_floor_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    checked = calibration(limits=RiskLimits())
    publish(checked, entry(3, NOON))
    monkeypatch.setattr(versions_module, "MIN_VARIANCE_SHARE", 2.0)
    with pytest.raises(StatisticsError, match="of the baseline's, version 1"):
        checked.on_window(window(entry(4, NOON)), NOW)
    monkeypatch.setattr(versions_module, "MIN_VARIANCE", 0.9)
    with pytest.raises(StatisticsError, match=r"one: the window's variance is below 0\.9"):
        checked.on_window(window(entry(3, MORNING)), NOW)


def test_limits_that_a_version_crosses_are_named() -> None:
    for limits, crossed in ((RiskLimits(max_vulnerability=0.01), 2), (RiskLimits(), 0)):
        made = calibration(limits=replace(limits, max_certain=1.0))
        version = made.on_window(window(entry(3, MORNING), entry(4, NOON)), NOW)
        risk = made.assess(version)
        assert risk is not None
        assert len(risk.crossed) == crossed
        assert all("is above risk.max_vulnerability 0.01" in each for each in risk.crossed)
        assert made.assess(made.on_snapshot(version.message, NOW)) is None, "a snapshot has no counts"
