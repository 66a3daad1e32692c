"""The lines that show people a statistics version: in ``show`` and in the demonstration."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import combinations
from typing import Any

from stream_masker.core.statistics import Statistics

ReportedMeasures = Mapping[str, Any]
"""The measures of a drift report: ``utility`` or ``baseline``."""


def statistics_lines(
    version: int,
    source: str,
    statistics: Statistics,
    means: Mapping[str, str],
    utility: ReportedMeasures | None,
    *,
    more: Callable[[str], Iterable[str]] = lambda _: (),
    unknown: str = "",
) -> Iterator[str]:
    """Yield the lines for a version, sMean, sVar, sdCor and what is known of the masked records.

    * ``means``: the text for sMean of each attribute. ``utility``: the measures of the masked records, or None.
    * ``more``: further lines about an attribute. ``unknown``: what follows a correlation that masks have not yet.
    """
    measures = utility or {"attributes": {}, "pairs": []}
    yield f"statistics version {version} ({source}, {statistics.records:,} records)"
    for name in statistics.attributes:
        yield f"  {name}: {means[name]}, sVar {statistics.variance[name]:.4f}"
        if masked := measures["attributes"].get(name):
            yield (
                f"    masked: sVar {masked['variance']:.4f}, RMSE actual {masked['rmse_actual']:.4f}, "
                f"target {masked['rmse_target']:.4f}"
            )
        yield from (f"    {text}" for text in more(name))
    known = {tuple(pair["attributes"]): pair["correlation"] for pair in measures["pairs"]}
    for (i, first), (j, second) in combinations(enumerate(statistics.attributes), 2):
        after = known.get((first, second))
        text = unknown if after is None else f", masked {after:.4f}"
        yield f"  sdCor({first}, {second}): original {statistics.correlation[i][j]:.4f}{text}"
