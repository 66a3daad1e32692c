"""An attacker who reads masked records learns nothing from pairs that only one person has, with ``least`` of 2."""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np
import pytest
from support.channels import trained

from stream_masker.core.mechanisms import SemanticTransport
from stream_masker.errors import ParameterError
from tests.core.mechanisms.flooding import LEAVES, TREE

NAMES = ("first", "second")
SEED = b"a seed of sixteen bytes"
COMMON, RARE = LEAVES[:12], LEAVES[30:60]


def attacked(least: int) -> tuple[float, float]:
    """The shares of rare pairs whose second value the attacker names, and that a masked record proves.

    1,200 patients have common pairs. 30 have three records each, with a first value that nobody else has. The attacker
    knows the first value, and names the second one that masked records have most often with it.
    """
    draw = np.random.default_rng(1)
    drawn = zip(draw.integers(0, 12, 1200), draw.integers(0, 3, 1200), strict=True)
    rare = [(first, LEAVES[int(second)]) for first, second in zip(RARE, draw.integers(60, 90, 30), strict=True)]
    pairs = [(COMMON[a], COMMON[(a + b) % 12]) for a, b in drawn] + rare * 3
    records = [dict(zip(NAMES, pair, strict=True)) for pair in pairs]
    made = SemanticTransport(dict.fromkeys(NAMES, TREE), alpha=0.5, certainty=1.0, least=least, seed=SEED)
    trained(made, records, keys=[b"patient %d" % (i if i < 1200 else i % 30) for i in range(len(records))])
    seen: dict[str, Counter[str]] = defaultdict(Counter)
    for mask in made.mask_many(records, keys=[b"%d" % i for i in range(len(records))]):
        seen[mask["first"]][mask["second"]] += 1
    named = [seen[first].most_common(1)[0][0] == second if first in seen else False for first, second in rare]
    return float(np.mean(named)), float(np.mean([seen[first][second] > 0 for first, second in rare]))


def test_a_pair_of_one_patient_is_written_only_where_one_patient_is_enough():
    named, proven = attacked(1)
    assert min(named, proven) > 0.4
    assert attacked(2) == (0.0, 0.0)


def test_units_are_counted_by_the_keys_of_records():
    """Of one record at a time, of several, and without keys."""
    record = {"first": COMMON[0], "second": COMMON[1]}
    for keys, units in (([b"a", b"a", b"a"], 1), ([b"a", b"b", b"a"], 2), (None, 3), ([b"a", None, None], 1)):
        made = SemanticTransport(dict.fromkeys(NAMES, TREE), seed=SEED)
        for key in keys or [None] * 3:
            made.learn_one(record, key=key)
        assert made._window.counts().pairs[0, 1].units.tolist() == [units]
    many = SemanticTransport(dict.fromkeys(NAMES, TREE), seed=SEED)
    many.learn_many([record] * 3, keys=[b"a", b"b", b"b"])
    assert many._window.counts().values[0].units.tolist() == [2]


def test_every_learned_record_needs_its_key():
    made = SemanticTransport(dict.fromkeys(NAMES, TREE), seed=SEED)
    with pytest.raises(ParameterError, match="one for each of the 2 records"):
        made.learn_many([{"first": COMMON[0], "second": None}] * 2, keys=[b"a"])
