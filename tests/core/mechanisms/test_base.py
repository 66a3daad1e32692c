"""What all mechanisms share: parameters, records, keys and the window."""

from __future__ import annotations

import numpy as np
import pytest
from support.channels import trained

from stream_masker.core.batch import Batch, Column
from stream_masker.core.mechanisms import Pram, mechanism
from stream_masker.core.ontology import Ontology
from stream_masker.core.random import FieldKeys
from stream_masker.errors import ParameterError, UnknownConceptError

SEED = b"the seed of the base"
TAU = Ontology.from_edges([(f"c{k}", "root") for k in range(9)]).taxonomy()
RECORDS = [{"one": f"c{k % 9}", "more": [f"c{k % 5}"] * (k % 3)} for k in range(30)]
KEYS = [b"%d" % k for k in range(30)]


def made(**options):
    return Pram({"one": TAU, "more": TAU}, **{"seed": SEED, **options})


@pytest.fixture
def calibrated():
    return trained(made(), RECORDS)


@pytest.mark.parametrize(
    ("kind", "given", "message"),
    [
        ("semantic_noise", {"alpha": "much"}, "alpha='much' is not allowed: use a number from 0.01 to 10"),
        ("semantic_noise", {"alpha": True}, "alpha=True is not allowed"),
        ("semantic_noise", {"correlated": "yes"}, "correlated is of type str: use a bool"),
        ("semantic_noise", {"rounding": "floor"}, "rounding='floor' is not allowed: use ceil or calibrated"),
        ("rank_swapping", {"k": 2.5}, "k=2.5 is not allowed: use a whole number"),
        ("rank_swapping", {"k": True}, "k=True is not allowed: use a whole number"),
        ("exponential", {"epsilon": float("inf")}, "epsilon=inf is not allowed"),
        ("pram", {"window": 0}, "window=0 is not allowed: use a whole number of 1 or more"),
        *(("pram", {"seed": seed}, "secret") for seed in (b"", "text", None)),
        ("semantic_noise", {"alpha": 0}, "alpha=0 is not allowed: use a number from 0.01 to 10"),
        ("semantic_noise", {"alpha": {"one": 0.3}}, r"alpha is given for 'one'.*one for each of \('one', 'more'\)"),
        ("semantic_noise", {"alpha": {"one": 0.3, "more": -1}}, "alpha of 'more'=-1"),
        ("semantic_noise", {"reference": "median"}, "reference='median'.*mean or pair or root"),
        ("semantic_noise", {"candidates": "observed", "rounding": "ceil"}, "not allowed with candidates='observed'"),
        ("semantic_noise", {"distance": "jaccard"}, "distance='jaccard'.*wu_palmer or log_taxonomic"),
        *(("semantic_transport", {"alpha": alpha}, "alpha") for alpha in (0.001, {"one": 1.0})),
        ("semantic_transport", {"sensitive": {"mine": 0.3}}, "give its limit and its roots"),
        ("semantic_transport", {"context": {"one": ["F", "M"]}}, "is masked"),
        ("exponential", {"epsilon": 0}, "from 1e-06 to 1000"),
        *(("pram", {"retention": retention}, r"from 0 to 0\.999") for retention in (1.0, -0.1, "much")),
        ("rank_swapping", {"k": 1}, "of 2 or more"),
        ("rank_swapping", {"algorithm": "4"}, "use fixed or dynamic or multivariate"),
        ("microaggregation", {"k": 1}, "k=1 is not allowed: use a whole number of 2 or more"),
        *((kind, {"threshold": 1.1}, "from 0 to 1") for kind in ("vicus", "random")),
        *((kind, {"k1": 0.5}, "from 1 to") for kind in ("vicus", "random")),
        ("vicus", {"c1": 1.5}, "from 0 to 1"),
        ("vicus", {"part_size": 0}, "whole number of 1 or more"),
    ],
)
def test_parameters_are_checked_by_their_types_and_limits(kind, given, message):
    with pytest.raises(ParameterError, match=message):
        mechanism(kind)({"one": TAU, "more": TAU}, **{"seed": SEED, **given})


@pytest.mark.parametrize(
    ("kind", "names", "given", "message"),
    [
        ("rank_swapping", "a", {"algorithm": "multivariate"}, "at least two attributes"),
        ("vicus", "a", {}, "at least two attributes"),
        ("random", "a", {}, "at least two attributes"),
        ("semantic_noise", "abc", {"reference": "pair"}, "needs two attributes of one taxonomy: use"),
    ],
)
def test_what_needs_another_number_of_attributes_is_refused(kind, names, given, message):
    with pytest.raises(ParameterError, match=message):
        mechanism(kind)(dict.fromkeys(names, TAU), seed=SEED, **given)


def test_parameters_are_known_and_attributes_keep_their_order():
    with pytest.raises(ParameterError, match="the mechanism has no parameter 'distence': use "):
        made(distence="wu_palmer")
    with pytest.raises(ParameterError, match="there is no attribute to mask"):
        Pram({}, seed=SEED)
    assert Pram(dict.fromkeys("bac", TAU), seed=SEED).attributes == ("b", "a", "c")


def test_learning_one_by_one_equals_learning_many_and_keeps_the_statistics(calibrated):
    single, before = made(), calibrated.snapshot()
    for record in RECORDS:
        assert single.learn_one(record) is None
    assert single.calibrate().to_dict() == calibrated.statistics.to_dict()
    assert calibrated.learn_many(RECORDS) is None
    assert calibrated.snapshot() == before
    assert (calibrated.statistics.version, calibrated.statistics.records) == (1, 30)
    assert (calibrated.calibrate().version, calibrated.statistics.records) == (2, 60)


@pytest.mark.parametrize("bad", [{"one": "a secret"}, {"more": ["c0", "a secret"]}])
def test_errors_name_the_record_of_an_unknown_value_but_not_the_value(calibrated, bad):
    for attempt in (
        lambda: calibrated.mask_many([*RECORDS[:2], bad], keys=KEYS[:3]),
        lambda: calibrated.learn_many([*RECORDS[:2], bad]),
    ):
        with pytest.raises(UnknownConceptError) as caught:
            attempt()
        assert caught.value.position == 2
        assert "secret" not in str(caught.value)


@pytest.mark.parametrize("bad", [7, 1.5, {"code": "c0"}, ["c0", None], [["c0"]], b"c0"])
def test_a_value_of_another_type_is_rejected(calibrated, bad):
    with pytest.raises(ParameterError, match="record 0"):
        calibrated.encode([{"more": bad}])


def test_what_does_not_fit_together_is_rejected(calibrated):
    with pytest.raises(ParameterError, match="record 1"):
        calibrated.encode([{"more": ["c0"]}, {"more": "c0"}])
    with pytest.raises(ParameterError, match="keys"):
        calibrated.mask_many(RECORDS, keys=KEYS[1:])
    with pytest.raises(ParameterError, match="columns"):
        calibrated.mask_batch(Batch(1, (Column(np.zeros(1, np.int32)),)), FieldKeys(SEED, [b"k"]))
