"""What masks tell of chapters, blocks and sensitive groups, against literal sums, an attack, and on real diagnoses."""

from __future__ import annotations

import numpy as np
import pytest
from support.data import icd9cm
from support.documentation import DOCS, ROOT
from support.real_codes import as_batch, real_pairs

from stream_masker import SemanticNoise, SemanticTransport
from stream_masker.core.distance import WuPalmer
from stream_masker.core.ontology import Ontology
from stream_masker.core.risk.meaning import Guess, MeaningRisk, Membership
from stream_masker.core.statistics import count_batch

GRAPH = Ontology.from_edges(
    [("a", "r"), ("b", "r"), ("a1", "a"), ("a2", "a"), ("ab", "a"), ("ab", "b"), ("b1", "b"), ("b11", "b1")]
).taxonomy()
SEED = b"a seed of many bytes"
SECURITY = (DOCS / "security.md").read_text()


def literal(joint, values, depth):
    """The best guess of an ancestor at a depth, by enumerating masks, guesses and originals."""

    def kinds(value):
        at = [c for c in GRAPH.ancestors_of(value) if GRAPH.depth[GRAPH.position(c)] == depth]
        return set(at) if GRAPH.depth[GRAPH.position(value)] >= depth else {value}

    guesses = set().union(*map(kinds, values))
    rows = list(zip(values, joint, strict=True))
    of_mask = [[sum(row[m] for v, row in rows if g in kinds(v)) for g in guesses] for m in range(joint.shape[1])]
    of_all = [sum(row.sum() for v, row in rows if g in kinds(v)) for g in guesses]
    greatest = max(max(each) / total for each, total in zip(of_mask, joint.sum(axis=0), strict=True))
    return Guess(*(pytest.approx(figure) for figure in (max(of_all), sum(map(max, of_mask)), greatest)))


def literal_within(joint, positions, radius):
    """The best guess of a value that is near the original, by enumerating masks, guesses and originals."""
    near = (WuPalmer(GRAPH).between(positions, positions) <= radius).astype(float)
    guesses = near @ joint
    figures = (near @ joint.sum(axis=1)).max(), guesses.max(axis=0).sum(), (guesses / joint.sum(axis=0)).max()
    return Guess(*map(pytest.approx, figures))


@pytest.mark.parametrize("seed", range(5))
def test_levels_equal_literal_sums_also_in_a_graph(seed):
    values = ["a", "a1", "a2", "ab", "b1", "b11"]
    joint = np.random.default_rng(seed).dirichlet(np.full(24, 0.4)).reshape(6, 4)
    positions = GRAPH.encode(values)
    assert MeaningRisk.of(WuPalmer(GRAPH), positions, joint).levels == {
        "chapter": literal(joint, values, 2),
        "block": literal(joint, values, 3),
        "within 0.25": literal_within(joint, positions, 0.25),
        "within 0.5": literal_within(joint, positions, 0.5),
    }


def test_a_mask_that_tells_nothing_leaves_the_prior():
    joint = np.full((6, 3), 1 / 18)
    found = MeaningRisk.of(WuPalmer(GRAPH), GRAPH.encode(["a", "a1", "a2", "ab", "b1", "b11"]), joint)
    guesses = found.levels.values()
    assert all((g.chance, g.certainty) == (pytest.approx(g.prior), pytest.approx(g.prior)) for g in guesses)


def test_an_identity_finds_every_kind_and_every_sensitive_value():
    tau = icd9cm().taxonomy()
    found = MeaningRisk.of(WuPalmer(tau), tau.encode(["042", "250.00", "296.20"]), np.diag([0.2, 0.5, 0.3]))
    assert {name: guess.chance for name, guess in found.levels.items()} == {"chapter": 1.0, "block": 1.0}
    assert found.sensitive == {"hiv": Membership(0.2, 1.0, 1.0), "mental_disorders": Membership(0.3, 1.0, 1.0)}


@pytest.fixture(scope="module")
def diagnoses():
    """The principal and the secondary diagnosis of all real discharges that have both."""
    return icd9cm().taxonomy(), as_batch(real_pairs())


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("name", "kind", "parameters"),
    [
        pytest.param(
            "transport, α = 0.3", SemanticTransport, {"alpha": 0.3, "certainty": 1.0}, marks=pytest.mark.scheduled
        ),
        ("transport, the default (α = 1, certainty 0.5)", SemanticTransport, {}),
        ("noise, `pair`, `ceil`, α = 0.3", SemanticNoise, {"reference": "pair"}),
    ],
)
def test_the_meaning_of_real_diagnoses_is_told_as_the_threat_model_says(diagnoses, name, kind, parameters):
    """Scheduled: the default method with other parameters."""
    tau, batch = diagnoses
    made = kind({"a": tau, "b": tau}, seed=SEED, **parameters)
    counts = count_batch(batch, [len(tau)] * 2)
    found = made.with_statistics(made.compute(counts, version=1), counts).risk(draws=100)
    meaning = found.meaning["a"]
    told = [found.prior["a"], *(meaning.levels[level].prior for level in ("block", "chapter"))]
    without = " | ".join(f"{figure:.2f}" for figure in told)
    assert f"| without masks | {without} | 0.00 | 0.00 |" in SECURITY
    figures = [
        found.vulnerability["a"],
        meaning.levels["block"].chance,
        meaning.levels["chapter"].chance,
        meaning.sensitive["hiv"].found,
        meaning.sensitive["mental_disorders"].found,
    ]
    if name != "transport, α = 0.3":
        chance, rmse = found.vulnerability["a"], found.rmse["a"]
        assert f"{100 * chance:.0f} % at an RMSE of {rmse:.2f}" in (ROOT / "README.md").read_text()
    if name.startswith("transport, the default"):
        code, block, chapter = (f"{100 * figure:.0f}" for figure in figures[:3])
        before = ", ".join(f"{100 * figure:.0f}" for figure in reversed(told[1:])) + f" and {100 * told[0]:.0f} %"
        guesses = f"the best guess of the chapter is right in {chapter} %, of the block in {block} % and of the code in"
        assert f"{guesses} {code} % of the cases with the default ({before} without masks)" in SECURITY
        assert f"(`rounding: ceil`) | {100 * found.unchanged['a']:.0f} % |" in (ROOT / "README.md").read_text()
    shown = " | ".join(f"{figure:.2f}" for figure in figures)
    assert f"| {name} | {shown} |" in SECURITY
