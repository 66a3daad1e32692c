"""How much association VICUS (2012) keeps for attributes of hundreds of values, compared with its baseline Random.

Both attributes of the real discharges have more than 700 values. The paper's data have attributes of at most twelve:
k1·k2 is weighed against the number of values, and similarity by co-occurrence puts most of 700 values into one part.
The table has one line for each setting: the share of values that stay, that of values that stay or move within their
part, the RMSE, the chance that the best guess of the principal diagnosis is right, and sdCor after masking, for VICUS
and for Random with the same share of values that stay.

``python tests/benchmarks/bench_vicus.py``. Needs the data files of ``tests/support/data.py``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from measuring import arguments, table
from support.data import icd9cm
from support.real_codes import as_batch, real_pairs

from stream_masker.core.batch import Batch
from stream_masker.core.mechanisms import RandomTransitions, Vicus
from stream_masker.evaluation.dataset import DataSet
from stream_masker.evaluation.measurement import utility_of

PARAMETERS = ("k1", "k2", "parts", "part_size")
HEAD = ("method", *PARAMETERS, "stays", "stays or in its part", "RMSE", "best guess right", "sdCor")
SETTINGS = (
    {"k1": 5.0, "k2": 20.0},
    {"k1": 5.0, "k2": 20.0, "parts": 100, "part_size": 7},
    {"k1": 5.0, "k2": 20_000.0, "parts": 100, "part_size": 7},
    {"k1": 500.0, "k2": 20.0},
)
"""Parameters of the methods; the number of parts follows from the similarity unless it is given."""


def main() -> None:
    arguments(__doc__, {})
    data = discharges()
    title = f"sdCor of the originals: {data.statistics.correlation[0, 1]:.3f}"
    table(title, HEAD, (cells for setting in SETTINGS for cells in rows(data, setting)))


def discharges() -> DataSet:
    """The real discharges with a principal and a secondary diagnosis."""
    tau = icd9cm().taxonomy()
    return DataSet((as_batch(real_pairs()),), {"principal": tau, "secondary": tau}, b"sixteen bytes or more")


def rows(data: DataSet, setting: Mapping[str, float]) -> Iterator[tuple[str, ...]]:
    """The lines of VICUS and of Random with one setting."""
    for kind in (Vicus, RandomTransitions):
        made = kind(data.taxonomies, **setting, window=data.whole.size, seed=data.secret)
        mechanism = data.calibrated(made)
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
            risk.value["principal"].vulnerability,
            pair.correlation,
        )
        shown = (f"{setting[key]:g}" if key in setting else "-" for key in PARAMETERS)
        yield kind.name, *shown, *(f"{figure:.3f}" for figure in figures)


if __name__ == "__main__":
    main()
