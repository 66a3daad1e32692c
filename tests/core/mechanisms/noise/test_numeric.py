"""Numeric attributes together with nominal ones: what noise keeps, and what is refused (2017: section 3)."""

import json

import numpy as np
import pytest
from support.data import discharges

from stream_masker import Ontology, SemanticNoise
from stream_masker.core.mechanisms.encoding import encode_numbers
from stream_masker.core.numeric import Numeric
from stream_masker.core.random import FieldKeys
from stream_masker.errors import ParameterError, StatisticsError

RNG = np.random.default_rng(4)
TAU = Ontology.from_edges([(f"c{k}", f"c{RNG.integers(0, k)}") for k in range(1, 30)]).taxonomy()
SIZE = 20_000
ATTRIBUTES = {"age": Numeric(), "charge": Numeric(), "stay": Numeric()}
SEED = b"sixteen bytes or more"


def table(n=SIZE):
    age = RNG.normal(60, 18, n)
    return np.column_stack((age, 100 * age + RNG.normal(0, 900, n), RNG.exponential(4, n) + age / 30))


VALUES = table()
RECORDS = [dict(zip(ATTRIBUTES, row, strict=True)) for row in VALUES.tolist()]
KEYS = [b"%d" % k for k in range(SIZE)]


def noise(attributes=None, taxonomies=None, **parameters):
    return SemanticNoise(
        taxonomies or {},
        **{"numeric": ATTRIBUTES if attributes is None else attributes, "seed": SEED, "window": SIZE} | parameters,
    )


def ready(records=None, **parameters):
    made = noise(**parameters)
    made.learn_many(RECORDS if records is None else records)
    made.calibrate()
    return made


def masked(made, records=None, **given):
    records = RECORDS if records is None else records
    rows = made.mask_many(records, keys=KEYS[: len(records)], **given)
    return np.array([[np.nan if row[name] is None else row[name] for name in made.numeric_attributes] for row in rows])


def covariance(values):
    return np.cov(values.T, bias=True)


@pytest.mark.parametrize("distribution", ["normal", "laplace"])
@pytest.mark.parametrize(
    ("variant", "diagonal", "off"), [("correlated", 1.4, 1.4), ("kim", 1, 1), ("uncorrelated", 1.4, 1)]
)
def test_means_and_covariances_follow_the_paper(variant, diagonal, off, distribution):
    """2017: equations 4 and 8. Kim's transformation also preserves variances."""
    after = masked(ready(alpha=0.4, numeric_noise=variant, distribution=distribution))
    errors = 5 * np.sqrt(np.diag(covariance(VALUES)) / SIZE)
    assert (abs(after.mean(axis=0) - VALUES.mean(axis=0)) < errors).all()
    ratio = covariance(after) / covariance(VALUES)
    np.testing.assert_allclose(np.diag(ratio), diagonal, rtol=0.05)
    np.testing.assert_allclose(ratio[~np.eye(3, dtype=bool)], off, rtol=0.12)


def test_correlated_noise_keeps_correlations_and_uncorrelated_does_not():
    before = np.corrcoef(VALUES.T)
    kept = np.corrcoef(masked(ready(alpha=0.5)).T)
    lost = np.corrcoef(masked(ready(alpha=0.5, correlated=False)).T)
    np.testing.assert_allclose(kept, before, atol=0.02)
    assert lost[0, 1] == pytest.approx(before[0, 1] / 1.5, abs=0.02)


def test_the_noise_has_the_covariance_of_equation_7():
    """Σ_ε = α·Σ_X, and ε is independent of X (2017: equation 7)."""
    epsilon = masked(ready(alpha=0.4)) - VALUES
    np.testing.assert_allclose(covariance(epsilon), 0.4 * covariance(VALUES), rtol=0.06)
    together = np.corrcoef(np.column_stack((VALUES, epsilon)).T)
    assert abs(together[:3, 3:]).max() < 0.03


def test_laplace_noise_has_heavier_tails():
    normal, laplace = (masked(ready(alpha=0.4, distribution=name)) - VALUES for name in ("normal", "laplace"))
    fourth = [((e[:, 0] / e[:, 0].std()) ** 4).mean() for e in (normal, laplace)]
    assert fourth[0] == pytest.approx(3, abs=0.3)
    assert fourth[1] == pytest.approx(6, abs=1)


def test_attributes_and_records_can_have_their_own_alpha():
    levels = {"age": 0.1, "charge": 0.4, "stay": 0.9}
    epsilon = masked(ready(alpha=levels)) - VALUES
    np.testing.assert_allclose(epsilon.var(axis=0) / VALUES.var(axis=0), list(levels.values()), rtol=0.05)
    alphas = [2.0 if k % 2 else None for k in range(SIZE)]
    epsilon = masked(ready(alpha=levels), alpha=alphas) - VALUES
    np.testing.assert_allclose(epsilon[1::2].var(axis=0) / VALUES.var(axis=0), 2.0, rtol=0.06)
    np.testing.assert_allclose(epsilon[::2].var(axis=0) / VALUES.var(axis=0), list(levels.values()), rtol=0.06)


@pytest.mark.parametrize("variant", ["correlated", "kim", "uncorrelated"])
def test_bounds_and_whole_numbers_are_preserved(variant):
    attributes = {"age": Numeric(minimum=0, maximum=100, integer=True), "charge": Numeric(), "stay": Numeric(minimum=0)}
    whole = [{**record, "age": min(100, max(0, round(record["age"])))} for record in RECORDS]
    made = ready(whole, attributes=attributes, alpha=2, numeric_noise=variant)
    rows = made.mask_many(whole, keys=KEYS)
    ages = [row["age"] for row in rows]
    assert {type(age) for age in ages} == {int}
    assert min(ages) == 0
    assert max(ages) == 100
    assert min(row["stay"] for row in rows) == 0


@pytest.fixture
def mixed():
    attributes = {"age": Numeric(minimum=0, maximum=120, integer=True), "charge": Numeric()}
    records = [
        {
            "code": str(RNG.choice(TAU.ids)),
            "more": RNG.choice(TAU.ids, k % 3).tolist(),
            "age": k % 90,
            "charge": k * 1.5,
        }
        for k in range(200)
    ]
    records[3]["age"] = None
    del records[4]["charge"]
    records[5] = {}
    return ready(records, attributes=attributes, taxonomies={"code": TAU, "more": TAU}), records


def test_mixed_records_keep_their_shape(mixed):
    made, records = mixed
    assert made.attributes == ("code", "more")
    assert made.numeric_attributes == ("age", "charge")
    for record, row in zip(records, made.mask_many(records, keys=KEYS[:200]), strict=True):
        assert list(row) == ["code", "more", "age", "charge"]
        assert all(type(value) is type(record.get(name)) for name, value in row.items())


def test_one_record_is_masked_as_in_any_batch(mixed):
    made, records = mixed
    together = made.mask_many(records, keys=KEYS[:200])
    assert [made.mask_one(r, key=k) for r, k in zip(records, KEYS[:200], strict=True)] == together
    assert made.mask_many(records[::-1], keys=KEYS[:200][::-1]) == together[::-1]


def test_numeric_attributes_do_not_change_nominal_noise(mixed):
    made, records = mixed
    without = SemanticNoise({"code": TAU, "more": TAU}, seed=SEED)
    without.learn_many(records)
    without.calibrate()
    rows = made.mask_many(records, keys=KEYS[:200])
    for row, plain in zip(rows, without.mask_many(records, keys=KEYS[:200]), strict=True):
        assert (row["code"], row["more"]) == (plain["code"], plain["more"])


def test_a_snapshot_contains_the_numeric_statistics(mixed):
    made, records = mixed
    other = noise(attributes={"age": made._numeric["age"], "charge": Numeric()}, taxonomies={"code": TAU, "more": TAU})
    other.restore(json.loads(json.dumps(made.snapshot())))
    assert other.mask_many(records, keys=KEYS[:200]) == made.mask_many(records, keys=KEYS[:200])
    assert other.statistics.to_dict() == made.statistics.to_dict()
    for wrong in (noise(taxonomies={"code": TAU, "more": TAU}), SemanticNoise({"code": TAU, "more": TAU}, seed=SEED)):
        with pytest.raises(StatisticsError, match="numeric"):
            wrong.restore(made.snapshot())


def test_statistics_without_variance_are_rejected():
    with pytest.raises(StatisticsError, match="charge, stay: all values are equal"):
        ready([{"age": k, "charge": 1, "stay": 2} for k in range(9)])


def test_a_window_without_a_number_is_rejected():
    with pytest.raises(StatisticsError, match="no record of the window has a value of stay"):
        ready([{"age": k, "charge": k} for k in range(9)])


def test_a_broken_snapshot_is_rejected(mixed):
    made, _ = mixed
    good = made.snapshot()
    for change in ({"covariance": [[1.0]]}, {"mean": [0.0]}, {"mean": [float("nan"), 1.0]}, {"attributes": ["age"]}):
        numeric = {**good["statistics"]["numeric"], **change}
        with pytest.raises(StatisticsError):
            made.restore({**good, "statistics": {**good["statistics"], "numeric": numeric}})
    assert made.snapshot() == good


@pytest.mark.parametrize("value", ["34", True, [34], {"years": 34}, 34.5, 131, -1, float("nan"), float("inf"), 10**400])
def test_an_invalid_number_is_rejected_without_naming_it(value):
    attributes = {"age": Numeric(minimum=0, maximum=130, integer=True)}
    with pytest.raises(ParameterError, match="'age' of record 1") as caught:
        encode_numbers([{"age": 30}, {"age": value}], attributes)
    assert str(value) not in str(caught.value)


def test_whole_floats_are_whole_numbers():
    attributes = {"age": Numeric(integer=True)}
    assert encode_numbers([{"age": 30.0}, {}, {"age": None}, {"age": 7}], attributes)[[0, 3], 0].tolist() == [30.0, 7.0]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"numeric_noise": "loud"}, "correlated or uncorrelated or kim"),
        ({"alpha": {"age": 0.1}}, "give one number, or one for each"),
        ({"attributes": {"age": {"minimum": 0}}}, "use a Numeric"),
        (
            {"attributes": {"code": Numeric()}, "taxonomies": {"code": TAU}},
            "code: an attribute is either nominal, with a taxonomy, or numeric, not both",
        ),
    ],
)
def test_invalid_parameters_are_rejected(parameters, message):
    with pytest.raises(ParameterError, match=message):
        noise(**parameters)


def test_batches_without_the_numbers_are_rejected(mixed):
    made, records = mixed
    plain = SemanticNoise({"code": TAU, "more": TAU}, seed=SEED).encode(records)
    with pytest.raises(ParameterError, match="numeric column for each"):
        made.mask_batch(plain, FieldKeys(SEED, KEYS[:200]))


@pytest.mark.parametrize(("variant", "error"), [("correlated", 0.02), ("kim", 0.02), ("uncorrelated", 0.12)])
def test_real_discharges_keep_their_correlations_within_bounds(variant, error):
    """Days in hospital (1 to 14) and number of drugs: Pearson's ρ is 0.47; uncorrelated noise with α = 0.3 reduces
    it to 0.36.
    """
    attributes = {
        "time_in_hospital": Numeric(minimum=1, maximum=14, integer=True),
        "num_medications": Numeric(minimum=1, integer=True),
    }
    records = [{name: int(row[name]) for name in attributes} for row in discharges()[:SIZE]]
    before, after = (
        np.array([list(row.values()) for row in rows], float)
        for rows in (
            records,
            ready(records, attributes=attributes, numeric_noise=variant).mask_many(records, keys=KEYS),
        )
    )
    lost = np.corrcoef(before.T)[0, 1] - np.corrcoef(after.T)[0, 1]
    assert abs(lost) < error
    assert (lost > 0.08) == (variant == "uncorrelated")
