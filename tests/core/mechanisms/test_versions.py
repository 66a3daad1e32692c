"""Masks of two versions whose windows differ a little: few change, compared with what no method can avoid."""

from __future__ import annotations

import numpy as np
import pytest

from stream_masker import Ontology
from stream_masker.core.batch import Batch, Column
from stream_masker.core.mechanisms import mechanism
from stream_masker.core.random import FieldKeys
from stream_masker.core.statistics import count_batch

TAU = Ontology.from_edges(
    [(f"b{i}", "root") for i in range(20)] + [(f"l{i}_{k}", f"b{i}") for i in range(20) for k in range(20)]
).taxonomy()
LEAVES = np.flatnonzero(TAU.leaf).astype(np.int32)
WINDOW, SLIDE = 4_000, 400
RNG = np.random.default_rng(5)
STREAM = RNG.choice(LEAVES, (WINDOW + 15 * SLIDE, 2), p=RNG.dirichlet(np.ones(LEAVES.size))).astype(np.int32)
KEYS = FieldKeys(b"secret of the tests", [b"%d" % i for i in range(WINDOW)])

SMOOTH, EQUAL = 5, 9
"""Bounds in units of the least possible change: of laws whose shares move a little, and of equal shares of values that
come and go. The latter change by a factor of about ln v."""


def window(start: int) -> Batch:
    return Batch(WINDOW, tuple(Column(STREAM[start : start + WINDOW, j].copy()) for j in range(2)))


def advance(made, start: int, version: int) -> None:
    counts = count_batch(window(start), [len(TAU)] * 2)
    made.restore(made.snapshot_of(made.compute(counts, version=version)))


def channel(made) -> dict[int, np.ndarray]:
    """P(mask | value), dense over all concepts, of the values of the first window."""
    values = np.unique(STREAM[:WINDOW, 0])
    found = made.attribute_channel(0, values, None)
    dense = np.zeros((values.size, len(TAU)))
    masks = np.flatnonzero(found.class_of >= 0)
    dense[:, masks] = found.rows[:, found.class_of[masks]]
    return dict(zip(values.tolist(), dense, strict=True))


@pytest.mark.parametrize(
    ("name", "most"), [("pram", SMOOTH), ("naive_distortion", EQUAL), ("probabilistic_distortion", SMOOTH)]
)
def test_few_masks_change_when_the_window_slides(name, most):
    """At most some times the total variation of the two channels, which is the least that any method can reach."""
    made = mechanism(name)({"a": TAU, "b": TAU}, seed=b"sixteen bytes...")
    codes = STREAM[:WINDOW, 0]
    masks, channels = [], []
    for version, start in enumerate((0, SLIDE), 1):
        advance(made, start, version)
        masks.append(made.mask_batch(window(0), KEYS).columns[0].codes)
        channels.append(channel(made))
    least = float(np.mean([np.abs(channels[0][a] - channels[1][a]).sum() / 2.0 for a in codes.tolist()]))
    changed = float((masks[0] != masks[1]).mean())
    assert least > 0.005
    assert least - 0.01 < changed < most * least
