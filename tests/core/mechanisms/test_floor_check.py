"""The check of one attribute: which probabilities it computes, and which windows it refuses."""

from __future__ import annotations

import numpy as np
import pytest

from stream_masker.core.batch import Batch, Column
from stream_masker.core.distance import Distance, distance_on
from stream_masker.core.dtypes import Int32Array
from stream_masker.core.ontology import Ontology
from stream_masker.core.risk import floor
from stream_masker.core.risk.channel import Channel
from stream_masker.core.risk.classes import value_classes
from stream_masker.core.risk.floor import MAX_CHECKED_VALUES, FloorCheck
from stream_masker.core.statistics.counts import Counts, count_batch
from stream_masker.errors import StatisticsError

SIZE = 400
TREE = Ontology.from_edges([(f"c{k}", f"c{(k - 1) // 5}") for k in range(1, SIZE)]).taxonomy()


def counts(values: int, mode: int = 0) -> Counts:
    """Return counts of ``values`` values, each once or twice, with ``mode`` further rows of the first one."""
    codes = np.concatenate([np.arange(values), np.arange(values // 2), np.zeros(mode, np.int64)]).astype(np.int32)
    return count_batch(Batch(codes.size, (Column(codes),)), (SIZE,))


class Mechanism:
    """Moves each value to the next one with the probability ``changed``; the most frequent value always."""

    attributes = ("one",)

    def __init__(self, changed: float, bound: float = 0.0, *, hides: bool = True) -> None:
        self.changed, self.bound, self.hides = changed, bound, hides
        self.distances: tuple[Distance, ...] = (distance_on(TREE, "wu_palmer"),)
        self.computed: list[int] = []

    def attribute_channel(self, j: int, values: Int32Array, counts: Counts | None) -> Channel:
        self.computed.append(values.size)
        changed = np.where(values == 0, 1.0, self.changed)
        rows = np.diag(1.0 - changed)
        rows[np.arange(values.size), (np.arange(values.size) + 1) % values.size] += changed
        return Channel(values, rows, value_classes(values, SIZE))

    def changed_at_least(self, j: int, counts: Counts) -> float:
        return self.bound

    def surely_hides(self, j: int) -> bool:
        return self.hides


@pytest.fixture
def few_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let only the ``MAX_CHECKED_VALUES`` most frequent values be checked."""
    monkeypatch.setattr(floor, "MAX_CHECKED_CELLS", 1)


@pytest.mark.usefixtures("few_cells")
def test_the_most_frequent_of_many_values_are_computed_once_for_both_checks() -> None:
    mechanism = Mechanism(0.9)
    check = FloorCheck(mechanism, 0, counts(300, mode=10))
    check.check()
    check.check_others()
    assert mechanism.computed == [MAX_CHECKED_VALUES]


def test_a_cheap_bound_needs_no_probabilities() -> None:
    mechanism = Mechanism(0.9, bound=0.5)
    check = FloorCheck(mechanism, 0, counts(300))
    check.check()
    check.check_others()
    assert mechanism.computed == []


def test_without_a_bound_the_most_frequent_of_many_values_must_share_a_mask() -> None:
    mechanism = Mechanism(0.9, bound=0.5, hides=False)
    FloorCheck(mechanism, 0, counts(300)).check()
    assert mechanism.computed == [MAX_CHECKED_VALUES]


def test_a_permutation_of_many_values_is_refused() -> None:
    mechanism = Mechanism(1.0, bound=1.0, hides=False)
    with pytest.raises(StatisticsError, match="single possible original"):
        FloorCheck(mechanism, 0, counts(300)).check()
    assert mechanism.computed == [MAX_CHECKED_VALUES, 300]


class PartlyPermuting(Mechanism):
    """Permutes the values below ``permuted``; each of the other values becomes any of these others."""

    def __init__(self, permuted: int) -> None:
        super().__init__(1.0, bound=1.0, hides=False)
        self.permuted = permuted

    def attribute_channel(self, j: int, values: Int32Array, counts: Counts | None) -> Channel:
        self.computed.append(values.size)
        rotated, others = np.flatnonzero(values < self.permuted), np.flatnonzero(values >= self.permuted)
        rows = np.zeros((values.size, values.size))
        rows[rotated, np.roll(rotated, 1)] = 1.0
        rows[np.ix_(others, others)] = 1.0 / max(others.size, 1)
        return Channel(values, rows, value_classes(values, SIZE))


def test_a_permutation_of_most_of_many_values_is_refused() -> None:
    mechanism = PartlyPermuting(200)
    with pytest.raises(StatisticsError, match="78% of the values that masking changes"):
        FloorCheck(mechanism, 0, counts(300)).check()
    assert mechanism.computed == [MAX_CHECKED_VALUES, 300]


def test_a_permutation_of_the_most_frequent_values_alone_is_not_refused() -> None:
    mechanism = PartlyPermuting(60)
    FloorCheck(mechanism, 0, counts(300)).check()
    assert mechanism.computed == [MAX_CHECKED_VALUES, 300]


def test_few_values_are_all_checked() -> None:
    mechanism = Mechanism(0.9)
    FloorCheck(mechanism, 0, counts(40)).check()
    assert mechanism.computed == [40]


@pytest.mark.usefixtures("few_cells")
@pytest.mark.parametrize("values", [40, 300])
def test_values_that_hardly_change_are_refused(values: int) -> None:
    with pytest.raises(StatisticsError, match=r"one: masking would change \d\."):
        FloorCheck(Mechanism(0.001), 0, counts(values)).check()


@pytest.mark.usefixtures("few_cells")
@pytest.mark.parametrize("values", [40, 300])
def test_values_other_than_the_most_frequent_that_hardly_change_are_refused(values: int) -> None:
    check = FloorCheck(Mechanism(0.001), 0, counts(values, mode=1_000))
    check.check()
    with pytest.raises(StatisticsError, match="one, apart from its most frequent value: masking would change 0"):
        check.check_others()


def test_a_single_value_is_not_checked() -> None:
    mechanism = Mechanism(0.0)
    FloorCheck(mechanism, 0, counts(1, mode=10)).check()
    assert mechanism.computed == []
