"""The tables of 2017, section 5, for any data: what masking keeps at each noise level, reference and rounding."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from stream_masker.core.batch import Batch, Tally
from stream_masker.core.distance import Distance, distance_by_name
from stream_masker.core.mechanisms.noise.semantic import SemanticNoise
from stream_masker.core.mechanisms.options import REFERENCES
from stream_masker.core.mechanisms.windowed import WindowedMechanism
from stream_masker.core.ontology import Taxonomy
from stream_masker.core.statistics import Counts, Statistics, compute_statistics, count_batch, merge
from stream_masker.core.utility import Utility, utility
from stream_masker.evaluation.dataset import keys_of, markdown

ALPHAS = (0.1, 0.3, 0.5, 1.0)
"""The noise levels of the paper's tables."""

TABLE_ROUNDINGS = ("ceil", "calibrated")


@dataclass(frozen=True, slots=True)
class UtilityRow:
    """One masking of the whole data set: its parameters, and the measures of what it kept."""

    alpha: float
    reference: str
    rounding: str
    utility: Utility

    @property
    def parameters(self) -> Mapping[str, str]:
        """What the row is of, by column."""
        return {"reference": self.reference, "rounding": self.rounding, "α": f"{self.alpha:g}"}


@dataclass(frozen=True, slots=True)
class MechanismRow:
    """One masking of the whole data set by a mechanism as it is, and the measures of what it kept."""

    mechanism: str
    utility: Utility

    @property
    def parameters(self) -> Mapping[str, str]:
        """What the row is of, by column."""
        return {"mechanism": self.mechanism}


def utility_rows(
    batches: Sequence[Batch],
    taxonomies: Mapping[str, Taxonomy],
    *,
    secret: bytes,
    alphas: Sequence[float] = ALPHAS,
    references: Sequence[str] = REFERENCES,
    roundings: Sequence[str] = TABLE_ROUNDINGS,
    pairs: Sequence[tuple[str, str]] | None = None,
    distance: str = "wu_palmer",
    **options: Any,
) -> Iterator[UtilityRow]:
    """One row for each reference, rounding and α, in this order; the same noise (``secret``) throughout.

    ``batches``: the data, columns in the order of ``taxonomies``. ``pairs``: for reference ``pair``. ``options``:
    further parameters of ``SemanticNoise``. Raises ParameterError where the mechanism does, such as for reference
    ``pair`` on attributes that are no pair.
    """
    distances = [distance_by_name(distance, tau) for tau in taxonomies.values()]
    original = compute_statistics(_counts(batches, distances), tuple(taxonomies), distances, version=1)
    for reference, rounding, alpha in product(references, roundings, alphas):
        noise = SemanticNoise(
            taxonomies,
            alpha=alpha,
            reference=reference,
            rounding=rounding,
            pairs=pairs if reference == "pair" else None,
            distance=distance,
            seed=secret,
            **options,
        )
        yield UtilityRow(alpha, reference, rounding, _utility(noise, batches, original, secret, noise.alpha))


def mechanism_row(
    made: WindowedMechanism[Any], batches: Sequence[Batch], *, secret: bytes, alpha: Mapping[str, float]
) -> MechanismRow:
    """What any mechanism keeps. ``batches``: the data; each is a group, for a mechanism that masks groups. ``alpha``:
    by attribute, 0 where the mechanism knows no noise level."""
    original = made.compute(_counts(batches, made.distances), version=1)
    return MechanismRow(made.name, _utility(made, batches, original, secret, alpha))


def _utility(
    noise: WindowedMechanism[Any],
    batches: Sequence[Batch],
    original: Statistics,
    secret: bytes,
    alpha: Mapping[str, float],
) -> Utility:
    noise.restore(noise.snapshot_of(original))
    starts = np.cumsum([0, *(batch.size for batch in batches)])
    masked = [
        noise.mask_batch(batch, keys_of(secret, int(start), batch.size))
        for batch, start in zip(batches, starts[:-1], strict=True)
    ]
    after = [Batch(before.size, done.columns, None, done.numeric) for before, done in zip(batches, masked, strict=True)]
    statistics = compute_statistics(
        _counts(after, noise.distances),
        noise.attributes,
        noise.distances,
        version=1,
        numeric=noise.numeric_attributes,
    )
    tallies = [sum(column, Tally()) for column in zip(*(done.tallies for done in masked), strict=True)]
    return utility(original, statistics, tallies, alpha, noise.distances)


def _counts(batches: Sequence[Batch], distances: Sequence[Distance]) -> Counts:
    return merge(count_batch(batch, [len(d.taxonomy) for d in distances]) for batch in batches)


def utility_markdown(rows: Sequence[UtilityRow] | Sequence[MechanismRow]) -> str:
    """The rows as a Markdown table: per attribute what 2017's tables 2 to 4, 7 and 8 print, then each pair's."""
    head = [*rows[0].parameters, *_names(rows[0].utility)]
    return markdown(head, ([*row.parameters.values(), *_figures(row.utility)] for row in rows))


def _names(measures: Utility) -> list[str]:
    attributes = [
        f"{name}: {figure}"
        for name in measures.attributes
        for figure in ("sd(sMean*, sMean)", "sVar*, error", "RMSE actual / target")
    ]
    pairs = [f"{a}, {b}: {figure}" for a, b in measures.pairs for figure in ("sdCov*, error", "sdCor*, error")]
    return attributes + pairs


def _figures(measures: Utility) -> list[str]:
    cells = []
    for a in measures.attributes.values():
        cells += [f"{a.mean_distance:.2f}", f"{a.variance:.3f}, {a.variance_error:.3f}"]
        cells += [f"{a.rmse_actual:.3f} / {a.rmse_target:.3f}"]
    for p in measures.pairs.values():
        cells += [f"{p.covariance:.3f}, {p.covariance_error:.3f}", f"{p.correlation:.3f}, {p.correlation_error:.3f}"]
    return cells
