"""Models of events with few elements: their round trip, any defect, and windows that slid."""

from __future__ import annotations

import json
from copy import deepcopy

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mutations import mutated
from support.short_events import TAU, batch_of, calibrated, counts_of, masked, transport, window_of

from stream_masker.core.batch import Batch, Column
from stream_masker.core.mechanisms.transition.serialization import pack_array, unpack_array
from stream_masker.core.mechanisms.transport.field import solver
from stream_masker.errors import StatisticsError

ANY = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module")
def window():
    return window_of(4, size=400, absent=0.1)


@pytest.fixture(scope="module")
def made(window):
    return calibrated(window)


@pytest.fixture(scope="module")
def snapshot(made):
    return json.loads(json.dumps(made.snapshot()))


def restored(snapshot):
    made = transport()
    made.restore(snapshot)
    return made


def tree_of(snapshot):
    return snapshot["statistics"]["model"]["tree"]


def use(made, window):
    """Mask, compute the figures of risk, and calibrate again, from this model."""
    for before, column in zip(window.columns, masked(made, window), strict=True):
        np.testing.assert_array_equal(column.codes < 0, before.codes < 0)
        assert column.codes.max() < len(TAU)
    made.with_statistics(made.statistics, counts_of(window)).risk(draws=10)
    made.compute(counts_of(window), version=2)


def test_a_restored_model_masks_alike(made, snapshot, window):
    assert made._prepared_statistics().short
    for one, other in zip(masked(made, window), masked(restored(snapshot), window), strict=True):
        np.testing.assert_array_equal(one.codes, other.codes)
    assert restored(snapshot).snapshot() == snapshot


@ANY
@given(data=st.data())
def test_a_model_with_any_defect_is_used_or_refused(window, snapshot, data):
    damaged = deepcopy(snapshot)
    tree = tree_of(damaged)
    tree["short"] = json.loads(data.draw(mutated(json.dumps(tree["short"]).encode())))
    try:
        made = restored(damaged)
    except StatisticsError:
        return
    use(made, window)


@ANY
@given(data=st.data())
def test_a_tree_with_any_defect_is_used_or_refused(window, snapshot, data):
    damaged = deepcopy(snapshot)
    model = damaged["statistics"]["model"]
    model["tree"] = json.loads(data.draw(mutated(json.dumps(model["tree"]).encode())))
    try:
        made = restored(damaged)
    except StatisticsError:
        return
    use(made, window)


@ANY
@given(data=st.data())
def test_arrays_with_any_defect_are_used_or_refused(window, snapshot, data):
    """Arrays of a model decode to any numbers of their type."""
    damaged = deepcopy(snapshot)
    tree = tree_of(damaged)
    ((short,), (edge,)) = tree["short"], tree["edges"]
    held = [
        *((short["fields"][k], name, np.float32) for k in range(2) for name in ("root_scale", "scale")),
        (short, "rows", np.int64),
        (short["alone"], "scale", np.float32),
        *((member, name, np.int64) for member in (short["alone"], edge) for name in ("counts", "tuples")),
    ]
    member, name, kind = data.draw(st.sampled_from(held))
    numbers = unpack_array(member[name], kind)
    place = data.draw(st.integers(0, numbers.size - 1))
    values = [np.nan, np.inf, -np.inf, 1e30, -1e30, 199.0, -199.0, 0.0]
    if kind == np.int64:
        values = [-1, 0, 1, 2, 1000, 2**31, 2**62, -(2**62), 2**63 - 1]
    numbers[place] = data.draw(st.sampled_from(values))
    if data.draw(st.booleans()):
        numbers = numbers[: data.draw(st.integers(0, numbers.size))]
    member[name] = pack_array(numbers)
    try:
        made = restored(damaged)
    except StatisticsError:
        return
    use(made, window)


def changed_array(text, kind, change):
    return pack_array(change(unpack_array(text, kind)).astype(kind))


def damage(kind, short):
    field = short["fields"][0]
    match kind:
        case "another parent":
            short["parent"] = "B"
        case "an unknown child":
            short["child"] = "C"
        case "a field twice":
            short["fields"].append(deepcopy(field))
        case "equal numbers of elements":
            short["fields"][1]["elements"] = 1
        case "no elements":
            field["elements"] = 0
        case "three elements":
            field["elements"] = 3
        case "a text as the number of elements":
            field["elements"] = "1"
        case "fields that are no list":
            short["fields"] = {"1": field}
        case "no rows":
            short["rows"] = changed_array(short["rows"], np.int64, np.zeros_like)
        case "negative rows":
            short["rows"] = changed_array(short["rows"], np.int64, np.negative)
        case "too few rows":
            short["rows"] = changed_array(short["rows"], np.int64, lambda x: x[1:])
        case "rows whose sum overflows":
            short["rows"] = changed_array(short["rows"], np.int64, lambda x: np.full_like(x, 2**62))
        case "a scale that is not a number":
            field["scale"] = changed_array(field["scale"], np.float32, lambda x: x * np.nan)
        case "a root scale above 1":
            field["root_scale"] = changed_array(field["root_scale"], np.float32, lambda x: x + 100.0)
        case "a scale of another window":
            field["scale"] = changed_array(field["scale"], np.float32, lambda x: x[1:])
        case "a changed share above 1":
            field["changed"] = [2.0, 0.5]
        case "a negative sharpness":
            field["sharpness"] = [-1.0, 1.0]
        case "one sharpness":
            field["sharpness"] = [1.0]
        case "fewer rows of the scalar than pairs":
            short["alone"]["counts"] = changed_array(short["alone"]["counts"], np.int64, np.ones_like)


DAMAGES = [
    "another parent",
    "an unknown child",
    "a field twice",
    "equal numbers of elements",
    "no elements",
    "three elements",
    "a text as the number of elements",
    "fields that are no list",
    "no rows",
    "negative rows",
    "too few rows",
    "rows whose sum overflows",
    "a scale that is not a number",
    "a root scale above 1",
    "a scale of another window",
    "a changed share above 1",
    "a negative sharpness",
    "one sharpness",
    "fewer rows of the scalar than pairs",
]


@pytest.mark.parametrize("kind", DAMAGES)
def test_damaged_short_events_are_refused(kind, snapshot):
    damaged = deepcopy(snapshot)
    damage(kind, tree_of(damaged)["short"][0])
    assert damaged != snapshot
    with pytest.raises(StatisticsError):
        restored(damaged)


@pytest.mark.parametrize("name", ["parent", "child", "alone", "rows", "fields"])
def test_short_events_without_a_member_are_refused(name, snapshot):
    damaged = deepcopy(snapshot)
    del tree_of(damaged)["short"][0][name]
    with pytest.raises(StatisticsError):
        restored(damaged)


def test_short_events_twice_are_refused(snapshot):
    damaged = deepcopy(snapshot)
    tree_of(damaged)["short"] *= 2
    with pytest.raises(StatisticsError):
        restored(damaged)


@pytest.mark.parametrize("value", [None, 1, "a", {}, [1], [[]], [{}]], ids=str)
def test_a_tree_with_other_short_events_is_refused(value, snapshot):
    damaged = deepcopy(snapshot)
    tree_of(damaged)["short"] = value
    with pytest.raises(StatisticsError):
        restored(damaged)


def part_of(window, start, end):
    """The events from ``start`` to ``end``."""
    scalar, array = window.columns
    places = array.offsets[start : end + 1]
    elements = Column(array.codes[places[0] : places[-1]], places - places[0])
    return Batch(end - start, (Column(scalar.codes[start:end]), elements))


@pytest.fixture
def evaluations(monkeypatch):
    """The arguments of each evaluation of all records of a field."""
    made, original = [], solver.evaluate

    def counted(*given):
        made.append(given)
        return original(*given)

    monkeypatch.setattr(solver, "evaluate", counted)
    return made


@pytest.mark.parametrize("target", [{"rmse": 0.3}, {"alpha": 0.4}], ids=str)
def test_a_window_that_slid_starts_from_the_fields_in_force(target, evaluations):
    window = window_of(9, size=6600)
    first, second = part_of(window, 0, 6000), part_of(window, 600, 6600)
    made = calibrated(first, target=target)
    before = masked(made, window)
    evaluations.clear()
    warm_statistics = made.compute(counts_of(second), version=2)
    warm = len(evaluations)
    evaluations.clear()
    transport(target=target).compute(counts_of(second), version=1)
    assert warm < len(evaluations)
    made.restore(made.snapshot_of(warm_statistics))
    changed = [(one.codes != two.codes).mean() for one, two in zip(before, masked(made, window), strict=True)]
    assert max(changed) < 0.05
    events = window.columns[1].offsets
    short = np.isin(np.diff(events), [1, 2])
    assert (before[0].codes != masked(made, window)[0].codes)[short].mean() < 0.05


def test_the_fields_follow_the_numbers_of_elements_of_the_window(window):
    made = calibrated(window_of(4, (1, 3)))
    assert set(made._prepared_statistics().short[0].fields) == {1}
    made.restore(made.snapshot_of(made.compute(counts_of(window), version=2)))
    assert set(made._prepared_statistics().short[0].fields) == {1, 2}
    made.restore(made.snapshot_of(made.compute(counts_of(window_of(4, (0, 3))), version=3)))
    assert not made._prepared_statistics().short[0].fields


def test_an_empty_batch_is_masked(made):
    assert [column.codes.size for column in masked(made, batch_of([], [], np.empty(0, np.int64)))] == [0, 0]


def test_a_factor_in_force_that_is_far_from_those_that_meet_the_target_is_given_up(snapshot, window):
    """The search starts from the factor of the additional exponents that is in force."""
    other = deepcopy(snapshot)
    tree_of(other)["roots"]["A"] = 1e15
    made = restored(other)
    made.restore(made.snapshot_of(made.compute(counts_of(window), version=2)))
    assert tree_of(made.snapshot())["roots"]["A"] < 100.0
    assert made.disclosure().rmse == pytest.approx({"A": 0.3, "B": 0.3}, rel=1e-2)
