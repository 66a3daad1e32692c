"""Rank swapping of real discharges by number of records, compared with the literal algorithm of 2019.

Run by hand: ``python tests/benchmarks/bench_swapping.py [--quick]``. One core, processor time, best of
three. One group of n records, principal and secondary diagnosis (ICD-9-CM), k = 10. The literal Algorithm 3 sorts all n
records for every reference, in NumPy, with a full matrix of distances; it is measured up to 3,000 records.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator

import numpy as np
from bench_mechanisms import Setting, calibrated, codes, mask_batches
from measuring import table
from support.data import icd9cm

from stream_masker.core.distance import WuPalmer

SIZES = (1_000, 3_000, 10_000, 30_000, 90_000)
LITERAL = 3_000
K = 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="up to 10,000 records")
    sizes = SIZES[:3] if parser.parse_args().quick else SIZES
    head = ["n", "distinct values", "distinct records", "Algorithm 2, µs/record", "Algorithm 3, µs/record"]
    table("Rank swapping in groups of n records", [*head, "literal Algorithm 3 ÷ ours"], rows(sizes))


def rows(sizes: tuple[int, ...]) -> Iterator[list[object]]:
    settings = [Setting(), Setting(parameters={"multivariate": True})]
    made = [(calibrated("rank_swapping", setting)[0], setting) for setting in settings]
    for n in sizes:
        univariate, multivariate = (best(lambda m=m, s=s: mask_batches(m, s, n, n)) for m, s in made)  # noqa: B023
        some = np.stack([column[:n] for column in codes().values()], axis=1)
        distinct = "/".join(str(np.unique(some[:, j]).size) for j in range(2))
        ratio: object = best(lambda: literal(some), repeats=1) / multivariate if n <= LITERAL else "-"  # noqa: B023
        records = len(np.unique(some, axis=0))
        yield [n, distinct, records, univariate / n * 1e6, multivariate / n * 1e6, ratio]


def best(run: Callable[[], object], *, repeats: int = 3) -> float:
    """Return the shortest of several processor times, in seconds."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return min(times)


def literal(records: np.ndarray) -> int:
    """Run the literal Algorithm 3; return the number of references."""
    d = WuPalmer(icd9cm().taxonomy())
    between = (d.matrix(records[:, 0]) + d.matrix(records[:, 1])) / 2
    rng = np.random.default_rng(0)
    unswapped = np.ones(records.shape, bool)
    reference, turns = int(between.sum(axis=1).argmax()), 0
    while unswapped.any():
        order = np.argsort(between[reference], kind="stable")
        interval = order[order != reference][:K]
        for j in np.flatnonzero(unswapped[reference]):
            unswapped[reference, j] = False
            candidates = interval[unswapped[interval, j]]
            if candidates.size:
                unswapped[rng.choice(candidates), j] = False
        left = np.flatnonzero(unswapped.any(axis=1))
        reference = int(left[between[reference, left].argmax()]) if left.size else -1
        turns += 1
    return turns


if __name__ == "__main__":
    main()
