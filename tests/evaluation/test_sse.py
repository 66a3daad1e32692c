"""SSE by k and variant: literal sums, and the comparison of 2013 on real discharges."""

import numpy as np
import pytest
from support.data import discharges, icd9cm

from stream_masker.core.batch import Batch, Column, MaskedBatch
from stream_masker.core.distance import LogTaxonomic
from stream_masker.core.numeric import Numeric
from stream_masker.core.ontology import ConceptMap, Ontology
from stream_masker.errors import ParameterError
from stream_masker.evaluation.dataset import DataSet, sum_of_squared_errors
from stream_masker.evaluation.grouped import sse_row

pytestmark = pytest.mark.scheduled

TAU = Ontology.from_edges([("a", "r"), ("b", "r"), ("a0", "a"), ("a1", "a"), ("b0", "b")]).taxonomy()
D = LogTaxonomic(TAU)
SECRET = b"sixteen bytes or more"


def column(*codes):
    return Column(np.array(codes, np.int32))


def test_sse_is_the_sum_of_squared_distances():
    before = Batch(3, (column(3, 4, -1),), numeric=np.array([[1.0, np.nan], [2.0, 5.0], [3.0, 6.0]]))
    after = MaskedBatch((column(4, 4, -1),), (), np.array([[2.0, np.nan], [2.0, 7.0], [1.0, 6.0]]))
    found = sum_of_squared_errors(before, after, [D])
    assert found == pytest.approx([D(TAU.ids[3], TAU.ids[4]) ** 2, 5.0, 4.0])
    with pytest.raises(ParameterError, match=r"^the masked batch does not have the records of the original one$"):
        sum_of_squared_errors(before, MaskedBatch((column(1),), ()), [D])


def test_a_row_names_its_k_and_variant():
    rng = np.random.default_rng(2)
    batch = Batch(40, (column(*rng.integers(1, 6, 40)),), numeric=rng.random((40, 1)) * 9e6)
    data = DataSet((batch,), {"x": TAU}, SECRET, {"charge": Numeric()})
    rows = [sse_row(data, k, variant) for k in (2, 8) for variant in ("classic", "semantic")]
    assert [(row.k, row.variant) for row in rows] == [(2, "classic"), (2, "semantic"), (8, "classic"), (8, "semantic")]
    assert all(list(row.sse) == ["x", "charge"] for row in rows)
    assert all(row.anonymity >= row.k for row in rows)


KINDS = {
    "age": Numeric(minimum=0, maximum=100, integer=True),
    "stay": Numeric(minimum=1, integer=True),
    "drugs": Numeric(minimum=0, integer=True),
}


@pytest.fixture(scope="module", params=["140-239", "520-579"], ids=["neoplasm", "digestive"])
def chapter(request):
    """Real discharges with a principal diagnosis in one chapter: the taxonomy, codes and numbers."""
    onto = icd9cm()
    whole, tau = onto.taxonomy(), onto.taxonomy(root=request.param)
    concepts = ConceptMap(whole, unknown="ancestor", ontology=onto)
    found = [(concepts.find(row["diag_1"]).position, row) for row in discharges()]
    chosen = [(whole.ids[p], row) for p, row in found if p >= 0 and whole.ids[p] in tau]
    numbers = [
        (int(row["age"][1:].split("-")[0]) + 5, int(row["time_in_hospital"]), int(row["num_medications"]))
        for _, row in chosen
    ]
    return tau, tau.encode([code for code, _ in chosen]), np.array(numbers, float)


def by_variant(data, ks):
    return [[sse_row(data, k, variant) for k in ks] for variant in ("classic", "semantic")]


def sse_of(rows, name):
    return [row.sse[name] for row in rows]


def test_marginality_has_a_smaller_error_for_a_single_diagnosis(chapter):
    """2013, tables 4 and 5: less than 3/4 of the classic error for k ≥ 4 (printed: 67% to 24%)."""
    tau, codes, _ = chapter
    data = DataSet((Batch(len(codes), (Column(codes),)),), {"code": tau}, SECRET)
    rows = by_variant(data, (2, 4, 12, 20))
    classic, semantic = (sse_of(variant, "code") for variant in rows)
    assert all(row.anonymity >= row.k for variant in rows for row in variant)
    assert semantic[0] <= classic[0]
    assert all(s < 0.75 * c for s, c in zip(semantic[1:], classic[1:], strict=True))
    assert classic == sorted(classic)


def test_with_numbers_it_has_a_smaller_error_for_the_diagnosis_and_the_same_for_numbers(chapter):
    """2013, tables 2 and 3, with equation 7 as printed: numeric errors are almost equal, others smaller."""
    tau, codes, numbers = chapter
    batch = Batch(len(codes), (Column(codes),), numeric=numbers)
    rows = by_variant(DataSet((batch,), {"code": tau}, SECRET, KINDS), (4, 12))
    classic, semantic = (sse_of(variant, "code") for variant in rows)
    assert all(s < c for s, c in zip(semantic, classic, strict=True))
    for name in KINDS:
        np.testing.assert_allclose(*(sse_of(variant, name) for variant in rows), rtol=0.05)


def test_balanced_weights_reduce_the_error_of_the_diagnosis(chapter):
    tau, codes, numbers = chapter
    batch = Batch(len(codes), (Column(codes),), numeric=numbers)
    data = DataSet((batch,), {"code": tau}, SECRET, KINDS)
    paper, balanced = (sse_row(data, 5, "semantic", scaling=scaling) for scaling in ("paper", "balanced"))
    assert balanced.sse["code"] < paper.sse["code"] / 5
