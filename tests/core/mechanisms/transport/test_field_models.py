"""Models of fields: their round trip, and models with any defect, which are used or refused."""

from __future__ import annotations

import json
from copy import deepcopy

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mutations import mutated
from support.field_windows import TAU, Window, batch_of, random_field, trees

from stream_masker import SemanticTransport
from stream_masker.core.mechanisms.transition.serialization import pack_array, unpack_array
from stream_masker.core.mechanisms.transport.field.links import Field
from stream_masker.core.random.keys import PositionKeys
from stream_masker.errors import StatisticsError

SEED = b"a seed of many bytes"
NAMES = ("x0", "x1", "x2", "x3")
ANY = settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def made_of(window, **parameters):
    names = NAMES[: len(window.codes)]
    made = SemanticTransport(dict.fromkeys(names, TAU), seed=SEED, **(parameters or {"target": {"alpha": 0.5}}))
    made.restore(made.snapshot_of(made.compute(window.counts, version=1)))
    return made


@pytest.fixture(scope="module")
def window():
    return Window.random(np.random.default_rng(4), (-1, 0, 1, 0), absent=0.2, size=400)


@pytest.fixture(scope="module")
def snapshot(window):
    return json.loads(json.dumps(made_of(window).snapshot()))


def restored(window, snapshot):
    made = SemanticTransport(dict.fromkeys(NAMES, TAU), target={"alpha": 0.5}, seed=SEED)
    made.restore(snapshot)
    return made


def use(made, window):
    """Mask, compute the figures of risk, and calibrate again, from this model."""
    size = window.codes.shape[1]
    masked = made.mask_batch(batch_of(window.codes), PositionKeys(b"sixteen bytes, more", "t", 0, np.arange(size)))
    for codes, column in zip(window.codes, masked.columns, strict=True):
        np.testing.assert_array_equal(column.codes < 0, codes < 0)
        assert column.codes.max() < len(TAU)
    made.with_statistics(made.statistics, window.counts).risk(draws=10)
    made.compute(window.counts, version=2)


@settings(max_examples=40)
@given(trees(), st.integers(0, 10_000), st.sampled_from([0.0, 0.3]))
def test_a_field_is_restored_from_its_model(parents, seed, absent):
    rng = np.random.default_rng(seed)
    window = Window.random(rng, parents, absent=absent)
    field = random_field(rng, window.tree)
    names = [f"x{j}" for j in range(len(parents))]
    model = json.loads(json.dumps(field.to_model(names)))
    found = Field.from_model(model, names, window.values)
    assert (found.links.attributes, found.links.parents) == (field.links.attributes, field.links.parents)
    assert found.links.sizes == field.links.sizes
    np.testing.assert_array_equal(found.sharpness, field.sharpness)
    np.testing.assert_array_equal(found.changed, field.changed)
    np.testing.assert_allclose(found.root_scale, field.root_scale, rtol=1e-5)
    for node, (one, two) in enumerate(zip(found.links.tables, field.links.tables, strict=True)):
        np.testing.assert_array_equal(one.rows, two.rows)
        np.testing.assert_array_equal(one.columns, two.columns)
        np.testing.assert_array_equal(found.links.counts[node], field.links.counts[node])
        np.testing.assert_allclose(found.scales[node], field.scales[node], rtol=1e-5)
    assert found.to_model(names) == model


def nodes_of(snapshot):
    return snapshot["statistics"]["model"]["tree"]["fields"][0]["nodes"]


def changed_array(text, kind, change):
    return pack_array(change(unpack_array(text, kind)).astype(kind))


def with_nan(x):
    return np.concatenate([[np.nan], x[1:]])


def damage_tree(damage, snapshot):
    nodes = nodes_of(snapshot)
    fields = snapshot["statistics"]["model"]["tree"]["fields"]
    match damage:
        case "an unknown parent":
            nodes[2]["parent"] = "x9"
        case "a node is its own parent":
            nodes[2]["parent"] = nodes[2]["attribute"]
        case "a cycle":
            nodes[1]["parent"], nodes[2]["parent"] = nodes[2]["attribute"], nodes[1]["attribute"]
        case "a child before its parent":
            nodes.reverse()
        case "an attribute twice":
            nodes[2]["attribute"] = nodes[1]["attribute"]
        case "one node":
            del nodes[1:]
        case "no nodes":
            nodes.clear()
        case "a field twice":
            fields.append(deepcopy(fields[0]))
        case "a scale of two values":
            nodes[1]["scale"] = pack_array(np.zeros(2, np.float32))
        case "a root scale that is too long":
            nodes[0]["scale"] = changed_array(nodes[0]["scale"], np.float32, lambda x: np.tile(x, 3))
        case "a scale that is not a number":
            nodes[1]["scale"] = changed_array(nodes[1]["scale"], np.float32, with_nan)
        case "a root scale that is not a number":
            nodes[0]["scale"] = changed_array(nodes[0]["scale"], np.float32, with_nan)
        case "an infinite scale":
            nodes[1]["scale"] = changed_array(nodes[1]["scale"], np.float32, lambda x: x + np.inf)
        case "a scale above 1":
            nodes[1]["scale"] = changed_array(nodes[1]["scale"], np.float32, lambda x: x + 100.0)
        case "negative counts":
            nodes[1]["counts"] = changed_array(nodes[1]["counts"], np.int64, np.negative)
        case "counts of 0":
            nodes[1]["counts"] = changed_array(nodes[1]["counts"], np.int64, np.zeros_like)
        case "counts whose sum overflows":
            nodes[1]["counts"] = changed_array(nodes[1]["counts"], np.int64, lambda x: np.full_like(x, 2**62))
        case "counts of more records than memory holds":
            for node in nodes[1:]:
                node["counts"] = changed_array(node["counts"], np.int64, lambda x: x * 10**12)
        case "counts of other rows":
            nodes[2]["counts"] = changed_array(nodes[2]["counts"], np.int64, lambda x: x + 1)
        case "too many values":
            nodes[1]["tuples"] = changed_array(nodes[1]["tuples"], np.int64, lambda x: x + 10)
        case "tuples twice":
            nodes[1]["tuples"] = changed_array(nodes[1]["tuples"], np.int64, np.zeros_like)
        case "a sharpness that is not a number":
            nodes[1]["sharpness"] = float("nan")
        case "an infinite sharpness":
            nodes[1]["sharpness"] = float("inf")
        case "a negative sharpness":
            nodes[1]["sharpness"] = -1.0
        case "a sharpness that is a text":
            nodes[1]["sharpness"] = "1"
        case "changed shares above 1":
            nodes[1]["changed"] = 2.0


DAMAGES = [
    "an unknown parent",
    "a node is its own parent",
    "a cycle",
    "a child before its parent",
    "an attribute twice",
    "one node",
    "no nodes",
    "a field twice",
    "a scale of two values",
    "a root scale that is too long",
    "a scale that is not a number",
    "a root scale that is not a number",
    "an infinite scale",
    "a scale above 1",
    "negative counts",
    "counts of 0",
    "counts whose sum overflows",
    "counts of more records than memory holds",
    "counts of other rows",
    "too many values",
    "tuples twice",
    "a sharpness that is not a number",
    "an infinite sharpness",
    "a negative sharpness",
    "a sharpness that is a text",
    "changed shares above 1",
]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_field_is_refused(damage, window, snapshot):
    damaged = deepcopy(snapshot)
    damage_tree(damage, damaged)
    assert damaged != snapshot
    with pytest.raises(StatisticsError):
        restored(window, damaged)


@pytest.mark.parametrize("member", ["attribute", "sharpness", "changed", "scale", "parent", "tuples", "counts"])
def test_a_field_without_a_member_is_refused(member, window, snapshot):
    damaged = deepcopy(snapshot)
    del nodes_of(damaged)[1][member]
    with pytest.raises(StatisticsError):
        restored(window, damaged)


@pytest.mark.parametrize("member", ["roots", "edges", "fields"])
@pytest.mark.parametrize("value", [None, 1, "a", [1], {"x0": "a"}, {"x0": [1]}, {"x9": 1.0}, [[]]])
def test_a_tree_with_another_member_is_refused(member, value, window, snapshot):
    damaged = deepcopy(snapshot)
    damaged["statistics"]["model"]["tree"][member] = value
    with pytest.raises(StatisticsError):
        restored(window, damaged)


@ANY
@given(data=st.data())
def test_a_field_with_any_defect_is_used_or_refused(window, snapshot, data):
    damaged = deepcopy(snapshot)
    tree = json.dumps(damaged["statistics"]["model"]["tree"]).encode()
    damaged["statistics"]["model"]["tree"] = json.loads(data.draw(mutated(tree)))
    try:
        made = restored(window, damaged)
    except StatisticsError:
        return
    use(made, window)


@ANY
@given(data=st.data())
def test_arrays_with_any_defect_are_used_or_refused(window, snapshot, data):
    """Arrays of a model decode to any numbers of their type."""
    damaged = deepcopy(snapshot)
    node = data.draw(st.sampled_from(nodes_of(damaged)))
    member, kind = data.draw(
        st.sampled_from(
            [("scale", np.float32), ("counts", np.int64), ("tuples", np.int64)][: 3 if "counts" in node else 1]
        )
    )
    numbers = unpack_array(node[member], kind)
    place = data.draw(st.integers(0, numbers.size - 1))
    if kind == np.float32:
        numbers[place] = data.draw(st.sampled_from([np.nan, np.inf, -np.inf, 1e30, -1e30, 199.0, -199.0, 0.0]))
    else:
        numbers[place] = data.draw(st.sampled_from([-1, 0, 1, 2, 1000, 2**31, 2**62, -(2**62), 2**63 - 1]))
    node[member] = pack_array(numbers)
    try:
        made = restored(window, damaged)
    except StatisticsError:
        return
    use(made, window)


def test_a_restored_field_masks_alike(window, snapshot):
    keys = PositionKeys(b"sixteen bytes, more", "t", 0, np.arange(400))
    one, other = (
        made.mask_batch(batch_of(window.codes), keys) for made in (made_of(window), restored(window, snapshot))
    )
    for first, second in zip(one.columns, other.columns, strict=True):
        np.testing.assert_array_equal(first.codes, second.codes)
