"""The disclosure risk of a tiny world, against the enumeration of every record and every masked record.

An attacker who knows P(record) and P(masked record | record) guesses. Everything here is a sum over a dictionary of
joint probabilities; the package computes the same from arrays, classes and draws.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import product

import numpy as np
import pytest
from support.channels import channel, trained

from stream_masker import Exponential, Ontology, Pram, SemanticNoise

SEED = b"the seed of the twin"
TREE = [
    *(("A", "all"), ("B", "all"), ("A1", "A"), ("B1", "B")),
    *(("B20", "A1"), ("A12", "A1"), ("B11", "B1"), ("B12", "B1")),
]
GRAPH = [*TREE, ("A12", "B1"), ("B11", "A1")]
HIV = {"B20"}
CODES = ("B20", "A12", "B11", "B")
"""The values of the window: three leaves, of which one is sensitive, and a concept above the blocks."""


def taxonomy(links):
    return Ontology.from_edges(links).taxonomy()


TAXONOMIES = {"tree": taxonomy(TREE), "graph": taxonomy(GRAPH)}
MECHANISMS = {
    "pram": lambda taxonomies: Pram(taxonomies, retention=0.6, seed=SEED),
    "exponential": lambda taxonomies: Exponential(taxonomies, epsilon=4.0, seed=SEED),
    "noise": lambda taxonomies: SemanticNoise(taxonomies, correlated=False, reference="root", alpha=1.0, seed=SEED),
}


def pairs():
    """The records of the window, as pairs of codes; the second code depends on the first."""
    rng = np.random.default_rng(11)
    first = rng.choice(4, 90, p=[0.4, 0.3, 0.2, 0.1])
    return [(CODES[i], CODES[(i + j) % 4]) for i, j in zip(first, rng.choice(3, 90, p=[0.6, 0.3, 0.1]), strict=True)]


def calibrated(name, tau, records):
    return trained(MECHANISMS[name](dict.fromkeys(records[0], tau)), records)


def channels(made, attribute, values):
    return {value: channel(made, attribute, value) for value in values}


def shares(values):
    values = list(values)
    return {value: count / len(values) for value, count in Counter(values).items()}


def kinds_at(tau, depth):
    """Return a function from a code to the concepts of a depth above it, or to itself if it is above the depth."""

    def kinds(code):
        if tau.depth[tau.position(code)] < depth:
            return {code}
        return {concept for concept in tau.ancestors_of(code) if tau.depth[tau.position(concept)] == depth}

    return kinds


def guesses(joint, kinds):
    """V, the greatest posterior, the likely and the certain share; ``joint``: P(original, seen) by both."""
    mass = defaultdict(lambda: defaultdict(float))
    total = defaultdict(float)
    for (original, seen), p in joint.items():
        total[seen] += p
        for kind in kinds(original):
            mass[seen][kind] += p
    best = {seen: max(mass[seen].values(), default=0.0) for seen in total if total[seen] > 0.0}
    posterior = {seen: best[seen] / total[seen] for seen in best}
    return (
        sum(best.values()),
        max(posterior.values()),
        sum(total[seen] for seen, p in posterior.items() if p > 0.5 + 1e-6),
        sum(total[seen] for seen, p in posterior.items() if p > 0.9 + 1e-6),
    )


def assert_equal(learned, joint, tau, tolerance=1e-9, *, greatest=True):
    """Compare what an attacker learns with the enumeration; ``greatest``: whether all that can be seen was drawn."""
    found = {"code": learned, **learned.levels, **learned.sensitive}
    levels = {"code": lambda code: {code}, "block": kinds_at(tau, 3), "chapter": kinds_at(tau, 2)}
    levels |= {"hiv": lambda code: HIV & {code}}
    assert levels.keys() == found.keys()
    for level, kinds in levels.items():
        guess = found[level]
        chance, surest, likely, certain = guesses(joint, kinds)
        assert guess.vulnerability == pytest.approx(chance, abs=tolerance), level
        assert guess.likely == pytest.approx(likely, abs=tolerance), level
        assert guess.certain == pytest.approx(certain, abs=tolerance), level
        assert guess.greatest <= surest + 1e-9, level
        assert not greatest or guess.greatest == pytest.approx(surest), level
        without = {(code, ""): sum(p for (original, _), p in joint.items() if original == code) for code in CODES}
        assert guess.prior == pytest.approx(guesses(without, kinds)[0]), level


@pytest.fixture(scope="module", params=[(n, t) for n in MECHANISMS for t in TAXONOMIES], ids="-".join)
def world(request):
    name, which = request.param
    tau = TAXONOMIES[which]
    made = calibrated(name, tau, [{"a": a, "b": b} for a, b in pairs()])
    return made, tau


def test_the_figures_of_a_value_are_those_of_all_of_its_masks(world):
    made, tau = world
    risk = made.risk(draws=10)
    for place, name in enumerate("ab"):
        law = shares(pair[place] for pair in pairs())
        rows = channels(made, name, law)
        joint = {(a, c): law[a] * p for a in law for c, p in rows[a].items()}
        assert_equal(risk.value[name], joint, tau)
        assert risk.value[name].error == 0.0
        assert risk.unchanged[name] == pytest.approx(sum(law[a] * rows[a][a] for a in law))
        squares = sum(p * made.distances[place](a, c) ** 2 for (a, c), p in joint.items())
        assert risk.rmse[name] == pytest.approx(squares**0.5)


def joint_of_records(made):
    """P(pair, masked pair), of masks that are independent given the pair."""
    law = shares(pairs())
    rows = [channels(made, name, CODES) for name in "ab"]
    return {
        (pair, masks): p * rows[0][pair[0]].get(masks[0], 0.0) * rows[1][pair[1]].get(masks[1], 0.0)
        for pair, p in law.items()
        for masks in product(rows[0][pair[0]], rows[1][pair[1]])
    }


def reduced(joint, place):
    """The joint law of one value of the originals and all masks."""
    law = defaultdict(float)
    for (original, seen), p in joint.items():
        law[original[place], seen] += p
    return law


def test_the_figures_of_a_record_are_those_of_all_masks_up_to_the_error(world):
    made, tau = world
    joint, risk = joint_of_records(made), made.risk(draws=6000)
    for place, name in enumerate("ab"):
        learned = risk.record[name]
        assert 0.0 < learned.error < 0.02
        assert_equal(learned, reduced(joint, place), tau, learned.error, greatest=False)
    same = sum(p for (original, seen), p in joint.items() if original == seen)
    assert risk.unchanged_records == pytest.approx(same, abs=risk.record["a"].error)


EVENTS = (("B20", 1), ("A12", 2), ("B20", 2), ("B11", 1), ("B20", 2), ("A12", 1), ("B11", 2))


def events():
    """Records of a scalar and one or two elements, which depend on it."""
    codes = iter(np.random.default_rng(3).choice(CODES[:3], 12 * len(EVENTS)).tolist())
    return [{"a": a, "b": [next(codes) if k else a for k in range(n)]} for a, n in EVENTS * 6]


@pytest.mark.parametrize("swapped", [False, True])
def test_the_figures_of_an_event_are_those_of_the_masks_of_all_elements(swapped):
    tau = TAXONOMIES["tree"]
    scalar, array = ("b", "a") if swapped else ("a", "b")
    records = [{scalar: record["a"], array: record["b"]} for record in events()]
    made = calibrated("pram", tau, [{name: record[name] for name in "ab"} for record in records])
    rows = [channels(made, name, CODES[:3]) for name in (scalar, array)]
    both = shares((record["a"], b) for record in events() for b in record["b"])
    prior = defaultdict(float)
    for (a, _), p in both.items():
        prior[a] += p
    lengths = shares(len(record["b"]) for record in events())
    mean = sum(n * p for n, p in lengths.items())
    of_scalar, of_element = defaultdict(float), defaultdict(float)
    for n, share in lengths.items():
        for a, *elements in product(prior, *[CODES[:3]] * n):
            p = prior[a] * np.prod([both.get((a, b), 0.0) / prior[a] for b in elements])
            for seen in product(rows[0][a], *[rows[1][b] for b in elements]):
                masks = [rows[1][b][c] for b, c in zip(elements, seen[1:], strict=True)]
                chance = p * rows[0][a][seen[0]] * np.prod(masks)
                of_scalar[a, seen] += share * chance
                for k, b in enumerate(elements):
                    of_element[b, (k, seen)] += share * chance / mean
    risk = made.risk(draws=4000)
    assert risk.record[scalar].vulnerability == pytest.approx(guesses(of_scalar, lambda a: {a})[0], abs=0.02)
    assert risk.record[array].vulnerability == pytest.approx(guesses(of_element, lambda b: {b})[0], abs=0.02)
