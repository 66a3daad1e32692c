"""Repeated values: what an attacker gains from several records of one key, with field and with position keys.

The attacker knows the mechanism, its statistics and the law of the codes, not the secret. Each figure is computed from
simulated records of many keys: the share of originals that the best guess gets right.
"""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np
import pytest

from stream_masker import Ontology
from stream_masker.core.batch import Batch, Column
from stream_masker.core.mechanisms import mechanism
from stream_masker.core.random import FieldKeys, PositionKeys
from stream_masker.core.statistics import count_batch

TAU = Ontology.from_edges(
    [(f"b{i}", "root") for i in range(4)] + [(f"l{i}{k}", f"b{i}") for i in range(4) for k in range(5)]
).taxonomy()
CODES = TAU.encode([f"l{i}{k}" for i in range(3) for k in range(3)])
LAW = np.array([9, 7, 5, 4, 3, 2, 2, 1, 1]) / 34
KEYS = 6_000
REPEATS = 5
RNG = np.random.default_rng(8)

METHODS = {
    "ceil": ("semantic_noise", {"preset": "paper", "alpha": 1.0}),
    "calibrated": ("semantic_noise", {"rounding": "calibrated"}),
    "exponential": ("exponential", {"epsilon": 4.0}),
}


def drawn(size: int) -> np.ndarray:
    return RNG.choice(CODES, size, p=LAW).astype(np.int32)


@pytest.fixture(params=METHODS, scope="module")
def made(request):
    name, parameters = METHODS[request.param]
    result = mechanism(name)({"a": TAU}, seed=b"sixteen bytes or more", **parameters)
    statistics = result.compute(count_batch(Batch(20_000, (Column(drawn(20_000)),)), [len(TAU)]), version=1)
    result.restore(result.snapshot_of(statistics))
    return result


def by_field(numbers: np.ndarray) -> FieldKeys:
    return FieldKeys(b"secret", [b"%d" % number for number in numbers])


def accuracy(originals: list[int], evidence: list[tuple[int, ...]]) -> float:
    """The share of originals that equal the most frequent original with the same evidence."""
    seen: dict[tuple[int, ...], Counter[int]] = defaultdict(Counter)
    for original, found in zip(originals, evidence, strict=True):
        seen[found][original] += 1
    return sum(max(counts.values()) for counts in seen.values()) / len(originals)


def masked(made, codes, keys) -> np.ndarray:
    return made.mask_batch(Batch(len(codes), (Column(codes),)), keys).columns[0].codes


def test_repeats_with_a_field_key_add_nothing(made):
    originals = drawn(KEYS)
    codes, numbers = np.repeat(originals, REPEATS), np.repeat(np.arange(KEYS), REPEATS)
    masks = masked(made, codes, by_field(numbers)).reshape(KEYS, REPEATS)
    assert (masks == masks[:, :1]).all()


def test_repeats_with_position_keys_reveal_more(made):
    originals = drawn(KEYS)
    keys = PositionKeys(b"secret", "t", 0, np.arange(KEYS * REPEATS))
    masks = masked(made, np.repeat(originals, REPEATS), keys).reshape(KEYS, REPEATS)
    once = accuracy(originals.tolist(), [(int(first),) for first in masks[:, 0]])
    law = {int(c): np.bincount(masks[originals == c].reshape(-1), minlength=len(TAU)) + 1e-3 for c in CODES}
    scores = np.array([np.log(law[int(c)] / law[int(c)].sum())[masks].sum(axis=1) for c in CODES])
    scores += np.log(LAW)[:, None]
    assert np.mean(CODES[scores.argmax(axis=0)] == originals) > once + 8 * np.sqrt(0.25 / KEYS)
