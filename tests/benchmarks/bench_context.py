"""What a context keeps, and what it costs: the real discharges, masked by the default with several contexts.

For each context: codes of the other sex; the area under the ROC curve of a model that learns from masked codes, sex and
age who is readmitted within 30 days; the accuracy of a model that learns from age and sex the chapter of the masked
principal diagnosis; both are tested on original records. Then what an attacker learns who reads the context.

The sex is that of the codes that only one sex has, otherwise drawn, because the excerpt has none.

``python tests/benchmarks/bench_context.py [--records N] [--least N] [--only NAME ...]``. Needs the
data files of ``tests/support/data.py``.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np

sys.path[:0] = [str(Path(__file__).parents[1])]

from bench_downstream import area
from support.data import discharges_with_sex, icd9cm, sex_of_code

from stream_masker import SemanticTransport, measure_utility
from stream_masker.core.ontology import UNKNOWN, ConceptMap
from stream_masker.evaluation.downstream import AncestorFeatures, NaiveBayes, ancestor_features

NAMES = ("principal", "secondary")
KINDS = {"sex": ["F", "M"], "age": list(range(10, 100, 10)), "readmitted": ["NO", ">30", "<30"]}
CONTEXTS = ((), ("sex",), ("sex", "age"), ("sex", "age", "readmitted"), ("readmitted", "sex"))
HEAD = (
    "context",
    "other sex",
    "readmission",
    "chapter",
    "|ΔsdCor|",
    "right",
    "right from both",
    "RMSE",
    "certain",
    "first",
    "next",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=200_000, help="size of the sample")
    parser.add_argument("--least", type=int, default=200, help="records that a context needs for a law of its own")
    parser.add_argument("--only", nargs="*", default=None, help="context attributes; default: several contexts")
    given = parser.parse_args()
    rows = real(given.records)
    print(f"| {' | '.join(HEAD)} |\n|{' --- |' * len(HEAD)}")
    auc, accuracy = models(rows, rows)
    print(f"| original records | {of_other_sex(rows, rows)} | {auc} | {accuracy} |", flush=True)
    for names in CONTEXTS if given.only is None else [tuple(given.only)]:
        show(rows, names, given.least)


def real(records: int) -> list[dict]:
    """The discharges that have both diagnoses."""
    find = ConceptMap(icd9cm().taxonomy(), unknown="ancestor", ontology=icd9cm()).resolve
    ids, rows = icd9cm().taxonomy().ids, []
    for row in discharges_with_sex():
        codes = [find(row[f"diag_{j}"])[0] for j in (1, 2)]
        if UNKNOWN not in codes:
            own = {name: ids[code] for name, code in zip(NAMES, codes, strict=True)}
            age = int(row["age"][1:].split("-")[0])
            rows.append({**own, **{k: row[k] for k in ("sex", "readmitted", "patient_nbr")}, "age": age})
    return [rows[k] for k in np.random.default_rng(1).permutation(len(rows))[:records]]


def show(rows: list[dict], names: tuple[str, ...], least: int) -> None:
    tau = icd9cm().taxonomy()
    context = {name: KINDS[name] for name in names}
    made = SemanticTransport(
        dict.fromkeys(NAMES, tau), context=context, context_least=least, window=len(rows), seed=b"sixteen bytes or more"
    )
    made.learn_many(rows, keys=[row["patient_nbr"].encode() for row in rows])
    times = [seconds(made.calibrate) for _ in range(2)]
    masks = made.mask_many(rows, keys=[b"%d" % k for k in range(len(rows))])
    masked = [{**row, **mask} for row, mask in zip(rows, masks, strict=True)]
    auc, accuracy = models(rows, masked)
    kept, risk = measure_utility(made, rows, masked).pairs[NAMES], made.risk()
    assert risk.given_record is not None
    figures = [
        kept.correlation_error,
        risk.vulnerability["principal"],
        risk.given_record["principal"],
        risk.rmse["principal"],
        max(made.disclosure().certainty.values()),
    ]
    shown = [f"{figure:.4f}" for figure in figures] + [f"{t:.1f} s" for t in times]
    label = ", ".join(names) or "none"
    print(f"| {' | '.join([label, str(of_other_sex(rows, masked)), auc, accuracy, *shown])} |", flush=True)


def seconds(step) -> float:
    started = time.process_time()
    step()
    return time.process_time() - started


def of_other_sex(rows: list[dict], masked: list[dict]) -> int:
    """The number of records with a code that only the other sex has."""
    pairs = zip(rows, masked, strict=True)
    return sum(any(sex_of_code(mask[name]) not in (None, row["sex"]) for name in NAMES) for row, mask in pairs)


def models(rows: list[dict], masked: list[dict]) -> tuple[str, str]:
    """The area under the ROC curve, and the accuracy, each with its standard error."""
    learn = np.arange(len(rows)) % 2 == 0
    readmitted = np.array([row["readmitted"] == "<30" for row in rows], np.int64)
    kinds = np.array([[row["sex"] == "F", row["age"] // 10] for row in rows])
    encoders = [AncestorFeatures.of(icd9cm().taxonomy())] * 2
    sizes = [*(size for encoder in encoders for size in encoder.sizes), 2, 10]

    def features(source: list[dict], chosen: np.ndarray) -> list[np.ndarray]:
        found = ancestor_features(encoders, [codes(source, name) for name in NAMES], chosen)
        return [*found, *kinds[chosen].T.astype(np.int64)]

    model = NaiveBayes.fit(features(masked, learn), readmitted[learn], sizes)
    scores = model.scores(features(rows, ~learn))
    found = area(scores[:, 1] - scores[:, 0], readmitted[~learn])
    error = np.sqrt(found * (1.0 - found) / readmitted[~learn].sum())
    right = chapter_accuracy(chapters(masked)[learn], chapters(rows)[~learn], kinds[learn], kinds[~learn])
    return f"{found:.3f} ± {error:.3f}", f"{right:.3f} ± {np.sqrt(right * (1.0 - right) / (~learn).sum()):.3f}"


def chapter_accuracy(learned: np.ndarray, tested: np.ndarray, of_learned: np.ndarray, of_tested: np.ndarray) -> float:
    """The share of right guesses of the chapter that is most frequent among learned records of this sex and age."""
    counts = np.zeros((2, 10, learned.max() + 1))
    np.add.at(counts, (of_learned[:, 0], of_learned[:, 1], learned), 1)
    return float((counts.argmax(axis=2)[of_tested[:, 0], of_tested[:, 1]] == tested).mean())


def codes(rows: list[dict], name: str) -> np.ndarray:
    return icd9cm().taxonomy().encode([row[name] for row in rows]).astype(np.int64)


def chapters(rows: list[dict]) -> np.ndarray:
    """The ancestor below the root of each principal diagnosis."""
    parent = icd9cm().taxonomy().tree.parent
    of_code = np.arange(len(parent))
    while (moved := np.where(parent[of_code] > 0, parent[of_code], of_code)).tolist() != of_code.tolist():
        of_code = moved
    return of_code[codes(rows, NAMES[0])]


if __name__ == "__main__":
    main()
