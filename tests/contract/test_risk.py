"""The contract of masking mechanisms: transition probabilities and risk, for every registered mechanism."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest
from support.channels import assert_drawn_from, channel, trained
from support.core_parts import groups_drawn

from stream_masker import Ontology
from stream_masker.core.mechanisms import MECHANISMS, mechanism
from stream_masker.core.statistics import count_batch
from stream_masker.errors import StatisticsError

pytestmark = pytest.mark.exhaustive

SEED = b"the seed of the contract"
VALUE = "c4"
SIZE = 400
DRAWS = 6000
GROUPS = 200
"""The number of random groups from which figures are estimated, instead of 2,000; the bounds follow."""

GROUPS_DRAWN = 400

RNG = np.random.default_rng(3)
LINKS = {(f"c{k}", f"c{p}") for k in range(1, 16) for p in RNG.integers(0, k, 2)}
TAU = Ontology.from_edges(sorted(LINKS)).taxonomy()


def window() -> list[dict[str, str | None]]:
    """Correlated values; some are absent, and some concepts never occur."""
    first = RNG.integers(0, 12, SIZE)
    second = (first + RNG.integers(0, 4, SIZE)) % 14
    records = [{"a": TAU.ids[i], "b": TAU.ids[j]} for i, j in zip(first, second, strict=True)]
    for k in range(0, SIZE, 20):
        records[k]["b"] = None
    return records


RECORDS = window()


@pytest.fixture(scope="module", autouse=True)
def _fewer_groups() -> Iterator[None]:
    with groups_drawn(GROUPS):
        yield


@pytest.fixture(scope="module", params=sorted(MECHANISMS))
def calibrated(request):
    return trained(mechanism(request.param)({"a": TAU, "b": TAU}, seed=SEED), RECORDS)


@pytest.fixture(scope="module")
def risk(calibrated):
    return calibrated.risk(draws=200)


def masks_of(calibrated, records, value) -> list[str]:
    """Return the masks of a value in records drawn from those of the window that have it."""
    rng = np.random.default_rng(7)
    holders = [record for record in records if record["a"] == value]
    if not calibrated.needs_group:
        drawn = [holders[k] for k in rng.integers(0, len(holders), DRAWS)]
        return [m["a"] for m in calibrated.mask_many(drawn, keys=[b"%d" % k for k in range(DRAWS)])]
    masked = []
    for group in range(GROUPS_DRAWN):
        others = [records[k] for k in rng.integers(0, len(records), calibrated.group_size - 1)]
        drawn = [holders[rng.integers(len(holders))], *others]
        keys = [b"%d %d" % (group, k) for k in range(len(drawn))]
        masked.append(calibrated.mask_many(drawn, keys=keys)[0]["a"])
    return masked


@pytest.mark.parametrize("attribute", ["a", "b"])
def test_channel_probabilities_sum_to_one(calibrated, attribute):
    found = channel(calibrated, attribute, VALUE)
    assert min(found.values()) >= 0.0
    assert sum(found.values()) == pytest.approx(1.0, abs=1e-9)


def test_channel_agrees_with_drawn_masks(calibrated):
    probabilities = channel(calibrated, "a", VALUE)
    drawn = masks_of(calibrated, RECORDS, VALUE)
    if not calibrated.needs_group:
        assert_drawn_from(probabilities, drawn)
        return
    tolerance = sum(math.sqrt(math.log(2 / 1e-4) / (2 * groups)) for groups in (GROUPS, GROUPS_DRAWN))  # Hoeffding
    for concept in {*probabilities, *drawn}:
        assert drawn.count(concept) / len(drawn) == pytest.approx(probabilities.get(concept, 0.0), abs=tolerance)


def test_risk_measures_are_within_their_ranges(calibrated, risk):
    for name in calibrated.attributes:
        assert 0.0 <= risk.unchanged[name] < 1.0
        assert 0.0 < risk.rmse[name] < 1.0
        for learned in (risk.value[name], risk.strongest[name]):
            for guess in (learned, *learned.levels.values()):
                assert guess.prior - learned.error - 1e-6 <= guess.vulnerability <= guess.greatest + 1e-9 <= 1.0 + 1e-9
                assert 0.0 <= guess.certain <= guess.likely <= 1.0
            block, chapter = (learned.levels[level].vulnerability for level in ("block", "chapter"))
            assert learned.vulnerability <= block + 1e-9 <= chapter + 2e-9


def test_risk_agrees_with_the_channels(calibrated, risk):
    """The prior of semantic transport is the law of its maps, which a few absent values change."""
    values = [record["a"] for record in RECORDS]
    channels = {value: channel(calibrated, "a", value) for value in set(values)}
    share = {value: values.count(value) / len(values) for value in channels}
    best = [max(share[a] * channels[a].get(c, 0.0) for a in channels) for c in TAU.ids]
    error = 0.01 if calibrated.name == "semantic_transport" else 1e-6
    assert risk.value["a"].vulnerability == pytest.approx(sum(best), abs=error)
    assert risk.unchanged["a"] == pytest.approx(sum(share[a] * channels[a].get(a, 0.0) for a in channels), abs=error)
    d = calibrated.distances[0]
    squares = [share[a] * p * d(a, c) ** 2 for a in channels for c, p in channels[a].items()]
    assert risk.rmse["a"] ** 2 == pytest.approx(sum(squares), abs=error)


def test_masks_of_a_whole_record_disclose_at_least_as_much_as_one(calibrated, risk):
    if calibrated.needs_group:
        assert risk.record is None
        assert risk.unchanged_records is None
        return
    assert risk.unchanged_records is None or risk.unchanged_records < 1.0
    for name in calibrated.attributes:
        own, both = risk.value[name], risk.record[name]
        assert both.vulnerability >= own.vulnerability - 0.05 - both.error


def test_a_restored_mechanism_without_counts_refuses_to_assess_risk(calibrated):
    restored = mechanism(calibrated.name)({"a": TAU, "b": TAU}, seed=SEED)
    with pytest.raises(StatisticsError):
        restored.risk()
    restored.restore(calibrated.snapshot())
    with pytest.raises(StatisticsError, match="counts"):
        restored.risk()


def test_statistics_can_be_assessed_before_they_are_in_force(calibrated, risk):
    instance = mechanism(calibrated.name)({"a": TAU, "b": TAU}, seed=SEED)
    counts = count_batch(instance.encode(RECORDS), [len(TAU)] * 2)
    other = instance.with_statistics(instance.compute(counts, version=4), counts)
    assert other.risk(draws=200) == risk
    with pytest.raises(StatisticsError):
        _ = instance.statistics
