"""Events of a scalar with at most two elements of its array, which are masked together."""

from __future__ import annotations

import numpy as np
import pytest
from support.short_events import (
    VALUES,
    EventEnumeration,
    batch_of,
    best_guess,
    bound_of,
    calibrated,
    concept_of,
    of_node,
    window_of,
)

from stream_masker.core.mechanisms.transport.field import records
from stream_masker.core.mechanisms.transport.field.solver import LAW_ERROR
from stream_masker.core.mechanisms.transport.tree.edge_risk import LEFT_OUT

TARGETS = [{"rmse": 0.3}, {"alpha": 0.4}]
WINDOWS = {
    "independent": {},
    "array first": {"array_first": True},
    "absent scalars": {"absent": 0.2},
    "dependent": {"dependent": 0.6},
}
DRAWS = 20_000
MATCHING_ERROR = 2e-3
"""What masked pairs miss besides, because a field is fitted to one random matching of two elements, not to the law."""
SAMPLING_ERROR = 0.03
"""The same for a sample of the records."""


def squares_of(made):
    return made._prepared_statistics().squares


@pytest.fixture(scope="module", params=WINDOWS)
def made(request):
    return calibrated(window_of(4, **WINDOWS[request.param]))


@pytest.fixture(scope="module")
def found(made):
    return EventEnumeration(made)


def law_error(found, elements):
    """For each element, Σ |P(a*, b*) − P(a, b)|."""
    joint = found.joint(elements)
    masks = joint.sum(axis=tuple(range(elements + 1)))
    for node in range(1, elements + 1):
        pairs = masks.sum(axis=tuple(n for n in range(1, elements + 1) if n != node))
        yield np.abs(pairs - found.pairs()).sum()


@pytest.mark.parametrize("elements", [1, 2])
def test_masked_pairs_have_the_law_of_the_window(found, elements):
    assert max(law_error(found, elements)) <= LAW_ERROR + (elements > 1) * MATCHING_ERROR


@pytest.mark.parametrize("elements", [1, 2])
def test_each_number_of_elements_has_the_distance_of_the_target(made, found, elements):
    joint = found.joint(elements)
    for node in range(elements + 1):
        square = squares_of(made)[found.array if node else found.scalar]
        assert (of_node(joint, node) * square).sum() ** 0.5 == pytest.approx(0.3, rel=5e-3)


@pytest.mark.parametrize("elements", [1, 2])
def test_a_sampled_window_has_the_same_law_and_distance(elements, monkeypatch):
    monkeypatch.setattr(records, "MAX_RECORDS", 1000)
    made = calibrated(window_of(4))
    found = EventEnumeration(made)
    assert max(law_error(found, elements)) <= LAW_ERROR + SAMPLING_ERROR
    joint = found.joint(elements)
    for node in range(elements + 1):
        square = squares_of(made)[min(node, 1)]
        assert (of_node(joint, node) * square).sum() ** 0.5 == pytest.approx(0.3, rel=2e-2)


def test_figures_are_those_of_the_enumeration(made, found):
    """The chances given all masks are estimates, with a bound. Elements of longer events whose scalar is absent are
    left out of the figures."""
    figures, bound = made.disclosure(), bound_of(made)
    assert 0.001 < bound < 0.01
    for node, j in enumerate((found.scalar, found.array)):
        name, mixed = made.attributes[j], found.mixed(node)
        error = 5e-3 if node and found.pairs()[-1].any() else 1e-3
        own = mixed.max(axis=0).sum()
        assert figures.vulnerability[name] == pytest.approx(own, abs=error)
        assert figures.given_record[name] == pytest.approx(max(own, found.given_record(node)), abs=bound + error)
        assert figures.unchanged[name] == pytest.approx(np.trace(mixed), abs=error)
        assert figures.rmse[name] == pytest.approx((mixed * squares_of(made)[j]).sum() ** 0.5, rel=error)
        rows = made._prepared_statistics().rows(j)
        assert np.abs(rows - mixed / mixed.sum(axis=1, keepdims=True)).max() < 5 * error
        assert 1.0 - np.trace(mixed) - 0.02 < made.changed_at_least(j, None) < 1.0 - np.trace(mixed) + error


def test_the_live_risk_has_the_figures_of_disclosure(made, found):
    risk, figures = made.risk(), made.disclosure()
    for name in made.attributes:
        assert risk.vulnerability[name] == pytest.approx(figures.vulnerability[name], abs=5e-3)
        assert risk.unchanged[name] == pytest.approx(figures.unchanged[name], abs=5e-3)
        assert risk.rmse[name] == pytest.approx(figures.rmse[name], rel=5e-3)
        assert risk.given_record[name] == pytest.approx(figures.given_record[name], abs=bound_of(made) + LEFT_OUT)
    assert risk.vulnerability_of_record >= figures.vulnerability_of_record - 1e-9
    assert risk.bound_of_record >= bound_of(made)


def test_the_channel_has_the_rows_of_the_enumeration(made, found):
    for node, j in enumerate((found.scalar, found.array)):
        mixed = found.mixed(node)
        for row, position in enumerate(np.sort(VALUES)):
            channel = made.channel(made.attributes[j], concept_of(position))
            wanted = mixed[row] / mixed[row].sum()
            assert sum(channel.values()) == pytest.approx(1.0, abs=1e-9)
            error = 0.025 if node and found.pairs()[-1].any() else 5e-3
            assert [channel.get(concept_of(p), 0.0) for p in np.sort(VALUES)] == pytest.approx(wanted, abs=error)


def test_who_sees_whether_an_event_has_elements_guesses_better_from_the_own_mask_only(made, found):
    """The vulnerability is that of someone who sees one mask, and not how many elements the event has."""
    without = found.without()
    chances = [of_node(found.joint(elements), 0).max(axis=0).sum() for elements in (1, 2, 3)]
    seen = (1.0 - without.sum()) * float(found.shares() @ chances) + without.max(axis=0).sum()
    figures, name = made.disclosure(), made.attributes[found.scalar]
    assert figures.vulnerability[name] - 2e-3 <= seen <= figures.given_record[name] + bound_of(made)


def test_an_event_without_elements_can_tell_its_scalar():
    """The fifth value is that of all events without elements. Whoever sees that there are none knows it."""
    rng = np.random.default_rng(3)
    scalar = rng.choice(5, 3000)
    lengths = np.where(scalar == 4, 0, 1 + np.arange(3000) % 3)
    owners = np.repeat(scalar, lengths)
    elements = np.where(rng.random(owners.size) < 0.5, owners, rng.choice(5, owners.size))
    made = calibrated(batch_of(VALUES[scalar], VALUES[elements], lengths))
    share = np.bincount(scalar)[4] / np.maximum(lengths, 1).sum()
    chances = [best_guess(EventEnumeration(made).joint(n), 0) for n in (1, 2, 3)]
    assert made.disclosure().given_record["A"] > share + (1.0 - share) * min(chances) - bound_of(made)
