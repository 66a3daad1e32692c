"""Masks of two versions whose windows differ a little: few change, compared with what no method can avoid."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from stream_masker import Ontology, SemanticTransport
from stream_masker.core.batch import Batch, Column
from stream_masker.core.random import FieldKeys
from stream_masker.core.statistics import count_batch

TAU = Ontology.from_edges(
    [(f"b{i}", "root") for i in range(6)] + [(f"l{i}{k}", f"b{i}") for i in range(6) for k in range(6)]
).taxonomy()
VALUES = TAU.encode([f"l{i}{k}" for i in range(6) for k in range(6)])
WINDOW, SLIDE, RECORDS = 4_000, 400, 40_000
ENUMERATED = 1500
"""The number of records whose channels are compared."""
NAMES = ("a", "b", "c")
RNG = np.random.default_rng(5)
LAW = RNG.dirichlet(np.ones(VALUES.size))


def stream(attributes: int) -> list[np.ndarray]:
    """Codes of each attribute: those of the others are often that of the first."""
    first = RNG.choice(VALUES.size, WINDOW + SLIDE, p=LAW)
    others = [
        np.where(RNG.random(first.size) < 0.5, first, RNG.choice(VALUES.size, first.size, p=LAW))
        for _ in range(attributes - 1)
    ]
    return [VALUES[column].astype(np.int32) for column in (first, *others)]


def version_of(codes: list[np.ndarray], start: int) -> SemanticTransport:
    columns = tuple(Column(column[start : start + WINDOW]) for column in codes)
    made = SemanticTransport(
        dict.fromkeys(NAMES[: len(codes)], TAU), target={"alpha": 0.5}, least=1, seed=b"sixteen bytes, more"
    )
    counts = count_batch(Batch(WINDOW, columns), [len(TAU)] * len(codes))
    made.restore(made.snapshot_of(made.compute(counts, version=1)))
    return made


def channels(made: SemanticTransport, records: np.ndarray) -> Iterator[np.ndarray]:
    """P(masks | record), dense over all concepts of each attribute, of some records of one or two attributes."""
    prepared = made._prepared_statistics()
    scaling = prepared.solution()
    kernels = scaling.kernels
    positions = [values.positions for values in prepared.values]
    positions += [np.zeros(1, np.int32)] * (2 - len(positions))
    indices = [values.index_of for values in prepared.values] + [np.zeros(1, np.int32)] * (2 - len(prepared.values))
    table = scaling.problem.table
    assert not any(each.values.size for each in scaling.binding)
    for record in records:
        a, b = (int(index[x]) for index, x in zip(indices, (*record, 0), strict=False))
        weights = kernels.first[a, table.rows].astype(float) * kernels.second[b, table.columns] * scaling.psi
        dense = np.zeros((len(TAU), len(TAU)))
        dense[positions[0][table.rows], positions[1][table.columns]] = weights / weights.sum()
        yield dense


@pytest.mark.parametrize("attributes", [1, 2])
def test_few_masks_change_when_the_window_slides(attributes):
    """About twice the total variation of the two channels at most, which is the least that any method can reach."""
    codes = stream(attributes)
    versions = [version_of(codes, start) for start in (0, SLIDE)]
    both = np.stack([column[SLIDE:WINDOW] for column in codes])
    records = both[:, RNG.integers(both.shape[1], size=RECORDS)]
    keys = FieldKeys(b"secret", [b"%d" % i for i in range(RECORDS)])
    batch = Batch(RECORDS, tuple(Column(np.ascontiguousarray(column)) for column in records))
    masks = [np.stack([column.codes for column in made.mask_batch(batch, keys).columns]) for made in versions]
    changed = float((masks[0] != masks[1]).any(axis=0).mean())
    chosen = records[:, :ENUMERATED].T
    one, other = (channels(made, chosen) for made in versions)
    least = float(np.mean([np.abs(a - b).sum() / 2.0 for a, b in zip(one, other, strict=True)]))
    assert least - 0.005 < changed < 2.2 * least
