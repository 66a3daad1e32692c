"""Mechanisms write leaves alone where these are asked for."""

from __future__ import annotations

import numpy as np
import pytest

from stream_masker.core.mechanisms import MECHANISMS
from stream_masker.core.ontology import Ontology

SEED = b"sixteen bytes or more"

LEAVES = [
    ("semantic_noise", {"alpha": 5.0, "reference": "pair", "rounding": "calibrated", "candidates": "leaves"}),
    ("semantic_noise", {"alpha": 5.0, "reference": "mean", "rounding": "ceil", "candidates": "leaves"}),
    ("exponential", {"epsilon": 0.001, "candidates": "leaves", "distance": "log_taxonomic"}),
]


@pytest.mark.parametrize(("name", "options"), LEAVES, ids=str)
def test_leaves_of_icd10cm_are_billable_codes(name, options):
    """Of any values, categories and blocks included, and of records whose values are all equal.

    ``tests/core/ontology/test_ontology.py`` shows that the leaves of the ontology are the billable codes.
    """
    tau = Ontology.load("icd10cm").taxonomy()
    mechanism = MECHANISMS[name]({"a": tau, "b": tau}, seed=SEED, **options)
    codes = np.random.default_rng(3).integers(0, len(tau), (500, 2))
    codes[::10, 1] = codes[::10, 0]
    records = [{"a": tau.ids[a], "b": tau.ids[b]} for a, b in codes.tolist()]
    mechanism.learn_many(records)
    mechanism.calibrate()
    masked = mechanism.mask_many(records, keys=[b"%d" % i for i in range(len(records))])
    assert tau.leaf[tau.encode([value for record in masked for value in record.values()])].all()
