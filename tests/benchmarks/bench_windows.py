"""What windows of few records protect and keep: the figures of one mechanism at 300 to 100,000 real discharges.

``python tests/benchmarks/bench_windows.py [MECHANISM] [PARAMETER=VALUE ...] [--records N ...] [--windows N]
[--columns NAME ...]``. MECHANISM is a class of the package, by default ``SemanticTransport``. A parameter is one of its
keyword arguments, its value JSON or a text: ``bench_windows.py SemanticNoise reference=pair alpha=0.5``, or
``bench_windows.py 'target={"alpha": 1}' least=5``. Only the public interface of the package is used.

A window has random discharges without repetition, and it is what is masked. A smaller window is drawn several times;
the figures are means over the windows, and ``±`` is the standard error of V.

* ``prior``, ``V``, ``V, record``: the chance that the best guess of a principal code is right without masks, from its
  own mask, and from all masks of the record, for an attacker who knows the law of the window.
* ``chapter``: the chance of the best guess of its chapter, from its own mask.
* ``unchanged``, ``records``: the share of principal codes, and of whole records, that stay as they are.
* ``RMSE``, ``dsdCor``: the distance of masked principal codes, and the change of the correlation of the first pair.
* ``refused``: the windows for which the mechanism has no statistics, such as a target that they do not allow.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from measuring import table
from support.data import discharges, icd9cm

import stream_masker
from stream_masker.errors import StatisticsError

RECORDS = (300, 1_000, 10_000, 100_000)
COLUMNS = ("diag_1", "diag_2")
MASKED_LEAST = 20_000
"""As many records are masked at each size, at least, unless the number of windows is given."""
MOST_WINDOWS = 20
SEED = b"a seed of sixteen bytes"
HEAD = (
    "records",
    "windows",
    "prior",
    "V",
    "±",
    "V, record",
    "chapter",
    "unchanged",
    "records unchanged",
    "RMSE",
    "dsdCor",
    "refused",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("arguments", nargs="*", metavar="MECHANISM | PARAMETER=VALUE", help="the mechanism")
    parser.add_argument("--records", nargs="+", type=int, default=RECORDS, help="the sizes of the windows")
    parser.add_argument("--windows", type=int, help="the number of windows of each size")
    parser.add_argument("--columns", nargs="+", default=COLUMNS, help="the diagnoses that are masked")
    given = parser.parse_args()
    names = [argument for argument in given.arguments if "=" not in argument] or ["SemanticTransport"]
    parameters = dict(parameter(argument) for argument in given.arguments if "=" in argument)
    records = real_records(given.columns)
    title = f"{names[0]}, {', '.join(f'{key}={value}' for key, value in parameters.items()) or 'defaults'}"
    table(title, HEAD, rows(names[0], parameters, records, given.records, given.windows))


def parameter(argument: str) -> tuple[str, Any]:
    """Return the name and the value of ``PARAMETER=VALUE``."""
    name, _, text = argument.partition("=")
    try:
        return name, json.loads(text)
    except json.JSONDecodeError:
        return name, text


def real_records(columns: Sequence[str]) -> list[dict[str, str]]:
    """Return the discharges that have all of these diagnoses, as concept ids."""
    ontology = icd9cm()
    tau = ontology.taxonomy()
    find = stream_masker.ConceptMap(tau, unknown="ancestor", ontology=ontology).resolve
    found = [{name: find(row[name])[0] for name in columns} for row in discharges()]
    return [{name: tau.ids[at] for name, at in one.items()} for one in found if min(one.values()) >= 0]


def rows(
    name: str,
    parameters: Mapping[str, Any],
    records: Sequence[Mapping[str, str]],
    sizes: Sequence[int],
    windows: int | None,
) -> Iterator[list[object]]:
    for size in sizes:
        number = windows or min(MOST_WINDOWS, -(-MASKED_LEAST // size))
        figures = Figures(name, parameters, next(iter(records[0])))
        for window in range(number):
            chosen = np.random.default_rng(window).permutation(len(records))[:size]
            figures.add([records[row] for row in chosen.tolist()], window)
        yield figures.row(size, number)


@dataclass
class Figures:
    """The figures of one size of windows, for the first attribute."""

    mechanism: str
    parameters: Mapping[str, Any]
    attribute: str
    measured: list[tuple[float, ...]] = field(default_factory=list)
    refused: int = 0

    def add(self, records: Sequence[Mapping[str, str]], window: int) -> None:
        """Calibrate on a window, mask it, and measure."""
        tau = icd9cm().taxonomy()
        taxonomies = dict.fromkeys(records[0], tau)
        made = getattr(stream_masker, self.mechanism)(taxonomies, window=len(records), seed=SEED, **self.parameters)
        try:
            made.learn_many(records)
            made.calibrate()
        except StatisticsError:
            self.refused += 1
            return
        masked = made.mask_many(records, keys=[b"%d of %d" % (row, window) for row in range(len(records))])
        self._compare(made, records, masked)

    def _compare(self, made: Any, records: Sequence[Mapping[str, str]], masked: Sequence[Mapping[str, Any]]) -> None:
        risk, kept, own = made.risk(), stream_masker.measure_utility(made, records, masked), self.attribute
        pairs = list(kept.pairs.values())
        self.measured.append(
            (
                risk.prior[own],
                risk.vulnerability[own],
                risk.given_record[own] if risk.given_record is not None else float("nan"),
                risk.meaning[own].levels["chapter"].chance,
                sum(one[own] == other[own] for one, other in zip(records, masked, strict=True)) / len(records),
                sum(dict(one) == other for one, other in zip(records, masked, strict=True)) / len(records),
                kept.attributes[own].rmse_actual,
                pairs[0].correlation_error if pairs else 0.0,
            )
        )

    def row(self, size: int, windows: int) -> list[object]:
        """Return the row of the table."""
        if not self.measured:
            return [size, windows, *["–"] * (len(HEAD) - 3), self.refused]
        measured = np.array(self.measured)
        prior, chance, given_record, chapter, unchanged, whole, rmse, change = measured.mean(axis=0).tolist()
        error = float(measured[:, 1].std(ddof=1) / len(measured) ** 0.5) if len(measured) > 1 else 0.0
        figures: list[object] = [prior, chance, error, given_record, chapter, unchanged, whole, rmse, change]
        return [size, windows, *figures, self.refused]


if __name__ == "__main__":
    main()
