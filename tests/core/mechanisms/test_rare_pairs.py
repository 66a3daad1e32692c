"""An attacker who reads masked records learns nothing from pairs that only one person has, with ``least`` of 2."""

from __future__ import annotations

import numpy as np
import pytest
from support.flooding import LEAVES, TREE
from support.rare_pairs import RarePairs, attack_rare_pairs

from stream_masker.core.mechanisms import SemanticTransport
from stream_masker.errors import ParameterError

NAMES = ("first", "second")
SEED = b"a seed of sixteen bytes"
COMMON, RARE = LEAVES[:12], LEAVES[30:60]


def window() -> tuple[list[dict[str, str]], list[bytes]]:
    """1,200 records of as many patients with common pairs, and 30 patients with a first value of their own."""
    draw = np.random.default_rng(1)
    drawn = zip(draw.integers(0, 12, 1200), draw.integers(0, 3, 1200), strict=True)
    pairs = [(COMMON[a], COMMON[(a + b) % 12]) for a, b in drawn]
    pairs += [(first, LEAVES[int(second)]) for first, second in zip(RARE, draw.integers(60, 90, 30), strict=True)]
    return [{"first": a, "second": b} for a, b in pairs], [b"patient %d" % i for i in range(len(pairs))]


def attacked(least: int, records: list[dict[str, str]], keys: list[bytes]) -> RarePairs:
    made = SemanticTransport(dict.fromkeys(NAMES, TREE), alpha=0.5, certainty=1.0, least=least, seed=SEED)
    made.learn_many(records, keys=keys)
    made.calibrate()
    masked = made.mask_many(records, keys=[b"%d" % i for i in range(len(records))])
    given, seen = (np.array([TREE.encode([row[name] for row in rows]) for name in NAMES]) for rows in (records, masked))
    persons = np.unique(keys, return_inverse=True)[1]
    return attack_rare_pairs(given, persons, seen, given[:, :600], len(TREE))


def test_a_pair_of_one_patient_is_guessed_and_proven_where_one_is_enough():
    found = attacked(1, *window())
    assert (found.targets, found.named_before) == (30, 0.0)
    assert found.named > 0.4
    assert found.proven > 0.4


def test_a_pair_of_one_patient_is_not_written_where_two_are_needed():
    found = attacked(2, *window())
    assert found.named == found.named_before
    assert found.proven == 0.0


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
    with pytest.raises(ParameterError, match="there are 1 keys for 2 records"):
        made.learn_many([{"first": COMMON[0], "second": None}] * 2, keys=[b"a"])
