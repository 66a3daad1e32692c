"""The parameters of semantic transport that are not allowed."""

from __future__ import annotations

import pytest

from stream_masker import SemanticTransport
from stream_masker.core.ontology import Ontology
from stream_masker.errors import ParameterError

SEED = b"a seed of many bytes"


@pytest.fixture(scope="module")
def tau():
    return Ontology.from_edges([("c1", "c0"), ("c2", "c0")]).taxonomy()


@pytest.mark.parametrize(
    "target", [{}, {"alpha": 0}, {"alpha": 11}, {"alpha": 0.3, "rmse": 0.1}, {"noise": 1}, 0.3, {"epsilon": {"x0": 1}}]
)
def test_targets_that_are_not_allowed(tau, target):
    with pytest.raises(ParameterError, match=r"target|alpha|epsilon"):
        SemanticTransport({"x0": tau, "x1": tau}, target=target, seed=SEED)


@pytest.mark.parametrize("least", [0, 1.5, True])
def test_least_must_be_a_positive_whole_number(tau, least):
    with pytest.raises(ParameterError, match="least"):
        SemanticTransport({"x0": tau}, least=least, seed=SEED)
