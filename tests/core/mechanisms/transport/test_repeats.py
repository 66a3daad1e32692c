"""Events whose codes are different stay so: no masked event has a code of an array twice."""

from __future__ import annotations

import numpy as np
import pytest
from support.flooding import LEAVES, TREE

from stream_masker import Ontology, SemanticTransport
from stream_masker.core.random import FieldKeys

SEED = b"a seed of sixteen bytes"


def events(records: int, lengths: tuple[int, ...], *, scalar: bool = True) -> list[dict[str, object]]:
    """Events whose elements are near their scalar, so that many independent masks would be equal."""
    draw = np.random.default_rng(2)
    made: list[dict[str, object]] = []
    for k in range(records):
        group = int(draw.integers(0, len(LEAVES) // 9))
        near = [LEAVES[9 * group + i] for i in draw.permutation(9)[: lengths[k % len(lengths)]]]
        event = {"principal": LEAVES[9 * group + int(draw.integers(0, 9))], "secondary": near}
        made.append(event if scalar else {"secondary": near})
    return made


def calibrated(records: list[dict[str, object]]) -> SemanticTransport:
    made = SemanticTransport(dict.fromkeys(records[0], TREE), window=len(records), seed=SEED)
    made.learn_many(records)
    made.calibrate()
    return made


@pytest.mark.parametrize("scalar", [True, False])
def test_no_masked_event_has_a_code_twice(scalar: bool) -> None:
    records = events(2_000, (1, 2, 3, 5), scalar=scalar)
    made = calibrated(records)
    masks = [record["secondary"] for record in made.mask_many(records, keys=[b"%d" % k for k in range(2_000)])]
    assert all(len(set(codes)) == len(codes) for codes in masks)
    assert [len(codes) for codes in masks] == [len(record["secondary"]) for record in records]


def test_records_are_masked_alone_as_together_and_the_order_of_codes_does_not_matter() -> None:
    """Of records with one noise key, such as those of a patient, too."""
    records = events(400, (2, 4, 6))
    made, keys = calibrated(records), [b"%d" % (k // 2) for k in range(400)]
    together = made.mask_many(records, keys=keys)
    assert [made.mask_one(record, key=key) for record, key in zip(records, keys, strict=True)] == together
    turned = [{**record, "secondary": record["secondary"][::-1]} for record in records]
    masks = made.mask_many(turned, keys=keys)
    assert [{**record, "secondary": record["secondary"][::-1]} for record in masks] == together


def test_more_elements_than_codes_are_masked() -> None:
    """Then some occur twice, and no code is left out."""
    records = events(400, (3,))
    made = calibrated(records)
    many = {"principal": LEAVES[0], "secondary": [LEAVES[0]] * 3 + LEAVES * 2}
    (masked,) = made.mask_many([many], keys=[b"one"])
    assert len(masked["secondary"]) == len(many["secondary"])
    assert len(set(masked["secondary"])) > 0.8 * len(LEAVES)


def test_a_very_long_list_takes_no_longer_than_its_codes() -> None:
    """20,000 different codes of a window with 1,500: a test of all earlier elements for each would take minutes."""
    edges = [(f"g{k}", "root") for k in range(150)]
    edges += [(f"c{k}", f"g{k % 150}") for k in range(20_000)]
    tau, draw = Ontology.from_edges(edges).taxonomy(), np.random.default_rng(5)
    lists = [[f"c{k}" for k in draw.choice(1_500, 3, replace=False)] for _ in range(3_000)]
    made = SemanticTransport({"secondary": tau}, seed=SEED)
    made.learn_many([{"secondary": codes} for codes in lists])
    made.calibrate()
    (masked,) = made.mask_many([{"secondary": [f"c{k}" for k in range(20_000)]}], keys=[b"one"])
    assert len(masked["secondary"]) == 20_000
    assert len(set(masked["secondary"])) == np.count_nonzero(made._prepared._shares[0]) > 1_000


def test_absent_elements_stay_absent() -> None:
    records = events(600, (3,))
    made = calibrated(records)
    batch = made.encode(records)
    batch.columns[1].codes[::5] = -1
    masked = made.mask_batch(batch, FieldKeys(SEED, [b"%d" % k for k in range(600)])).columns[1]
    np.testing.assert_array_equal(masked.codes < 0, batch.columns[1].codes < 0)
    rows = masked.codes.reshape(-1, 3)
    assert all(len(set(row[row >= 0].tolist())) == (row >= 0).sum() for row in rows)
