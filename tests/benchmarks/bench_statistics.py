"""Statistics of windows by input size, and other implementations of the covariance, which ``table.py`` compares.

Run by hand: ``python tests/benchmarks/bench_statistics.py [--quick]``. One core. Windows are
synthetic: heavy-tailed values at random positions of the taxonomy; the second attribute depends on the first. Memory is
the peak besides the taxonomy.

* the literal algorithm: equations 15 to 18 of the 2017 paper in NumPy, n x n;
* dcor: its double centring and mean of products, n x n (both use the distances of this project's ``d.matrix``).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import dcor
import numpy as np
from measuring import SNOMED_CONCEPTS, once, peak_megabytes, table, taxonomy

from stream_masker.core.batch import Batch, Column
from stream_masker.core.distance import Distance, WuPalmer
from stream_masker.core.statistics import (
    Counts,
    compute_statistics,
    count_batch,
)

Columns = list[np.ndarray]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a smaller SNOMED-shaped taxonomy, smaller windows")
    options = parser.parse_args()
    snomed = "snomed:50000" if options.quick else f"snomed:{SNOMED_CONCEPTS}"
    curves(snomed, quick=options.quick)


def sample(d: Distance, values: int, records: int, *, attributes: int = 2, seed: int = 0) -> Columns:
    """Return ``records`` positions of each attribute, with up to ``values`` distinct ones."""
    rng = np.random.default_rng(seed)
    places = [rng.permutation(len(d.taxonomy))[:values].astype(np.int32) for _ in range(attributes)]
    rank = tails(rng, values, records)
    columns = [rank]
    for _ in range(attributes - 1):
        rank = np.where(rng.random(records) < 0.6, (rank * 7 + 3) % values, tails(rng, values, records))
        columns.append(rank)
    return [place[column] for place, column in zip(places, columns, strict=True)]


def tails(rng: np.random.Generator, values: int, records: int) -> np.ndarray:
    """Draw ranks below ``values`` with a heavy tail."""
    return np.minimum((values * rng.random(records) ** 2.5).astype(np.int64), values - 1)


def counted(d: Distance, columns: Columns) -> Counts:
    batch = Batch(columns[0].size, tuple(Column(column) for column in columns))
    return count_batch(batch, [len(d.taxonomy)] * len(columns))


def of_matrices(
    covariance: Callable[[np.ndarray, np.ndarray], float], d: Distance, a: np.ndarray, b: np.ndarray
) -> float:
    return covariance(d.matrix(a), d.matrix(b))


def literal_covariance(a: np.ndarray, b: np.ndarray) -> float:
    delta_a, delta_b = (x - x.mean(axis=0) - x.mean(axis=1)[:, None] + x.mean() for x in (a, b))
    return float(np.sqrt(max(0.0, (delta_a * delta_b).sum())) / len(a))


def dcor_covariance(a: np.ndarray, b: np.ndarray) -> float:
    product = dcor.mean_product(dcor.double_centered(a), dcor.double_centered(b))
    return float(np.sqrt(max(0.0, product)))


def curves(snomed: str, *, quick: bool) -> None:
    """Measure all statistics: means, variances, Σ, correlations, roll-up."""
    head = ["taxonomy", "concepts", "p", "n", "distinct values", "distinct pairs", "s", "peak MB"]
    records = [10_000, 100_000, 1_000_000]
    values = [500, 1000, 2000, 5000] if quick else [500, 1000, 2000, 5000, 10_000, 20_000]
    cells = [(snomed, 2, n, 2000) for n in records]
    table("Statistics against n", head, map(curve_row, cells))
    cells = [(name, 2, 1_000_000, k) for name in ("icd10cm", snomed) for k in values]
    table("Statistics against distinct values", head, map(curve_row, cells))
    sizes = [f"snomed:{m}" for m in (10_000, 50_000, 100_000)]
    table("Statistics against |τ|", head, (curve_row((name, 2, 100_000, 2000)) for name in {*sizes, snomed}))
    table("Statistics against p", head, (curve_row((snomed, p, 100_000, 2000)) for p in (1, 2, 3, 4)))


def curve_row(given: tuple[str, int, int, int]) -> list[object]:
    name, p, n, values = given
    d = WuPalmer(taxonomy(name))
    d.taxonomy.closure  # noqa: B018
    counts = counted(d, sample(d, values, n, attributes=p))
    names = [f"attribute {j}" for j in range(p)]

    def compute() -> object:
        return compute_statistics(counts, names, [d] * p, version=1)

    distinct = max(column.keys.size for column in counts.values)
    pairs = max((pair.keys.size for pair in counts.pairs.values()), default=0)
    return [name, len(d.taxonomy), p, n, distinct, pairs, min(once(compute), once(compute)), peak_megabytes(compute)]


if __name__ == "__main__":
    main()
