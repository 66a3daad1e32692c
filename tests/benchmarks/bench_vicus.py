"""How much association VICUS (2012) keeps for attributes of hundreds of values, beside its baseline Random.

Both attributes of the real discharges have more than 700 values. The paper's data have attributes of at most twelve,
and its k1 and k2 weigh the number of values: with k1·k2 = 100 hardly a value stays among 700. The table has one line
for each k2: the share of values that stay, that of values that stay or move within their part, the RMSE, the chance
that the best guess of the principal diagnosis is right, and sdCor after masking, for VICUS and for Random with the
same share of values that stay.

``python tests/benchmarks/bench_vicus.py [--k2 NUMBERS]``. Needs the data files of ``tests/support/data.py``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

sys.path[:0] = [str(Path(__file__).parents[1])]

from bench_disclosure import pairs
from support.data import icd9cm

from stream_masker.core.batch import Batch
from stream_masker.core.mechanisms import RandomTransitions, Vicus
from stream_masker.evaluation.dataset import DataSet
from stream_masker.evaluation.measurement import utility_of

HEAD = ("method", "k1", "k2", "stays", "stays or in its part", "RMSE", "best guess right", "sdCor")
RATIOS = (20.0, 200.0, 2_000.0, 20_000.0, 200_000.0)
K1 = 5.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--k2", type=float, nargs="+", default=RATIOS, help="the ratios k2")
    given = parser.parse_args()
    data = discharges()
    print(f"sdCor of the originals: {data.statistics.correlation[0, 1]:.3f}\n")
    print(f"| {' | '.join(HEAD)} |\n|{' --- |' * len(HEAD)}")
    for k2 in given.k2:
        for cells in rows(data, k2):
            print(f"| {' | '.join(cells)} |", flush=True)


def discharges() -> DataSet:
    """The real discharges with a principal and a secondary diagnosis."""
    tau = icd9cm().taxonomy()
    return DataSet((pairs(),), {"principal": tau, "secondary": tau}, b"sixteen bytes or more")


def rows(data: DataSet, k2: float) -> Iterator[tuple[str, ...]]:
    """The lines of VICUS and of Random with one k2."""
    for kind in (Vicus, RandomTransitions):
        mechanism = data.calibrated(kind(data.taxonomies, k1=K1, k2=k2, window=data.whole.size, seed=data.secret))
        masked = data.mask(mechanism)
        part_of = {value: number for number, part in enumerate(mechanism.partition("principal")) for value in part}
        ids = data.taxonomies["principal"].decode
        before, after = (
            np.array([part_of.get(value, -1) for value in ids(batch.columns[0].codes)])
            for batch in (data.whole, Batch(data.whole.size, masked.columns))
        )
        utility = utility_of(mechanism, data, masked)
        (pair,) = utility.pairs.values()
        risk = mechanism.risk(draws=100)
        figures = (
            risk.unchanged["principal"],
            float((before == after).mean()),
            utility.attributes["principal"].rmse_actual,
            risk.vulnerability["principal"],
            pair.correlation,
        )
        yield kind.name, f"{K1:g}", f"{k2:g}", *(f"{figure:.3f}" for figure in figures)


if __name__ == "__main__":
    main()
