"""The vulnerability after repeats, against enumeration and against an attack on masked groups."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from stream_masker.core.batch import Batch, Column
from stream_masker.core.mechanisms import MECHANISMS, Exponential, Microaggregation, RankSwapping, SemanticNoise
from stream_masker.core.ontology import Ontology
from stream_masker.core.random import FieldKeys
from stream_masker.core.risk.repeats import TrialRows, learned_rows, repeated_vulnerability
from stream_masker.core.risk.sampling import hoeffding_bound

PRIOR = np.array([0.5, 0.3, 0.2])
ROWS = np.array([[0.7, 0.2, 0.1, 0.0], [0.2, 0.6, 0.1, 0.1], [0.1, 0.1, 0.6, 0.2]])
WIDE = Ontology.from_edges(
    [(f"b{i}", "root") for i in range(4)] + [(f"l{i}{j}", f"b{i}") for i in range(4) for j in range(5)]
).taxonomy()
DRAWS = 4_000
SEED = b"the seed of the repeats"


def enumerated(repeats):
    """Return Σ over all sequences of masks of max_a p(a)·Π P(a* | a)."""
    masks = product(range(ROWS.shape[1]), repeat=repeats)
    return sum(float((PRIOR * ROWS[:, list(m)].prod(axis=1)).max()) for m in masks)


@pytest.mark.parametrize("repeats", [1, 2, 5])
def test_it_agrees_with_enumeration(repeats):
    found = repeated_vulnerability(PRIOR, TrialRows(ROWS), repeats=repeats, draws=DRAWS)
    assert found == pytest.approx(enumerated(repeats), abs=hoeffding_bound(DRAWS, 1e-4))


@pytest.mark.parametrize("repeats", [1, 5])
def test_an_attacker_who_knows_little_guesses_less(repeats):
    seen = np.rint(ROWS * 100_000).astype(np.int64)
    whole = repeated_vulnerability(PRIOR, TrialRows(ROWS, seen), repeats=repeats, draws=DRAWS)
    assert whole == pytest.approx(enumerated(repeats), abs=hoeffding_bound(DRAWS, 1e-4))
    none = repeated_vulnerability(PRIOR, TrialRows(np.full_like(ROWS, 0.25), seen), repeats=repeats, draws=DRAWS)
    assert none == pytest.approx(0.5, abs=hoeffding_bound(DRAWS, 1e-4))


def test_a_value_without_observations_is_guessed_by_its_prior():
    rows = TrialRows(ROWS, np.zeros((3, 4), np.int64))
    found = repeated_vulnerability(PRIOR, rows, repeats=5, draws=DRAWS)
    assert found == pytest.approx(0.5, abs=hoeffding_bound(DRAWS, 1e-4))


def test_an_attacker_learns_the_channel_of_many_observations():
    counts = np.random.default_rng(2).multinomial(50_000, ROWS)
    assert learned_rows(counts) == pytest.approx(ROWS, abs=0.01)


def test_few_observations_exclude_no_value():
    learned = learned_rows(np.array([[90, 10, 0], [0, 1, 0], [0, 0, 0]]))
    assert (learned > 0.0).all()
    assert learned.sum(axis=1) == pytest.approx(np.ones(3))


def records(size=600):
    rng = np.random.default_rng(4)
    leaves = [value for value in WIDE.ids if value.startswith("l")]
    shares = np.arange(1, len(leaves) + 1) / sum(range(1, len(leaves) + 1))
    return [{"a": str(value)} for value in rng.choice(leaves, size, p=shares)]


def calibrated(made):
    made.learn_many(records())
    made.calibrate()
    return made


@pytest.mark.usefixtures("few_groups")
@pytest.mark.parametrize("name", sorted(MECHANISMS))
def test_each_repeat_tells_more(name):
    taxonomies = {"a": WIDE, "b": WIDE}
    made = MECHANISMS[name](taxonomies, seed=SEED)
    made.learn_many([{**record, "b": record["a"]} for record in records()])
    made.calibrate()
    once, often = (made.repeated_risk(repeats=n, draws=1_000) for n in (1, 8))
    for attribute in made.attributes:
        assert often.given_value[attribute] >= once.given_value[attribute] - 2 * once.bound
        assert once.given_value[attribute] <= made.risk(draws=50).vulnerability[attribute] + once.bound
    assert (once.given_record is None) == made.needs_group


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "made",
    [
        RankSwapping({"a": WIDE}, k=4, group_records=50, seed=SEED),
        Microaggregation({"a": WIDE}, k=3, group_records=50, seed=SEED),
    ],
    ids=["rank swapping", "microaggregation"],
)
@pytest.mark.parametrize("repeats", [pytest.param(1, marks=pytest.mark.scheduled), 5])
def test_it_is_what_an_attacker_reaches_who_sees_a_person_in_several_groups(made, repeats):
    """A person's code, under one noise key, is masked with other records in each version.

    The attacker has masked groups of their own, and guesses the most likely code. Scheduled: a single version.
    """
    calibrated(made)
    codes = made.encode(records()).columns[0].codes
    rng, seen = np.random.default_rng(8), np.zeros((len(WIDE), len(WIDE)))
    for trial in range(300):
        group = rng.choice(codes, 50)
        np.add.at(seen, (group, masks_of(made, group, b"trial %d" % trial)), 1.0)
    known = (seen + 0.01) / (seen + 0.01).sum(axis=1, keepdims=True)
    prior = np.bincount(codes, minlength=len(WIDE)) / codes.size
    right, people = 0, 600
    for person in range(people):
        code, posterior = int(rng.choice(codes)), prior.copy()
        for version in range(repeats):
            group = np.concatenate(([code], rng.choice(codes, 49)))
            posterior *= known[:, masks_of(made, group, b"person %d" % person, b"version %d" % version)[0]]
            posterior /= posterior.sum()
        right += int(posterior.argmax()) == code
    found = made.repeated_risk(repeats=repeats, draws=2_000).given_value["a"]
    assert right / people == pytest.approx(found, abs=0.08)


def masks_of(made, group, person, version=b""):
    """Return the masks of a group whose first record has the key of a person, whatever the version."""
    keys = FieldKeys(SEED, [person, *(b"%d %b %b" % (i, person, version) for i in range(1, group.size))])
    return made.mask_batch(Batch(group.size, (Column(group.astype(np.int32)),)), keys).columns[0].codes


@pytest.mark.parametrize(
    "made", [SemanticNoise({"a": WIDE}, alpha=0.3, seed=SEED), Exponential({"a": WIDE}, epsilon=5.0, seed=SEED)]
)
def test_records_of_one_attribute_tell_as_much_as_its_masks(made):
    found = calibrated(made).repeated_risk(repeats=3, draws=1_000)
    assert found.given_record["a"] == pytest.approx(found.given_value["a"], abs=2 * found.bound)
