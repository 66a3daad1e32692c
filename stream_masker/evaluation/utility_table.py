"""The tables of 2017, section 5, on any data: utility at each noise level, reference and rounding."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from stream_masker.core.batch import Batch, Distortion
from stream_masker.core.distance import Distance, distance_by_name
from stream_masker.core.mechanisms.noise.semantic import SemanticNoise
from stream_masker.core.mechanisms.options import REFERENCES
from stream_masker.core.mechanisms.windowed import WindowedMechanism
from stream_masker.core.ontology import Taxonomy
from stream_masker.core.statistics import Counts, Statistics, compute_statistics, count_batch, merge
from stream_masker.core.utility import Utility, utility
from stream_masker.evaluation.dataset import keys_of, markdown

ALPHAS = (0.1, 0.3, 0.5, 1.0)
"""The noise levels of the tables in the paper."""

TABLE_ROUNDINGS = ("ceil", "calibrated")


@dataclass(frozen=True, slots=True)
class UtilityRow:
    """The parameters and the utility of one masking of a data set by semantic noise."""

    alpha: float
    reference: str
    rounding: str
    utility: Utility

    @property
    def parameters(self) -> Mapping[str, str]:
        """The parameters by column, as text."""
        return {"reference": self.reference, "rounding": self.rounding, "α": f"{self.alpha:g}"}


@dataclass(frozen=True, slots=True)
class MechanismRow:
    """The utility of one masking of a data set by any mechanism."""

    mechanism: str
    utility: Utility

    @property
    def parameters(self) -> Mapping[str, str]:
        """The parameters by column, as text."""
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
    """Yield one row for each reference, rounding and α, in this order, all with the same noise (``secret``).

    ``batches``: the data, columns in the order of ``taxonomies``. ``pairs``: for the reference ``pair``. ``options``:
    further parameters of ``SemanticNoise``. Raises ParameterError like the mechanism, for example for the reference
    ``pair`` if the attributes do not form pairs.
    """
    distances = [distance_by_name(distance, tau) for tau in taxonomies.values()]
    counts = _counts(batches, distances)
    original: Statistics | None = None
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
        original = original or noise.compute(counts, version=1)
        yield UtilityRow(alpha, reference, rounding, _utility(noise, batches, original, secret, noise.alpha))


def mechanism_row(
    mechanism: WindowedMechanism[Any], batches: Sequence[Batch], *, secret: bytes, alpha: Mapping[str, float]
) -> MechanismRow:
    """The utility of a mechanism.

    ``batches``: the data; for a mechanism that masks groups of records, each batch is one group. ``alpha``: the noise
    level of each attribute, 0 if the mechanism has none.
    """
    original = mechanism.compute(_counts(batches, mechanism.distances), version=1)
    return MechanismRow(mechanism.name, _utility(mechanism, batches, original, secret, alpha))


def _utility(
    mechanism: WindowedMechanism[Any],
    batches: Sequence[Batch],
    original: Statistics,
    secret: bytes,
    alpha: Mapping[str, float],
) -> Utility:
    mechanism.restore(mechanism.snapshot_of(original))
    starts = np.cumsum([0, *(batch.size for batch in batches)])
    masked = [
        mechanism.mask_batch(batch, keys_of(secret, int(start), batch.size))
        for batch, start in zip(batches, starts[:-1], strict=True)
    ]
    after = [Batch(before.size, done.columns, None, done.numeric) for before, done in zip(batches, masked, strict=True)]
    statistics = compute_statistics(
        _counts(after, mechanism.distances),
        mechanism.attributes,
        mechanism.distances,
        version=1,
        numeric=mechanism.numeric_attributes,
    )
    distortions = [sum(column, Distortion()) for column in zip(*(done.distortions for done in masked), strict=True)]
    return utility(original, statistics, distortions, alpha, mechanism.distances)


def _counts(batches: Sequence[Batch], distances: Sequence[Distance]) -> Counts:
    return merge(count_batch(batch, [len(d.taxonomy) for d in distances]) for batch in batches)


def utility_markdown(rows: Sequence[UtilityRow] | Sequence[MechanismRow]) -> str:
    """A Markdown table with the columns of tables 2 to 4, 7 and 8 of 2017: those of attributes, then those of pairs."""
    header = [*rows[0].parameters, *_column_names(rows[0].utility)]
    return markdown(header, ([*row.parameters.values(), *_cells(row.utility)] for row in rows))


def _column_names(measures: Utility) -> list[str]:
    attributes = [
        f"{name}: {measure}"
        for name in measures.attributes
        for measure in ("sd(sMean*, sMean)", "sVar*, error", "RMSE actual / target")
    ]
    pairs = [f"{a}, {b}: {measure}" for a, b in measures.pairs for measure in ("sdCov*, error", "sdCor*, error")]
    return attributes + pairs


def _cells(measures: Utility) -> list[str]:
    cells = []
    for a in measures.attributes.values():
        cells += [f"{a.mean_distance:.2f}", f"{a.variance:.3f}, {a.variance_error:.3f}"]
        cells += [f"{a.rmse_actual:.3f} / {a.rmse_target:.3f}"]
    for p in measures.pairs.values():
        cells += [f"{p.covariance:.3f}, {p.covariance_error:.3f}", f"{p.correlation:.3f}, {p.correlation_error:.3f}"]
    return cells
