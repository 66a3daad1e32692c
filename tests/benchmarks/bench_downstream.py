"""Models that learn from masked discharges and are tested on original ones, for every method at about equal RMSE.

Naive Bayes learns from half of the records, masked. It predicts for the other half, unmasked, whether the patient is
readmitted within 30 days (area under the ROC curve, from both diagnoses) and the chapter of the secondary diagnosis
(share of right predictions, from the principal one).

``python tests/benchmarks/bench_downstream.py [--records N] [--rmse X]``. Needs the data files of
``tests/support/data.py``.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

sys.path[:0] = [str(Path(__file__).parents[1])]

from support.data import discharges, icd9cm

from stream_masker.core.batch import Batch, Column
from stream_masker.core.mechanisms import MECHANISMS
from stream_masker.core.ontology import UNKNOWN, ConceptMap
from stream_masker.errors import ParameterError, StatisticsError
from stream_masker.evaluation.attack import rmse_of
from stream_masker.evaluation.candidates import candidates
from stream_masker.evaluation.dataset import DataSet
from stream_masker.evaluation.downstream import AncestorFeatures, NaiveBayes, ancestor_features, predictions

ALPHAS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0)
GROUP = 1_000
HEAD = ("method", "RMSE", "readmission (AUC)", "chapter of secondary")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=20_000, help="size of the sample")
    parser.add_argument("--rmse", type=float, default=0.3, help="RMSE at which methods are compared")
    given = parser.parse_args()
    data, readmitted = sample(given.records)
    print(f"| {' | '.join(HEAD)} |\n|{' --- |' * len(HEAD)}")
    original = [column.codes.astype(np.int64) for column in data.whole.columns]
    show("original records", 0.0, auc(data, original, readmitted), next(predictions(data, data.whole.columns)).masked)
    for (label, rmse), masked in nearest(data, given.rmse).items():
        codes = [column.codes.astype(np.int64) for column in masked]
        show(label, rmse, auc(data, codes, readmitted), next(predictions(data, masked)).masked)


def sample(records: int) -> tuple[DataSet, np.ndarray]:
    """Discharges with both diagnoses, and whether each patient was readmitted within 30 days."""
    find = ConceptMap(icd9cm().taxonomy(), unknown="ancestor", ontology=icd9cm()).resolve
    rows = [[*(find(row[f"diag_{j}"])[0] for j in (1, 2)), row["readmitted"] == "<30"] for row in discharges()]
    found = np.array([row for row in rows if UNKNOWN not in row], np.int32)
    found = np.random.default_rng(1).permutation(found)[:records]
    batches = tuple(
        Batch(len(part), tuple(Column(np.ascontiguousarray(part[:, j])) for j in (0, 1)))
        for part in np.array_split(found, max(1, len(found) // GROUP))
    )
    tau = icd9cm().taxonomy()
    return DataSet(batches, {"principal": tau, "secondary": tau}, b"sixteen bytes or more"), found[:, 2].astype(
        np.int64
    )


def nearest(data: DataSet, target: float) -> dict[tuple[str, float], tuple[Column, ...]]:
    """For each method the masked columns of the setting whose RMSE is nearest to the target."""
    found: dict[str, tuple[float, str, float, tuple[Column, ...]]] = {}
    for candidate in candidates(list(MECHANISMS), ALPHAS):
        try:
            masked = data.mask(candidate.build(data))
        except (ParameterError, StatisticsError):
            continue
        rmse = rmse_of(data, masked)["principal"]
        method = (
            f"{candidate.method}, {candidate.options['rounding']}"
            if "rounding" in candidate.options
            else candidate.method
        )
        if method not in found or abs(rmse - target) < found[method][0]:
            found[method] = (abs(rmse - target), candidate.label, rmse, masked.columns)
    return {(label, rmse): columns for _, label, rmse, columns in found.values()}


def auc(data: DataSet, codes: list[np.ndarray], readmitted: np.ndarray) -> float:
    """The area under the ROC curve of a model that learns from codes and is tested on the original ones."""
    original = [column.codes.astype(np.int64) for column in data.whole.columns]
    learn = np.arange(readmitted.size) % 2 == 0
    encoders = [AncestorFeatures.of(tau) for tau in data.taxonomies.values()]
    sizes = [size for encoder in encoders for size in encoder.sizes]
    model = NaiveBayes.fit(ancestor_features(encoders, codes, learn), readmitted[learn], sizes)
    scores = model.scores(ancestor_features(encoders, original, ~learn))
    return area(scores[:, 1] - scores[:, 0], readmitted[~learn])


def area(scores: np.ndarray, truth: np.ndarray) -> float:
    """The share of pairs of a readmitted and another patient in which the readmitted one has the higher score."""
    _, which, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[which]
    positive = truth == 1
    n = positive.sum()
    return float((ranks[positive].sum() - n * (n + 1) / 2) / (n * (truth.size - n)))


def show(label: str, rmse: float, area_under: float, accuracy: float) -> None:
    print(f"| {label} | {rmse:.3f} | {area_under:.3f} | {accuracy:.3f} |", flush=True)


if __name__ == "__main__":
    main()
