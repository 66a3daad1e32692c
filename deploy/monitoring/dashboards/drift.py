"""How the window differs from earlier versions."""

from __future__ import annotations

from typing import Any

from alerts import Thresholds
from panels import SHARE, Panel, Query, by_attribute
from queries import aggregated

from dashboards.model import Dashboard

_PAIR = "{{first}}, {{second}}"


def _drift(title: str, description: str, name: str, **options: Any) -> Panel:
    expression = aggregated("max", name, "attribute", "against")
    return Panel(title, description, [Query(expression, "{{attribute}} against {{against}}")], **options)


def _pair_drift(title: str, description: str, name: str) -> Panel:
    expression = aggregated("max", name, "first", "second", "against")
    return Panel(title, description, [Query(expression, f"{_PAIR} against {{{{against}}}}")])


DRIFT = Dashboard(
    "drift",
    "Drift",
    "How the window differs from the previous version and from the baseline.",
    {
        "Values": [
            _drift(
                "Divergence",
                "Jensen-Shannon divergence of rolled-up concepts, in [0, 1].",
                "drift_divergence",
                limits=[(float(Thresholds().divergence), "orange")],
            ),
            _drift("sMean", "Semantic distance between the sMeans.", "drift_mean"),
            by_attribute("Novel values", "Share that no earlier window held.", "novel_share", unit=SHARE),
            by_attribute("Unknown values", "Share that is not in the ontology.", "unknown_share", unit=SHARE),
        ],
        "Moments": [
            _drift("sVar", "Absolute difference of sVar.", "drift_variance"),
            _drift("sdVar", "Absolute difference of sdVar.", "drift_distance_variance"),
            _pair_drift("sdCov", "Absolute difference of sdCov.", "drift_covariance"),
            _pair_drift("sdCor", "Absolute difference of sdCor.", "drift_correlation"),
        ],
    },
)
