"""Models that learn from masked discharges and are tested on original ones, for every method at about equal RMSE.

Naive Bayes learns from half of the records, masked. It predicts for the other half, unmasked, whether the patient is
readmitted within 30 days (area under the ROC curve, from both diagnoses) and the chapter of the secondary diagnosis
(share of right predictions, from the principal one).

``python tests/benchmarks/bench_downstream.py [--records N] [--rmse X]``. Needs the data files of
``tests/support/data.py``.
"""

from __future__ import annotations

import argparse

import numpy as np
from peers.measures import ATTRIBUTES, Records, auc, chapter_accuracy, icd9cm, real_records
from support.real_codes import as_batch

from stream_masker.core.batch import Column
from stream_masker.core.mechanisms import MECHANISMS
from stream_masker.errors import ParameterError, StatisticsError
from stream_masker.evaluation.candidates import candidates
from stream_masker.evaluation.dataset import DataSet
from stream_masker.evaluation.measurement import rmse_of

ALPHAS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0)
GROUP = 1_000
HEAD = ("method", "RMSE", "readmission (AUC)", "chapter of secondary")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=20_000, help="size of the sample")
    parser.add_argument("--rmse", type=float, default=0.3, help="RMSE at which methods are compared")
    given = parser.parse_args()
    every = real_records()
    records = every.part(np.random.default_rng(1).permutation(every.size)[: given.records])
    groups = np.array_split(records.codes, max(1, records.size // GROUP), axis=1)
    data = DataSet(
        tuple(map(as_batch, groups)), dict.fromkeys(ATTRIBUTES, icd9cm().taxonomy()), b"sixteen bytes or more"
    )
    print(f"| {' | '.join(HEAD)} |\n|{' --- |' * len(HEAD)}")
    show("original records", 0.0, records, records)
    for (label, rmse), masked in nearest(data, given.rmse).items():
        show(label, rmse, records, records.with_codes(np.array([column.codes for column in masked])))


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


def show(label: str, rmse: float, records: Records, masked: Records) -> None:
    learned = auc(records, masked, "readmitted"), chapter_accuracy(records, masked)
    print(f"| {label} | {rmse:.3f} | {learned[0]:.3f} | {learned[1]:.3f} |", flush=True)


if __name__ == "__main__":
    main()
