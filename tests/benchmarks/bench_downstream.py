"""Models that learn from masked discharges and are tested on original ones, for every method at about equal RMSE.

Naive Bayes learns from half of the records, masked. It predicts for the other half, unmasked, whether the patient is
readmitted within 30 days (area under the ROC curve, from both diagnoses) and the chapter of the secondary diagnosis
(share of right predictions, from the principal one).

``python tests/benchmarks/bench_downstream.py [--records N] [--rmse X]``. Needs the data files of
``tests/support/data.py``.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from measuring import arguments, table
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
    given = arguments(__doc__, {"--records": 20_000, "--rmse": 0.3})
    every = real_records()
    records = every.part(np.random.default_rng(1).permutation(every.size)[: given.records])
    groups = np.array_split(records.codes, max(1, records.size // GROUP), axis=1)
    taxonomies = dict.fromkeys(ATTRIBUTES, icd9cm().taxonomy())
    data = DataSet(tuple(map(as_batch, groups)), taxonomies, b"sixteen bytes or more")
    table(f"{records.size:,} discharges", HEAD, rows(data, records, given.rmse))


def rows(data: DataSet, records: Records, target: float) -> Iterator[tuple[str, ...]]:
    yield figures("original records", 0.0, records, records)
    for (label, rmse), masked in nearest(data, target).items():
        yield figures(label, rmse, records, records.with_codes(np.array([column.codes for column in masked])))


def nearest(data: DataSet, target: float) -> dict[tuple[str, float], tuple[Column, ...]]:
    """For each method the masked columns of the setting whose RMSE is nearest to the target."""
    found: dict[tuple[str, str | None], tuple[float, str, float, tuple[Column, ...]]] = {}
    for candidate in candidates(list(MECHANISMS), ALPHAS):
        try:
            masked = data.mask(candidate.build(data))
        except (ParameterError, StatisticsError):
            continue
        rmse = rmse_of(data, masked)["principal"]
        method = (candidate.method, candidate.options.get("rounding"))
        if method not in found or abs(rmse - target) < found[method][0]:
            found[method] = (abs(rmse - target), candidate.label, rmse, masked.columns)
    return {(label, rmse): columns for _, label, rmse, columns in found.values()}


def figures(label: str, rmse: float, records: Records, masked: Records) -> tuple[str, ...]:
    learned = auc(records, masked, "readmitted"), chapter_accuracy(records, masked)
    return label, *(f"{figure:.3f}" for figure in (rmse, *learned))


if __name__ == "__main__":
    main()
