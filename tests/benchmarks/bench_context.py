"""What a context keeps, and what it costs: the real discharges, masked by the default with several contexts.

For each context: codes of the other sex; the areas under the ROC curves of models that learn from masked codes, sex and
age who is readmitted within 30 days, and who stays for at least five days; the accuracy of a model that learns from age
and sex the chapter of the masked principal diagnosis; all are tested on original records. Then what an attacker learns
who reads the context.

The sex is that of the codes that only one sex has, otherwise drawn, because the excerpt has none.

``python tests/benchmarks/bench_context.py [--records N] [--least N] [--only NAME ...] [--bound]``. ``--bound``:
instead, the greatest area of readmission that a masking can leave which does not read it (``most_learned``). Needs the
data files of ``tests/support/data.py``.
"""

from __future__ import annotations

from itertools import chain

import numpy as np
from measuring import arguments, once, table
from peers.downstream import (
    AncestorFeatures,
    FeatureChances,
    NaiveBayes,
    ancestor_features,
    chapters,
)
from peers.measures import LONG_STAY, area
from support.data import discharges_with_sex, icd9cm, sex_of_code
from support.real_codes import real_codes, real_rows

from stream_masker import SemanticTransport, measure_utility

NAMES = ("principal", "secondary")
KINDS = {"sex": ["F", "M"], "age": list(range(10, 100, 10)), "readmitted": ["NO", ">30", "<30"]}
CONTEXTS = ((), ("sex",), ("sex", "age"), ("sex", "age", "readmitted"), ("readmitted", "sex"))
HEAD = ("context", "other sex", "readmission", "stay", "chapter", "|ΔsdCor|", "right", "from both", "block")
HEAD += ("chapter right", "greatest posterior", "RMSE", "first", "next")
CHANCES = (0.93, 0.64, 0.35)
"""How often the best guesses of chapter, block and code are right with the context of sex and age."""


def main() -> None:
    given = arguments(__doc__, {"--records": 200_000, "--least": 200, "--only": {"nargs": "*"}, "--bound": False})
    rows = real(given.records)
    if given.bound:
        return print(most_learned(rows, CHANCES))
    original = ("original records", of_other_sex(rows, rows), *models(rows, rows))
    contexts = CONTEXTS if given.only is None else [tuple(given.only)]
    of_contexts = (figures(rows, names, given.least) for names in contexts)
    table(f"{len(rows):,} discharges", HEAD, chain([original], of_contexts))


def real(records: int) -> list[dict]:
    """The discharges that have both diagnoses."""
    diagnoses, ids, rows = ("diag_1", "diag_2"), icd9cm().taxonomy().ids, []
    for number, pair in zip(real_rows(diagnoses), real_codes(diagnoses).T, strict=True):
        row = discharges_with_sex()[number]
        kept = {name: row[name] for name in ("sex", "readmitted", "patient_nbr")}
        numbers = {"age": int(row["age"][1:].split("-")[0]), "time_in_hospital": int(row["time_in_hospital"])}
        rows.append({**{name: ids[code] for name, code in zip(NAMES, pair, strict=True)}, **kept, **numbers})
    return [rows[k] for k in np.random.default_rng(1).permutation(len(rows))[:records]]


def figures(rows: list[dict], names: tuple[str, ...], least: int) -> list[object]:
    """The row of a context, of which a law of its own needs ``least`` records."""
    tau = icd9cm().taxonomy()
    made = SemanticTransport(
        dict.fromkeys(NAMES, tau),
        context={name: KINDS[name] for name in names},
        window=len(rows),
        seed=b"sixteen bytes or more",
    )
    made.learn_many(rows, keys=[row["patient_nbr"].encode() for row in rows])
    times = [once(made.calibrate) for _ in range(2)]
    masks = made.mask_many(rows, keys=[b"%d" % k for k in range(len(rows))])
    masked = [{**row, **mask} for row, mask in zip(rows, masks, strict=True)]
    kept, risk = measure_utility(made, rows, masked).pairs[NAMES], made.risk()
    own, learned = risk.value["principal"], risk.strongest["principal"]
    figures = [
        kept.correlation_error,
        own.vulnerability,
        learned.vulnerability,
        learned.levels["block"].vulnerability,
        learned.levels["chapter"].vulnerability,
        max(made.disclosure().certainty.values()),
        risk.rmse["principal"],
    ]
    shown = [*(f"{figure:.4f}" for figure in figures), *(f"{seconds:.1f} s" for seconds in times)]
    return [", ".join(names) or "none", of_other_sex(rows, masked), *models(rows, masked), *shown]


def of_other_sex(rows: list[dict], masked: list[dict]) -> int:
    """The number of records with a code that only the other sex has."""
    pairs = zip(rows, masked, strict=True)
    return sum(any(sex_of_code(mask[name]) not in (None, row["sex"]) for name in NAMES) for row, mask in pairs)


def models(rows: list[dict], masked: list[dict]) -> tuple[str, ...]:
    """The areas under the ROC curves, of readmission and of a long stay, and the accuracy, with standard errors."""
    learn = np.arange(len(rows)) % 2 == 0
    kinds = kinds_of(rows)
    encoders = [AncestorFeatures.of(icd9cm().taxonomy())] * 2
    sizes = [*(size for encoder in encoders for size in encoder.sizes), 2, 10]

    def features(source: list[dict], chosen: np.ndarray) -> list[np.ndarray]:
        found = ancestor_features(encoders, [codes(source, name) for name in NAMES], chosen)
        return [*found, *kinds[chosen].T.astype(np.int64)]

    found, learned, tested = [], features(masked, learn), features(rows, ~learn)
    for outcome in (readmitted(rows), np.array([row["time_in_hospital"] >= LONG_STAY for row in rows], np.int64)):
        scores = NaiveBayes.fit(learned, outcome[learn], sizes).scores(tested)
        found.append(area_with_error(scores[:, 1] - scores[:, 0], outcome[~learn]))
    right = chapter_accuracy(principal(masked)[learn], principal(rows)[~learn], kinds[learn], kinds[~learn])
    found.append((right, float(np.sqrt(right * (1.0 - right) / (~learn).sum()))))
    return tuple(f"{figure:.3f} ± {error:.3f}" for figure, error in found)


def readmitted(rows: list[dict]) -> np.ndarray:
    """(n,) int64: whether each patient was readmitted within 30 days."""
    return np.array([row["readmitted"] == "<30" for row in rows], np.int64)


def kinds_of(rows: list[dict]) -> np.ndarray:
    """(n, 2) int64: sex and the decade of the age."""
    return np.array([[row["sex"] == "F", row["age"] // 10] for row in rows], np.int64)


def area_with_error(scores: np.ndarray, truth: np.ndarray) -> tuple[float, float]:
    found = area(scores, truth)
    return found, float(np.sqrt(found * (1.0 - found) / min(truth.sum(), (1 - truth).sum())))


def most_learned(rows: list[dict], chances: tuple[float, ...], repeats: int = 8) -> tuple[float, float]:
    """The area of readmission that is left at most by a masking that does not read it, and that of original records.

    Such a masking keeps of a difference between two concepts that it does not know, on average, at most the share of
    records whose concept stays. This is at most the chance V that the best guess of the concept is right. The noise of
    n records stays as it is, so a model learns of the difference as much as from V²·n original records at most.

    ``chances``: V of the concepts at each depth, chapters first; the last one counts for all that are deeper.
    """
    learn = np.arange(len(rows)) % 2 == 0
    outcome, kinds = readmitted(rows), kinds_of(rows)
    encoder, rng = AncestorFeatures.of(icd9cm().taxonomy()), np.random.default_rng(0)

    def scores(feature: np.ndarray, size: int, share: float) -> np.ndarray:
        chosen = learn & (rng.random(learn.size) < share)
        logs = FeatureChances.fit(feature[chosen], outcome[chosen], size, 2).of(feature[~learn])
        return logs[:, 1] - logs[:, 0]

    def area_of(shares: list[float]) -> float:
        of_codes = [
            scores(levels[codes(rows, name)], levels.size + 1, share)
            for name in NAMES
            for levels, share in zip(encoder.tables, shares, strict=True)
        ]
        of_kinds = [scores(kinds[:, j], size, 1.0) for j, size in ((0, 2), (1, 10))]
        return area(sum([*of_codes, *of_kinds]), outcome[~learn])

    deeper = len(encoder.tables) - len(chances)
    shares = [chance**2 for chance in (*chances, *chances[-1:] * deeper)]
    return float(np.mean([area_of(shares) for _ in range(repeats)])), area_of([1.0] * len(shares))


def chapter_accuracy(learned: np.ndarray, tested: np.ndarray, of_learned: np.ndarray, of_tested: np.ndarray) -> float:
    """The share of right guesses of the chapter that is most frequent among learned records of this sex and age."""
    counts = np.zeros((2, 10, learned.max() + 1))
    np.add.at(counts, (of_learned[:, 0], of_learned[:, 1], learned), 1)
    return float((counts.argmax(axis=2)[of_tested[:, 0], of_tested[:, 1]] == tested).mean())


def codes(rows: list[dict], name: str) -> np.ndarray:
    return icd9cm().taxonomy().encode([row[name] for row in rows]).astype(np.int64)


def principal(rows: list[dict]) -> np.ndarray:
    """The chapter of each principal diagnosis; the root of one that has none."""
    return np.maximum(chapters(codes(rows, NAMES[0]), icd9cm().taxonomy()), 0)


if __name__ == "__main__":
    main()
