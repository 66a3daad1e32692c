"""Utility and disclosure of every mechanism, compared with semantic transport of the same RMSE, on the real discharges.

``python tests/benchmarks/bench_frontier.py [--sample N] [--only NAME ...] [--bound K]``. The attributes are the
principal and the first secondary diagnosis; the figures of disclosure are of the principal one.

* ``Δ sdCor``, ``sVar* ÷ sVar``: the change of the correlation, and the ratio of the semantic variances after and before
  masking, over ``REPEATS`` maskings together.
* The others are those of ``mechanism.risk()``, from a code's own mask: the distance; the chances that the best guess
  of a code, of its block and of its chapter are right; the greatest posterior of a code; the shares of records whose
  best guess is right with a probability above 0.5 and above 0.9. They are exact, but for mechanisms that mask groups,
  whose channels are estimated from random groups.
* The first row is the default. Each mechanism is followed by the same figures of transport with the RMSE of both
  attributes as its target, without a promise.

``--bound K``: instead, one attribute, the principal diagnosis, and its K most frequent codes, so that the least V of
all channels with the RMSE of a row that keep the law of codes can be computed, by a linear programme.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from measuring import arguments, table
from support.attacking import masked_once
from support.data import icd9cm
from support.least_vulnerability import least_vulnerability, most_frequent
from support.real_codes import as_batch, in_force, real_pairs, statistics_of

from stream_masker.core.batch import Batch
from stream_masker.core.mechanisms import MECHANISMS, SemanticTransport, WindowedMechanism, mechanism
from stream_masker.core.ontology import Taxonomy
from stream_masker.core.risk.risk import Risk
from stream_masker.errors import StatisticsError

NAMES = ("principal", "secondary")
SEED = b"a seed of sixteen bytes"
REPEATS = 4
DRAWS = 200
GROUP = 1000
OTHERS = set(MECHANISMS) - {"semantic_noise", "semantic_transport", "exponential"}
SETTINGS: list[tuple[str, dict[str, Any]]] = [
    *(
        ("semantic_noise", {"reference": "pair", "rounding": rounding, "candidates": candidates})
        for rounding in ("calibrated", "ceil")
        for candidates in ("all", "observed")
    ),
    ("semantic_noise", {"reference": "mean"}),
    ("semantic_noise", {"reference": "root"}),
    ("exponential", {"epsilon": 20.0}),
    *((name, {}) for name in sorted(OTHERS, key=lambda name: (MECHANISMS[name].needs_group, name))),
]
FIGURES = ["V, code", "block", "chapter", "greatest posterior", "above 0.5", "above 0.9"]
HEAD = ["mechanism", "RMSE, principal", "RMSE, secondary", "Δ sdCor", "sVar* ÷ sVar", *FIGURES]


def main() -> None:
    only = {"nargs": "*", "choices": sorted({name for name, _ in SETTINGS})}
    given = arguments(__doc__, {"--sample": {"type": int}, "--only": only, "--bound": {"type": int, "metavar": "K"}})
    if given.bound:
        return compare_with_bound(given.bound)
    tau, codes = icd9cm().taxonomy(), real_pairs()
    batch = as_batch(codes[:, : given.sample])
    prior = np.unique(batch.columns[0].codes, return_counts=True)[1].max() / batch.size
    settings = [(name, parameters) for name, parameters in SETTINGS if not given.only or name in given.only]
    table(f"every mechanism, {batch.size:,} discharges, prior V {prior:.3f}", HEAD, rows(tau, batch, settings))


def compare_with_bound(codes: int) -> None:
    """Compare one attribute's V with the least that a channel of its RMSE has which keeps the law."""
    tau, batch, names = icd9cm().taxonomy(), most_frequent(real_pairs()[0], codes), NAMES[:1]
    present, counts = np.unique(batch.columns[0].codes, return_counts=True)
    settings: list[tuple[str, dict[str, Any]]] = [("semantic_transport", {})]
    for alpha in (0.3, 0.5, 1.0):
        settings.append(("semantic_transport", {"target": {"alpha": alpha}}))
        settings += [("semantic_noise", {"alpha": alpha, "rounding": rounding}) for rounding in ("calibrated", "ceil")]
    settings += [("exponential", {"epsilon": 20.0}), ("pram", {})]

    def bounded() -> Iterator[list[object]]:
        for name, parameters in settings:
            made, risk = assessed(mechanism(name)({names[0]: tau}, seed=SEED, **parameters), batch)
            squares = made.distances[0].between(present, present) ** 2
            bound = least_vulnerability(counts / batch.size, squares, risk.rmse[names[0]])
            label = ", ".join([name, *map(str, parameters.values())])
            excess = risk.value[names[0]].vulnerability / bound
            yield [label, risk.rmse[names[0]], bound, excess, *disclosure(risk), risk.unchanged[names[0]]]

    head = ["mechanism", "RMSE", "least V", "V ÷ least V", *FIGURES, "unchanged"]
    table(f"one attribute, {codes} codes, {batch.size:,} discharges", head, bounded())


def rows(tau: Taxonomy, batch: Batch, settings: list[tuple[str, dict[str, Any]]]) -> Iterator[list[object]]:
    yield figures("the default", *assessed(SemanticTransport(dict.fromkeys(NAMES, tau), seed=SEED), batch), batch)
    for name, parameters in settings:
        given = {**parameters, "group_records": GROUP} if MECHANISMS[name].needs_group else parameters
        made, risk = assessed(mechanism(name)(dict.fromkeys(NAMES, tau), seed=SEED, **given), batch)
        yield figures(", ".join([name, *map(str, parameters.values())]), made, risk, batch)
        try:
            yield figures("transport", *assessed(transport(tau, risk.rmse), batch), batch)
        except StatisticsError as error:
            yield [f"transport: {error}", *[""] * (len(HEAD) - 1)]


def transport(tau: Taxonomy, rmse: Mapping[str, float]) -> SemanticTransport:
    """Create a transport with the RMSE of another mechanism."""
    return SemanticTransport(dict.fromkeys(NAMES, tau), target={"rmse": dict(rmse)}, seed=SEED)


def assessed(made: WindowedMechanism[Any], batch: Batch) -> tuple[WindowedMechanism[Any], Risk]:
    """Put the statistics of a batch in force, and return the risk."""
    ready = in_force(made, batch)
    return ready, ready.risk(draws=DRAWS)


def figures(label: str, made: WindowedMechanism[Any], risk: Risk, batch: Batch) -> list[object]:
    """Return the row of one mechanism."""
    masks = np.concatenate([masked_once(made, batch, number, GROUP) for number in range(REPEATS)], axis=1)
    before, after = made.statistics, statistics_of(as_batch(masks))
    shift = float(after.correlation[0, 1] - before.correlation[0, 1])
    ratio = after.variance["0"] / before.variance[NAMES[0]]
    return [label, *(risk.rmse[name] for name in NAMES), shift, ratio, *disclosure(risk)]


def disclosure(risk: Risk) -> list[float]:
    """Return ``FIGURES`` of the principal diagnosis."""
    own = risk.value[NAMES[0]]
    chances = (own, own.levels["block"], own.levels["chapter"])
    return [*(each.vulnerability for each in chances), own.greatest, own.likely, own.certain]


if __name__ == "__main__":
    main()
