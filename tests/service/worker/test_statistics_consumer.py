"""The statistics consumer: buffering, activation and refusal of versions."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest

from stream_masker.core.mechanisms import SemanticTransport
from stream_masker.core.ontology import Ontology
from stream_masker.core.statistics import Statistics
from stream_masker.errors import ConfigurationError, StatisticsError
from stream_masker.pipeline.messages import StatisticsMessage, encode_statistics
from stream_masker.service.worker.statistics_consumer import (
    ActiveStatistics,
    PublishedVersion,
)
from stream_masker.summary import ATTACKER

TAXONOMY = Ontology.from_edges([("a", "root"), ("b", "root")]).taxonomy()
OTHER = Ontology.from_edges([("a", "root"), ("c", "root")]).taxonomy()


def statistics(version: int) -> Statistics:
    return Statistics(
        version=version,
        records=10,
        attributes=("principal",),
        mean={"principal": "a"},
        variance={"principal": 0.1},
        covariance=np.array([[0.2]]),
        correlation=np.array([[1.0]]),
        projection=0.0,
        rollup={"principal": {}},
        unknown={"principal": 0.0},
        observed={"principal": ""},
        novel={"principal": 0.0},
    )


def message(version: int, **other: object) -> StatisticsMessage:
    complete = StatisticsMessage(
        version=version,
        mechanism="semantic_noise",
        configuration="0123456789abcdef",
        published=1_700_000_000_000 + version,
        source="blocks",
        blocks=None,
        taxonomies={"principal": TAXONOMY.fingerprint},
        baseline=1,
        snapshot={"mechanism": "semantic_noise", "statistics": statistics(version).to_dict()},
    )
    return replace(complete, **other)


def published(*messages: StatisticsMessage) -> list[PublishedVersion]:
    return sorted((PublishedVersion(m.version, encode_statistics(m)) for m in messages), reverse=True)


class FakeMechanism:
    name = "semantic_noise"
    promise = 0.5
    method_card = SemanticTransport.method_card

    def __init__(self) -> None:
        self.restored: list[int] = []

    def expected_risk(self) -> None:
        return None

    def restore(self, snapshot) -> None:
        if "statistics" not in snapshot:
            raise StatisticsError("no statistics in it")
        self.restored.append(snapshot["statistics"]["version"])


class FakeMasking:
    """A masking whose settings have the given configuration hash."""

    taxonomies: ClassVar = {"principal": TAXONOMY}

    def __init__(self, mechanism: FakeMechanism, hashed: str = "0123456789abcdef") -> None:
        self.mechanism = mechanism
        self.configuration = SimpleNamespace(
            hash=hashed, publication=SimpleNamespace(epsilon=None), may_lack_codes=False
        )

    def restore(self, message: StatisticsMessage) -> None:
        self.mechanism.restore(message.snapshot)

    def under(self, settings) -> FakeMasking:
        if "bad" in settings:
            raise ConfigurationError("settings: bad cannot be changed while running")
        same = settings["hash"] == self.configuration.hash
        return self if same else FakeMasking(FakeMechanism(), settings["hash"])


@pytest.fixture
def mechanism() -> FakeMechanism:
    return FakeMechanism()


@pytest.fixture
def active(mechanism: FakeMechanism) -> ActiveStatistics:
    return ActiveStatistics(FakeMasking(mechanism))


OWN, ANOTHER = "0123456789abcdef", "fedcba9876543210"


@pytest.fixture
def bound(mechanism: FakeMechanism) -> ActiveStatistics:
    """The statistics of a worker whose secret has the id ``OWN``."""
    return ActiveStatistics(FakeMasking(mechanism), OWN)


def test_a_version_for_another_secret_ends_the_one_in_force(bound: ActiveStatistics) -> None:
    assert bound.consider(published(message(1, secret_id=OWN)))
    assert not bound.consider(published(message(2, secret_id=ANOTHER)))
    assert (bound.version, bound.other_secret, bound.refusals) == (0, True, 1)
    assert bound.refused is not None
    assert bound.refused.endswith(f"it is for the masking secret with the id {ANOTHER}, and this process has {OWN}")


def test_no_older_version_is_taken_instead_of_one_for_another_secret(bound: ActiveStatistics) -> None:
    assert not bound.consider(published(message(1, secret_id=OWN), message(2, secret_id=ANOTHER)))
    assert bound.version == 0


def test_masking_goes_on_with_a_version_for_the_own_secret(bound: ActiveStatistics) -> None:
    bound.consider(published(message(1, secret_id=ANOTHER)))
    assert bound.consider(published(message(2, secret_id=OWN)))
    assert (bound.version, bound.other_secret, bound.refused) == (2, False, None)


def test_a_version_of_an_older_release_is_accepted(bound: ActiveStatistics) -> None:
    assert bound.consider(published(message(1)))
    assert bound.version == 1


def test_the_highest_version_becomes_active(active: ActiveStatistics, mechanism: FakeMechanism) -> None:
    assert active.consider(published(message(1), message(3), message(2)))
    assert (active.version, active.published, mechanism.restored) == (3, 1_700_000_000_003, [3])


def test_the_first_version_is_logged_with_what_is_promised(
    active: ActiveStatistics, caplog: pytest.LogCaptureFixture
) -> None:
    said = f"statistics version 3: {ATTACKER} can be at most 50% sure of a code, "
    with caplog.at_level("INFO"):
        active.consider(published(message(3)))
    assert said in caplog.text
    kept = "Kept in expectation: meaning, mean, dispersion, marginals and the correlation and cross table of two codes."
    assert kept in caplog.text
    caplog.clear()
    with caplog.at_level("INFO"):
        assert active.consider(published(message(4)))
    assert "An attacker" not in caplog.text


def test_an_older_or_equal_version_never_becomes_active(active: ActiveStatistics, mechanism: FakeMechanism) -> None:
    active.consider(published(message(3)))
    assert not active.consider(published(message(2), message(3)))
    assert mechanism.restored == [3]


BAD = {
    "not JSON": PublishedVersion(9, b"E11.9"),
    "another format": PublishedVersion(9, encode_statistics(message(9)).replace(b'"format":1', b'"format":2')),
    "a version that differs from its key": PublishedVersion(9, encode_statistics(message(8))),
    "a snapshot of another version": PublishedVersion(
        9, encode_statistics(message(9, snapshot={"statistics": statistics(8).to_dict()}))
    ),
    "another mechanism": PublishedVersion(9, encode_statistics(message(9, mechanism="rank_swapping"))),
    "another taxonomy": PublishedVersion(9, encode_statistics(message(9, taxonomies={"principal": OTHER.fingerprint}))),
    "another attribute": PublishedVersion(9, encode_statistics(message(9, taxonomies={"first": TAXONOMY.fingerprint}))),
    "a snapshot that the mechanism refuses": PublishedVersion(9, encode_statistics(message(9, snapshot={}))),
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD.keys())
def test_a_version_that_does_not_fit_is_refused_and_the_old_one_stays_active(
    bad: PublishedVersion, active: ActiveStatistics, mechanism: FakeMechanism, caplog: pytest.LogCaptureFixture
) -> None:
    active.consider(published(message(2)))
    assert not active.consider([bad])
    assert (active.version, mechanism.restored, active.refusals) == (2, [2], 1)
    assert active.refused is not None
    assert active.refused.startswith("version 9 was refused: ")
    assert "version 9 was refused" in caplog.text
    assert "E11" not in caplog.text


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD.keys())
def test_no_version_is_active_if_none_fits(bad: PublishedVersion, active: ActiveStatistics) -> None:
    assert not active.consider([bad])
    assert active.version == 0


def test_the_newest_version_that_fits_becomes_active(active: ActiveStatistics) -> None:
    assert active.consider([BAD["another taxonomy"], *published(message(4), message(5))])
    assert active.version == 5


FAR = 1_000_000
"""The farthest a version may be above the newest one."""


def test_a_version_far_above_the_active_one_is_refused(active: ActiveStatistics) -> None:
    active.consider(published(message(3)))
    assert not active.consider(published(message(3 + FAR + 1)))
    assert (active.version, active.refusals) == (3, 1)
    assert active.refused == "version 1000004 was refused: it is more than 1,000,000 versions above version 3"
    assert active.consider(published(message(3 + FAR)))


def test_at_the_start_a_version_far_above_the_others_is_refused(active: ActiveStatistics) -> None:
    assert active.consider(published(message(7), message(8), message(8 + FAR + 1, baseline=7)))
    assert active.version == 8


@pytest.mark.parametrize("versions", [[5 * FAR], [2, 5 * FAR], [2, 5 * FAR, 5 * FAR + 1]])
def test_at_the_start_a_version_may_be_far_above_its_baseline(active: ActiveStatistics, versions: list[int]) -> None:
    assert active.consider(published(*(message(version, baseline=2) for version in versions)))
    assert active.version == max(versions)


def test_a_version_that_fits_clears_the_refusal(active: ActiveStatistics) -> None:
    active.consider([BAD["another taxonomy"]])
    active.consider(published(message(10)))
    assert active.refused is None


def test_statistics_of_another_configuration_are_logged_and_used(
    active: ActiveStatistics, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO"):
        assert active.consider(published(message(1, configuration="f" * 16)))
    assert "under another configuration (ffffffffffffffff)" in caplog.text


def test_the_version_in_force_stays_until_the_new_topic_has_one(active: ActiveStatistics) -> None:
    active.consider(published(message(7)))
    active.begin_again()
    assert active.version == 7
    assert active.consider(published(message(1)))
    assert active.version == 1
    assert not active.consider(published(message(1)))
