"""Semantic noise: parameters, references, noise levels of records, snapshots, and real discharges."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from support.data import icd9cm
from support.real_codes import as_batch, real_pairs
from support.single_calls import check_single_calls

from stream_masker.core.batch import Batch, Column
from stream_masker.core.distance import LogTaxonomic, WuPalmer
from stream_masker.core.mechanisms import SemanticNoise
from stream_masker.core.ontology import Ontology
from stream_masker.core.random import PositionKeys
from stream_masker.core.replacement.rule import NO_REFERENCE
from stream_masker.core.statistics import compute_statistics, count_batch
from stream_masker.errors import ParameterError, StatisticsError

SEED = b"sixteen bytes or more"
TREE = Ontology.from_edges(
    [(f"b{i}", "root") for i in range(4)] + [(f"l{i}{j}", f"b{i}") for i in range(4) for j in range(5)]
).taxonomy()
COMMON = [*[f"l0{j}" for j in range(5)] * 8, *TREE.ids]
"""Values most of which lie below b0, so that the mean is not the root."""
OTHER = Ontology.from_edges([("x", "other"), ("y", "other"), ("z", "x")]).taxonomy()


def build(names="ab", tau=TREE, **parameters) -> SemanticNoise:
    return SemanticNoise(dict.fromkeys(names, tau), **{"seed": SEED, **parameters})


def calibrated(names="ab", size=300, **parameters) -> SemanticNoise:
    noise = build(names, **parameters)
    rng = np.random.default_rng(1)
    noise.learn_many([{name: str(rng.choice(COMMON)) for name in names} for _ in range(size)])
    noise.calibrate()
    return noise


class Recorder:
    """Records the tasks of a replacer, and delegates to it."""

    def __init__(self, replacer):
        self.replacer = replacer
        self.tasks = []

    def replace(self, task):
        self.tasks.append(task)
        return self.replacer.replace(task)


def tasks_of(noise, records):
    """The replacement task of each attribute."""
    recorders = [Recorder(replacer) for replacer in noise._replacers]
    noise._replacers = tuple(recorders)
    noise.restore(noise.snapshot())
    noise.mask_many(records, keys=[b"%d" % k for k in range(len(records))])
    return [recorder.tasks[0] for recorder in recorders]


def references(noise, records):
    return [[None if r == NO_REFERENCE else TREE.ids[r] for r in task.references] for task in tasks_of(noise, records)]


def single_records(names):
    """Records with known scalars, and with a list of the last attribute."""
    rng = np.random.default_rng(3)
    scalars = [{name: str(rng.choice(TREE.ids)) for name in names} for _ in range(60)]
    lists = [{**record, names[-1]: rng.choice(TREE.ids, k % 4).tolist()} for k, record in enumerate(scalars)]
    return scalars + lists


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"names": "a"},
        {"names": "abc"},
        {"alpha": {"a": 1.0, "b": 0.1}, "correlated": False},
        {"reference": "mean", "rounding": "calibrated"},
        {"candidates": "observed"},
        {"candidates": "leaves", "distance": LogTaxonomic},
        {"names": "abcde", "reference": "mean"},
        {"distribution": "laplace"},
    ],
)
def test_a_single_call_writes_what_a_batch_does(parameters):
    noise = calibrated(**parameters)
    records = [*single_records(noise.attributes), dict.fromkeys(noise.attributes)]
    check_single_calls(noise, records, batchless=len(noise.attributes) < 5 and parameters.get("distribution") is None)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"alpha": 0}, r"alpha=0 of 'a'.*\[0.01, 10\]"),
        ({"alpha": 10.5}, r"alpha=10.5"),
        ({"alpha": float("nan")}, r"alpha=nan"),
        ({"alpha": True}, r"alpha=True"),
        ({"alpha": "much"}, r"alpha='much'"),
        ({"alpha": {"a": 0.3}}, r"alpha is given for 'a'.*one for each of \('a', 'b'\)"),
        ({"alpha": {"a": 0.3, "b": 0.3, "c": 0.3}}, r"alpha is given for"),
        ({"alpha": {"a": 0.3, "b": -1}}, r"alpha=-1 of 'b'"),
        ({"correlated": "yes"}, r"correlated is of type str: use a bool"),
        ({"reference": "median"}, r"reference='median'.*mean or pair or root"),
        ({"distribution": "cauchy"}, r"distribution='cauchy'.*normal or laplace"),
        ({"rounding": "floor"}, r"rounding='floor'.*calibrated or ceil"),
        ({"candidates": "some"}, r"candidates='some'.*all or leaves"),
        ({"distance": "jaccard"}, r"distance='jaccard'.*wu_palmer or log_taxonomic"),
        ({"window": 0}, r"window of 0"),
        ({"window_age": -1.0}, r"window age"),
        ({"rollup_depth": 0}, r"rollup_depth=0"),
        ({"reference": "mean", "pairs": [("a", "b")]}, r"only allowed with reference='pair'"),
        ({"reference": "pair", "pairs": [("a", "a")]}, r"exactly one pair"),
        ({"reference": "pair", "pairs": []}, r"exactly one pair"),
        ({"reference": "pair", "pairs": [("a", "c")]}, r"exactly one pair"),
    ],
)
def test_parameters_are_validated_at_construction(parameters, message):
    with pytest.raises(ParameterError, match=message):
        build(**parameters)


def test_taxonomies_must_be_taxonomies():
    with pytest.raises(ParameterError, match="the taxonomy of 'a' is of type Ontology: use a Taxonomy"):
        SemanticNoise({"a": Ontology.from_edges([("x", "y")])}, seed=SEED)


@pytest.mark.parametrize("parameters", [{"alpha": 10}, {"alpha": {"a": 0.1, "b": np.float32(1)}}, {"window_age": 60}])
def test_boundary_values_are_allowed(parameters):
    assert set(build(**parameters).alpha) == {"a", "b"}


@pytest.mark.parametrize(
    ("taxonomies", "parameters", "suggested"),
    [
        ({"a": TREE}, {}, "Uncorrelated-Algorithm1"),
        ({"a": TREE, "b": OTHER}, {}, "Correlated-Algorithm3"),
        ({"a": TREE, "b": TREE, "c": TREE}, {}, "Correlated-Algorithm3"),
        (
            {"a": TREE, "b": TREE, "c": TREE},
            {"pairs": [("a", "b"), ("b", "c")]},
            "Correlated-Algorithm1 to keep the sMean",
        ),
        ({"a": TREE, "b": TREE, "c": TREE, "d": TREE}, {"pairs": [("a", "b")]}, "Correlated-Algorithm3"),
        ({"a": TREE, "b": OTHER, "c": TREE, "d": OTHER}, {"pairs": [("a", "b"), ("c", "d")]}, "Correlated-Algorithm3"),
    ],
)
def test_errors_about_pairs_suggest_the_method_of_table_9(taxonomies, parameters, suggested):
    with pytest.raises(ParameterError, match=f"Table 9.*{suggested}"):
        SemanticNoise(taxonomies, reference="pair", seed=SEED, **parameters)


def test_equal_taxonomies_form_a_pair():
    again = Ontology.from_edges([(c, p) for c in TREE.ids for p in TREE.parents_of(c)]).taxonomy()
    assert again is not TREE
    assert SemanticNoise({"a": TREE, "b": again}, reference="pair", seed=SEED).attributes == ("a", "b")


def test_reference_mean_is_the_semantic_mean():
    noise = calibrated(reference="mean")
    records = [{"a": "l00", "b": ["l01", "l02"]}, {"a": None, "b": []}]
    mean = noise.statistics.mean
    assert references(noise, records) == [[mean["a"]] * 2, [mean["b"]] * 2]


def test_reference_root_is_the_root():
    assert references(calibrated(reference="root"), [{"a": "l00", "b": ["l01", "l02"]}]) == [["root"], ["root"] * 2]


def test_paired_scalars_are_mutual_references():
    records = [{"a": "l00", "b": "l11"}, {"a": "l01"}, {"b": "l12"}]
    assert references(calibrated(reference="pair"), records) == [["l11", None, "l12"], ["l00", "l01", None]]


def test_a_scalar_is_paired_with_all_elements_and_with_the_first():
    records = [{"a": "l00", "b": ["l01", "l02"]}, {"a": "l03", "b": []}, {"a": None, "b": ["l04"]}]
    for names in ("ab", "ba"):
        noise = calibrated(names, reference="pair")
        assert dict(zip(names, references(noise, records), strict=True)) == {
            "a": ["l01", None, "l04"],
            "b": ["l00", "l00", None],
        }


def test_pairs_can_be_configured():
    noise = calibrated("abcd", reference="pair", pairs=[("a", "d"), ("c", "b")])
    record = {"a": "l00", "b": "l11", "c": "l22", "d": "l33"}
    assert references(noise, [record]) == [["l33"], ["l22"], ["l11"], ["l00"]]


def test_two_arrays_cannot_be_correlated_or_paired():
    record = {"a": ["l00"], "b": ["l01"]}
    with pytest.raises(ParameterError, match="allows one array attribute, but a, b are arrays"):
        calibrated().mask_one(record, key=b"k")
    with pytest.raises(ParameterError, match="does not allow a pair of two arrays"):
        calibrated(correlated=False, reference="pair").mask_one(record, key=b"k")
    masked = calibrated(correlated=False, reference="mean").mask_one(record, key=b"k")
    assert [len(value) for value in masked.values()] == [1, 1]


def test_uncorrelated_noise_uses_svar_and_correlated_noise_sdvar():
    n = 20_000
    batch = Batch(n, tuple(Column(np.full(n, TREE.position("l00"), np.int32)) for _ in range(2)))
    for correlated in (False, True):
        noise = calibrated(correlated=correlated, alpha=0.5)
        squares = noise.mask_batch(batch, PositionKeys(SEED, "t", 0, np.arange(n))).distortions[0].squared_noise / n
        variances = np.diag(noise.statistics.covariance)[0], noise.statistics.variance["a"]
        assert abs(variances[0] / variances[1] - 1) > 0.15
        assert squares == pytest.approx(0.5 * variances[0 if correlated else 1], rel=0.05)


def test_each_attribute_has_its_own_alpha():
    n = 20_000
    batch = Batch(n, tuple(Column(np.full(n, TREE.position("l00"), np.int32)) for _ in range(2)))
    noise = calibrated(alpha={"a": 0.1, "b": 2.0})
    distortions = noise.mask_batch(batch, PositionKeys(SEED, "t", 0, np.arange(n))).distortions
    expected = np.array([0.1, 2.0]) * np.diag(noise.statistics.covariance)
    assert [distortion.squared_noise / n for distortion in distortions] == pytest.approx(expected.tolist(), rel=0.05)


def test_a_record_can_have_its_own_alpha():
    noise = calibrated()
    low, high = calibrated(alpha=0.2), calibrated(alpha=10.0)
    records = [{"a": "l00", "b": "l11"}] * 30
    keys = [b"%d" % k for k in range(30)]
    alpha = [0.2, 10.0, None] * 10
    masked = noise.mask_many(records, keys=keys, alpha=alpha)
    for k, record in enumerate(records):
        expected = {0.2: low, 10.0: high, None: noise}[alpha[k]].mask_one(record, key=keys[k])
        assert masked[k] == expected == noise.mask_one(record, key=keys[k], alpha=alpha[k])


@pytest.mark.parametrize("alpha", [0.0, -1.0, 10.01, float("inf")])
def test_an_alpha_out_of_range_is_named_by_its_record(alpha):
    with pytest.raises(ParameterError, match=r"the alpha of record 1 is not in \[0.01, 10\]"):
        calibrated().mask_many([{}, {}, {}], keys=[b"1", b"2", b"3"], alpha=[0.3, alpha, None])


def test_each_record_needs_an_alpha():
    with pytest.raises(ParameterError, match="1 alphas for 2 records"):
        calibrated().mask_many([{}, {}], keys=[b"1", b"2"], alpha=[0.3])


@pytest.mark.parametrize("correlated", [True, False])
def test_an_attribute_without_variance_is_rejected(correlated):
    noise = build(correlated=correlated)
    noise.learn_many([{"a": "l00", "b": "l11"}, {"a": "l00", "b": "l12"}])
    with pytest.raises(StatisticsError, match=r"^a: all values are equal"):
        noise.calibrate()
    with pytest.raises(StatisticsError, match="no statistics yet"):
        noise.mask_one({"a": "l01", "b": "l12"}, key=b"k")


def test_statistics_without_variance_are_not_put_in_force():
    noise = calibrated()
    before = noise.snapshot()
    constant = replace(noise.statistics, variance={**noise.statistics.variance, "b": 0.0})
    with pytest.raises(StatisticsError, match=r"^b: all values are equal"):
        noise.restore(noise.snapshot_of(constant))
    assert noise.snapshot() == before


def test_the_distance_is_a_name_or_a_class():
    by_name, by_class = calibrated(distance="log_taxonomic"), calibrated(distance=LogTaxonomic)
    assert by_name.statistics.to_dict() == by_class.statistics.to_dict() != calibrated().statistics.to_dict()
    assert all(type(d) is LogTaxonomic for d in by_class.distances)


def test_every_parameter_changes_the_result():
    """No parameter is ignored."""
    records = [{"a": f"l{k % 4}{k % 5}", "b": f"l{k % 3}{k % 5}"} for k in range(40)]
    keys = [b"%d" % k for k in range(40)]
    variants = [
        {},
        {"correlated": False},
        {"reference": "root"},
        {"reference": "mean"},
        {"distribution": "laplace"},
        {"rounding": "calibrated"},
        {"candidates": "leaves"},
        {"alpha": 1.0},
    ]
    outcomes = [str(calibrated(**variant).mask_many(records, keys=keys)) for variant in variants]
    assert len(set(outcomes)) == len(variants)


def test_observed_concepts_stay_observed():
    noise = build()
    noise.learn_many([{"a": "l00", "b": "l11"}, {"a": "l01", "b": "l12"}, {"a": "l00", "b": "l12"}])
    noise.calibrate()
    noise.learn_one({"a": "l33", "b": "l11"})
    assert noise.calibrate().novel["a"] == pytest.approx(1 / 4)


def test_an_array_can_be_absent_before_its_first_list():
    noise = build()
    for record in ({"a": "l00"}, {"a": "l00", "b": None}, {"a": "l01", "b": ["l11", "l12"]}, {"a": "l02", "b": []}):
        noise.learn_one(record)
    assert noise.calibrate().records == 4


def broken(change):
    snapshot = calibrated().snapshot()
    change(snapshot["statistics"])
    return snapshot


@pytest.mark.parametrize(
    "change",
    [
        lambda s: s["variance"].update(a=-0.1),
        lambda s: s["variance"].update(a=float("nan")),
        lambda s: s["covariance"][0].__setitem__(1, float("inf")),
        lambda s: s["covariance"][0].__setitem__(1, 0.5),
        lambda s: s.update(covariance=[[0.1, 0.3], [0.3, 0.1]]),
        lambda s: s["mean"].update(a="a concept of another taxonomy"),
        lambda s: s.update(attributes=["b", "a"]),
        lambda s: s.pop("seen"),
    ],
)
def test_broken_statistics_are_rejected(change):
    noise = calibrated()
    before = noise.snapshot()
    with pytest.raises(StatisticsError) as caught:
        noise.restore(broken(change))
    assert "a concept of" not in str(caught.value)
    assert noise.snapshot() == before


def test_a_masked_record_is_the_same_on_every_machine():
    """Pinned output: a change here changes every replay, so it must be intended."""
    noise = calibrated(reference="pair", alpha=1.0, rounding="calibrated")
    snapshot = noise.snapshot()
    snapshot["statistics"]["covariance"] = [[0.15, 0.05], [0.05, 0.12]]
    noise.restore(snapshot)
    record = {"a": "l00", "b": ["l00", "l01", "l11", "l22"]}
    assert [noise.mask_one(record, key=b"patient %d" % k) for k in range(3)] == [
        {"a": "b0", "b": ["l00", "l00", "b1", "l22"]},
        {"a": "l00", "b": ["l00", "b0", "l11", "l22"]},
        {"a": "b0", "b": ["l00", "root", "b3", "l00"]},
    ]


@pytest.fixture(scope="module")
def real():
    """20,000 real discharges with both codes."""
    return icd9cm().taxonomy(), as_batch(real_pairs()[:, :20_000])


@pytest.mark.parametrize("reference", ["mean", "pair", "root"])
def test_real_discharges_keep_their_correlation_and_get_the_requested_noise(real, reference):
    tau, batch = real
    distances = [WuPalmer(tau)] * 2
    names = ("diag_1", "diag_2")
    original = compute_statistics(count_batch(batch, [len(tau)] * 2), names, distances, version=1)
    ratio = {}
    for rounding in ("ceil", "calibrated"):
        noise = SemanticNoise(dict.fromkeys(names, tau), alpha=0.1, reference=reference, rounding=rounding, seed=SEED)
        noise.restore(noise.snapshot_of(original))
        masked = noise.mask_batch(batch, PositionKeys(SEED, "t", 0, np.arange(batch.size)))
        after = compute_statistics(
            count_batch(Batch(batch.size, masked.columns), [len(tau)] * 2), names, distances, version=1
        )
        distortion = masked.distortions[0]
        ratio[rounding] = np.sqrt(distortion.squared_distance / distortion.squared_noise)
        assert abs(after.correlation[0, 1] - original.correlation[0, 1]) < 0.12
    assert ratio["calibrated"] == pytest.approx(1.0, abs=0.02)
    assert 1.2 < ratio["ceil"] < 2.0


@pytest.mark.parametrize(
    ("taxonomies", "options", "expected"),
    [
        ({"a": TREE}, {}, {"correlated": False, "reference": "mean"}),
        ({"a": TREE, "b": TREE}, {}, {"correlated": True, "reference": "pair"}),
        ({"a": TREE, "b": TREE, "c": TREE}, {}, {"correlated": True, "reference": "root"}),
        ({"a": TREE, "b": OTHER}, {}, {"correlated": True, "reference": "root"}),
        ({"a": TREE, "b": TREE}, {"correlated": False}, {"correlated": False, "reference": "pair"}),
    ],
    ids=["one", "two", "three", "different", "given"],
)
def test_the_default_reference_is_that_of_the_attributes(taxonomies, options, expected):
    records = [{name: tau.ids[k * 3 % len(tau)] for name, tau in taxonomies.items()} for k in range(40)]
    outcomes = []
    for given in (options, expected):
        noise = SemanticNoise(taxonomies, **given, seed=SEED)
        noise.learn_many(records)
        noise.calibrate()
        outcomes.append(noise.mask_many(records, keys=[b"%d" % k for k in range(40)]))
    assert outcomes[0] == outcomes[1]
