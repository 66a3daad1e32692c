"""Microaggregation: verified k-anonymity of records and of units, absent values, arrays (2013)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from support.channels import trained

from stream_masker import Ontology
from stream_masker.core.batch import Batch, Column
from stream_masker.core.mechanisms import Microaggregation, microaggregation
from stream_masker.core.mechanisms.microaggregation import least_class
from stream_masker.core.random import PositionKeys
from stream_masker.errors import AnonymityError, ParameterError

SEED = b"seed............"
RNG = np.random.default_rng(12)
TAU = Ontology.from_edges([(f"c{k}", f"c{RNG.integers(0, k)}") for k in range(1, 60)]).taxonomy()
FLAT = Ontology.from_edges([(f"v{k}", "any") for k in range(12)]).taxonomy()
SIZE = 200
RECORDS = [{"code": str(RNG.choice(TAU.ids)), "kind": f"v{RNG.integers(0, 12)}"} for _ in range(SIZE)]
KEYS = [b"%d" % k for k in range(SIZE)]


def mechanism(records=RECORDS):
    return trained(Microaggregation({"code": TAU, "kind": FLAT}, seed=SEED), records)


def rows(records):
    return [tuple(record.values()) for record in records]


def test_records_that_are_not_anonymous_are_withheld(monkeypatch):
    made = mechanism()
    monkeypatch.setattr(microaggregation, "mdav", lambda *_: list(np.arange(SIZE)[:, None]))
    with pytest.raises(AnonymityError, match="5-anonymous"):
        made.mask_many(RECORDS, keys=KEYS)


def test_too_few_records_or_units_are_rejected(of_units):
    with pytest.raises(ParameterError, match="groups of at least 5 records"):
        mechanism().mask_many(RECORDS[:4], keys=KEYS[:4])
    with pytest.raises(ParameterError, match="groups of at least 4 different units, not 1"):
        masked_units(of_units, batches(1, 50, 1))
    with pytest.raises(ParameterError, match="mask_many"):
        mechanism().mask_one(RECORDS[0], key=b"k")


def test_records_with_the_same_attributes_form_groups_and_few_ones_become_the_windows_means():
    records = [dict(record) for record in RECORDS]
    for k in range(0, SIZE, 4):
        records[k]["kind"] = None
    records[7]["code"] = records[9]["code"] = None
    records[8] = {}
    made = mechanism(records=records)
    masked = made.mask_batch(made.encode(records), PositionKeys(SEED, "t", 0, np.arange(SIZE)))
    decoded = made.decode(masked)
    for before, after in zip(records, decoded, strict=True):
        assert all((after[name] is None) == (before.get(name) is None) for name in after)
    mean = made.statistics.mean["kind"]
    assert rows(decoded)[7:10] == [(None, mean), (None, None), (None, mean)]


def test_array_elements_form_their_own_groups():
    records = [{"code": str(RNG.choice(TAU.ids)), "more": RNG.choice(TAU.ids, k % 4).tolist()} for k in range(SIZE)]
    made = trained(Microaggregation({"code": TAU, "more": TAU}, k=6, seed=SEED), records)
    masked = made.mask_many(records, keys=KEYS)
    assert [len(row["more"]) for row in masked] == [len(row["more"]) for row in records]
    elements = [code for row in masked for code in row["more"]]
    assert min(elements.count(code) for code in elements) >= 6
    codes = [row["code"] for row in masked]
    assert min(codes.count(code) for code in codes) >= 6
    few = made.mask_many([{"code": "c1", "more": ["c2"] if k < 3 else []} for k in range(9)], keys=KEYS[:9])
    mean = made.statistics.mean["more"]
    assert [row["more"] for row in few] == [[mean]] * 3 + [[]] * 6


K = 4


def batches(seed, size, people):
    """Records with scalars and elements, of at most ``people``."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, len(TAU), size).astype(np.int32)
    offsets = np.concatenate(([0], np.cumsum(rng.integers(0, 3, size))))
    elements = rng.integers(0, len(TAU), offsets[-1]).astype(np.int32)
    return Batch(size, (Column(codes), Column(elements, offsets)), units=rng.integers(0, people, size))


@pytest.fixture(scope="module")
def of_units():
    made = Microaggregation({"a": TAU, "b": TAU}, k=K, seed=SEED)
    made._window.add(batches(0, 300, 300))
    made.calibrate()
    return made


def masked_units(made, batch):
    return made.mask_batch(batch, PositionKeys(SEED, "t", 0, np.arange(batch.size)))


@given(seed=st.integers(0, 1000), size=st.integers(60, 150), people=st.integers(2 * K, 60))
def test_every_class_has_k_units(of_units, seed, size, people):
    batch = batches(seed, size, people)
    assume(batch.unit_count >= K)
    done = masked_units(of_units, batch)
    owners = batch.units[done.columns[1].owners]
    codes = done.columns[1].codes
    assert least_class([done.columns[0].codes], batch.units) >= K
    assert min(len(set(owners[codes == code].tolist())) for code in set(codes.tolist())) >= K
    assert len(set(codes.tolist())) > 1
