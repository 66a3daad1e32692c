"""The statistics of the window before and after masking."""

from __future__ import annotations

from panels import WIDE, Panel, Query, by_attribute
from queries import aggregated
from verdicts import CORRELATION_CHANGED, MEAN_MOVED

from dashboards.model import Dashboard

_DATA, _PAIR = "{{attribute}} {{data}}", "{{first}}, {{second}}"

SEMANTICS = Dashboard(
    "semantics",
    "Semantics",
    "The statistics of the window before and after masking, and how far masked values are from the originals.",
    {
        "Mean and dispersion": [
            Panel(
                "sMean",
                "The semantic mean, with its label. It is left out if few records are in its class.",
                [Query(aggregated("max", "smean", "attribute", "data", "concept", "label"), "")],
                columns=WIDE,
                kind="table",
                order=("attribute", "data", "concept", "label"),
            ),
            Panel(
                "sVar",
                "Semantic variance.",
                [Query(aggregated("max", "svar", "attribute", "data"), _DATA)],
            ),
            Panel(
                "RMSE",
                "Distance between originals and masks: actual, and the target that the noise sets.",
                [Query(aggregated("max", "rmse", "attribute", "kind"), "{{attribute}} {{kind}}")],
            ),
        ],
        "Σ and sdCor": [
            Panel(
                "Σ: diagonal (sdVar)",
                "Semantic distance variances.",
                [Query(aggregated("max", "sdvar", "attribute", "data"), _DATA)],
            ),
            Panel(
                "Σ: off the diagonal (sdCov)",
                "Semantic distance covariances.",
                [Query(aggregated("max", "sdcov", "first", "second", "data"), f"{_PAIR} {{{{data}}}}")],
            ),
            Panel(
                "sdCor, original and masked",
                "Semantic distance correlations before and after masking.",
                [Query(aggregated("max", "sdcor", "first", "second", "data"), f"{_PAIR} {{{{data}}}}")],
                top=1,
            ),
            Panel(
                "Projection of Σ",
                "Size of the change that makes Σ positive semidefinite.",
                [Query(aggregated("max", "psd_projection"), "projection")],
            ),
        ],
        "Utility": [
            by_attribute(
                "Distance of the sMeans",
                "Between original and masked sMean.",
                "utility_mean",
                limits=[(MEAN_MOVED, "orange")],
            ),
            by_attribute(
                "Error of sVar",
                "Masked sVar against what the mechanism promises: sVar, or (1 + α) sVar with noise.",
                "utility_variance",
            ),
            Panel(
                "Error of sdCov",
                "Masked sdCov against what the mechanism promises: sdCov, or (1 + α) sdCov with noise.",
                [Query(aggregated("max", "utility_covariance", "first", "second"), _PAIR)],
            ),
            Panel(
                "Error of sdCor",
                "Masked sdCor against the original one.",
                [Query(aggregated("max", "utility_correlation", "first", "second"), _PAIR)],
                limits=[(CORRELATION_CHANGED, "orange")],
            ),
        ],
    },
)
