"""The pace of computing: the share of a core over any schedule, and the drift that need not wait."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_masker.core.batch import Batch, Column, Distortion
from stream_masker.core.distance import WuPalmer
from stream_masker.core.drift import drift_between
from stream_masker.core.ontology import Ontology, Taxonomy
from stream_masker.core.statistics import compute_statistics
from stream_masker.core.statistics.counts import Counts, count_batch
from stream_masker.core.statistics.summary import Statistics
from stream_masker.errors import ParameterError
from stream_masker.pipeline.calibration.pace import Pace, divergence
from stream_masker.pipeline.calibration.queues import BlockStore
from stream_masker.pipeline.calibration.window import Window
from stream_masker.pipeline.records import Block
from stream_masker.pipeline.wire.statistics import BlockRange

DEPTH = 2
EDGES = [("b", "a"), ("c", "a"), ("d", "b"), ("e", "b"), ("f", "c"), ("g", "c"), ("g", "b")]
TAU: Taxonomy = Ontology.from_edges(EDGES).taxonomy()
NAMES = ("one", "two")
CODES = st.lists(st.integers(0, len(TAU) - 1), min_size=1, max_size=30)


def counts(codes: Sequence[int]) -> Counts:
    columns = (Column(np.array(codes, dtype=np.int32)), Column(np.array(codes[::-1], dtype=np.int32)))
    return count_batch(Batch(len(codes), columns), (len(TAU),) * 2)


def window(*blocks: Sequence[int]) -> Window:
    made = [
        Block("discharges", 0, k, k, 0, 1, counts(codes), counts(codes), (Distortion(),) * 2, {})
        for k, codes in enumerate(blocks)
    ]
    store = BlockStore()
    entries = tuple(store.entry(k, 0, block) for k, block in enumerate(made))
    return Window(entries, BlockRange(0, len(entries) - 1, len(entries)))


def statistics(codes: Counts) -> Statistics:
    return compute_statistics(codes, NAMES, [WuPalmer(TAU)] * 2, version=1, rollup_depth=DEPTH)


def measured(found: Window, published: Statistics) -> float:
    return divergence(found, published, dict.fromkeys(NAMES, TAU), DEPTH)


@given(share=st.floats(0.01, 0.99) | st.just(1.0), jobs=st.lists(st.floats(0.001, 10), min_size=1, max_size=20))
def test_computing_as_soon_as_allowed_takes_the_share_and_no_more(share: float, jobs: list[float]) -> None:
    pace, now = Pace(share), 0.0
    for seconds in jobs:
        while not pace.is_open(now):
            now = np.nextafter(max(now, pace._open_at), np.inf)
        now += seconds
        pace.charge(seconds, now)
        assert pace.is_open(now) == (share == 1)
    assert sum(jobs) == pytest.approx(share * pace._open_at, rel=1e-6)


def test_urgent_computing_lengthens_the_pause() -> None:
    pace = Pace(0.1)
    pace.charge(1, now=10)
    pace.charge(2, now=12)
    assert [pace.is_open(now) for now in (18.9, 19.1, 36.9, 37.0)] == [False, False, False, True]


def test_a_hold_never_shortens_a_pause() -> None:
    pace = Pace(0.1)
    pace.hold(2.0)
    pace.hold(1.0)
    assert [pace.is_open(now) for now in (1.9, 2.0)] == [False, True]
    pace.charge(1.0, 2.0)
    pace.hold(3.0)
    assert [pace.is_open(now) for now in (10.9, 11.0)] == [False, True]
    whole = Pace(1.0)
    whole.hold(2.0)
    assert whole.is_open(1.0)


@pytest.mark.parametrize("share", [0, -1, 1.1])
def test_a_share_beyond_its_range_is_refused(share: float) -> None:
    with pytest.raises(ParameterError, match="share"):
        Pace(share)


@given(old=CODES, blocks=st.lists(CODES, min_size=1, max_size=4))
def test_divergence_is_that_of_the_drift_between_versions(old: list[int], blocks: list[list[int]]) -> None:
    found, published = window(*blocks), statistics(counts(old))
    drift = drift_between(statistics(found.original), published, [WuPalmer(TAU)] * 2)
    assert measured(found, published) == pytest.approx(max(d.divergence for d in drift.attributes.values()))


def test_an_attribute_without_values_does_not_count() -> None:
    published = statistics(counts([1, 2]))
    assert measured(window([-1, -1]), published) == 0
    assert measured(window([-1, 3]), published) > 0
