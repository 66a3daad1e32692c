"""The utility table against the guarantees of the mechanism, on the real discharges."""

from __future__ import annotations

import numpy as np
import pytest
from support.data import discharges, icd9cm

from stream_masker.core.batch import Batch, Column
from stream_masker.core.ontology import UNKNOWN, ConceptMap
from stream_masker.evaluation.utility_table import utility_markdown, utility_rows

SECRET = b"sixteen bytes of it"


@pytest.fixture(scope="module")
def rows():
    tau = icd9cm().taxonomy()
    find = ConceptMap(tau, unknown="ancestor", ontology=icd9cm()).resolve
    found = [(find(row["diag_1"])[0], find(row["diag_2"])[0]) for row in discharges()[:20_000]]
    pairs = [pair for pair in found if UNKNOWN not in pair]
    batches = [_batch(pairs[:5_000]), _batch(pairs[5_000:])]
    return list(utility_rows(batches, {"a": tau, "b": tau}, secret=SECRET, alphas=(0.1, 0.5)))


def _batch(pairs):
    columns = np.array(pairs, dtype=np.int32).T
    return Batch(len(pairs), (Column(columns[0].copy()), Column(columns[1].copy())))


def test_calibrated_rounding_meets_the_target_error_and_ceil_exceeds_it(rows):
    assert len(rows) == 3 * 2 * 2
    for row in rows:
        ratios = [a.rmse_actual / a.rmse_target for a in row.utility.attributes.values()]
        if row.rounding == "calibrated":
            assert ratios == pytest.approx([1, 1], abs=0.03)
        else:
            assert min(ratios) > 1.15


def test_the_reference_pair_preserves_correlation_best_at_high_noise(rows):
    error = {
        (row.reference, row.rounding): row.utility.pairs["a", "b"].correlation_error for row in rows if row.alpha == 0.5
    }
    assert error["pair", "ceil"] < error["mean", "ceil"] < error["root", "ceil"]


def test_the_semantic_mean_is_preserved(rows):
    assert {a.mean_distance for row in rows for a in row.utility.attributes.values()} == {0.0}


def test_the_markdown_table_has_a_line_for_each_row(rows):
    lines = utility_markdown(rows).splitlines()
    assert len(lines) == 2 + len(rows)
    assert {line.count("|") for line in lines} == {lines[0].count("|")}
    assert lines[2].startswith("| mean | ceil | 0.1 | 0.00 | ")
