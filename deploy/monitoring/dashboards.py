"""All dashboards: their rows of panels, and the JSON that Grafana reads.

Figures of a window come from the active calibrator. ``max`` joins the series of several calibrators, because the ones
that stand by have none.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from grafana_foundation_sdk.builders.dashboard import Dashboard as DashboardBuilder
from grafana_foundation_sdk.builders.dashboard import Row
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import DashboardCursorSync
from panels import COLUMNS, Panel, Query, built_panel, variables
from queries import SELECTED_SERIES, aggregated, metric, quantile, rate

SHARE, SECONDS = "percentunit", "s"

WIDE, HALF, QUARTER = COLUMNS, COLUMNS // 2, COLUMNS // 4


@dataclass(frozen=True, slots=True)
class Dashboard:
    """A dashboard: its name as part of its uid and file name, its title, and its rows of panels by title."""

    name: str
    title: str
    description: str
    rows: Mapping[str, Sequence[Panel]]

    @property
    def panels(self) -> list[Panel]:
        return [panel for panels in self.rows.values() for panel in panels]


def _one(title: str, description: str, expression: str, unit: str = "short") -> Panel:
    """A single number."""
    return Panel(title, description, [Query(expression, title)], unit, QUARTER, "stat")


def _by_attribute(title: str, description: str, name: str, **options: object) -> Panel:
    """Lines of a gauge, one for each attribute."""
    return Panel(title, description, [Query(aggregated("max", name, "attribute"), "{{attribute}}")], **options)  # type: ignore[arg-type]


OVERVIEW = Dashboard(
    "overview",
    "Overview",
    "Rates, lag, rejections, latency, and what holds the workers.",
    {
        "State": [
            _one("Masked records", "Masked records per second.", rate("records_masked_total"), "ops"),
            _one("Lag", "Uncommitted records of all partitions.", aggregated("sum", "consumer_lag_assigned")),
            _one("Held workers", "Workers without usable statistics.", aggregated("sum", "held")),
            _one("Statistics", "The newest statistics version in use.", aggregated("max", "statistics_version")),
        ],
        "Records": [
            Panel(
                "Records by outcome",
                "Records per second in committed transactions.",
                [
                    Query(rate("records_in_total"), "in"),
                    Query(rate("records_masked_total"), "masked"),
                    Query(rate("records_rejected_total"), "rejected"),
                    Query(rate("tombstones_total"), "tombstones"),
                ],
                "ops",
            ),
            Panel(
                "Rejections by reason",
                "Rejected records per second.",
                [Query(rate("records_rejected_total", "reason"), "{{reason}}")],
                "ops",
            ),
            Panel(
                "Lag by partition",
                "Uncommitted records of each partition.",
                [Query(aggregated("sum", "consumer_lag", "topic", "partition"), "{{topic}} {{partition}}")],
            ),
            Panel(
                "Latency of a batch",
                "Time to mask, write and commit a batch.",
                [Query(quantile(q, "batch_duration_seconds"), f"p{q * 100:g}") for q in (0.5, 0.9, 0.99)],
                SECONDS,
            ),
        ],
        "Workers": [
            Panel(
                "Held, and why",
                "Workers that hold their input, by reason.",
                [Query(aggregated("sum", "held_because", "reason"), "{{reason}}")],
            ),
            Panel(
                "Transactions by outcome",
                "Transactions per second.",
                [Query(rate("transactions_total", "outcome"), "{{outcome}}")],
                "ops",
            ),
            Panel(
                "Partitions",
                "Input partitions of each worker.",
                [Query(aggregated("sum", "assigned_partitions", "instance"), "{{instance}}")],
            ),
            Panel(
                "Age of the statistics",
                "Age of the statistics in use in each process.",
                [Query(aggregated("max", "statistics_age_seconds", "instance"), "{{instance}}")],
                SECONDS,
            ),
        ],
    },
)

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
            _by_attribute("Distance of the sMeans", "Between original and masked sMean.", "utility_mean"),
            _by_attribute("Error of sVar", "Masked sVar against (1 + α) sVar.", "utility_variance"),
            Panel(
                "Error of sdCov",
                "Masked sdCov against (1 + α) sdCov.",
                [Query(aggregated("max", "utility_covariance", "first", "second"), _PAIR)],
            ),
            Panel(
                "Error of sdCor",
                "Masked sdCor against the original one.",
                [Query(aggregated("max", "utility_correlation", "first", "second"), _PAIR)],
            ),
        ],
    },
)


def _drift(title: str, description: str, name: str) -> Panel:
    expression = aggregated("max", name, "attribute", "against")
    return Panel(title, description, [Query(expression, "{{attribute}} against {{against}}")])


def _pair_drift(title: str, description: str, name: str) -> Panel:
    expression = aggregated("max", name, "first", "second", "against")
    return Panel(title, description, [Query(expression, f"{_PAIR} against {{{{against}}}}")])


DRIFT = Dashboard(
    "drift",
    "Drift",
    "How the window differs from the previous version and from the baseline.",
    {
        "Values": [
            _drift("Divergence", "Jensen-Shannon divergence of rolled-up concepts, in [0, 1].", "drift_divergence"),
            _drift("sMean", "Semantic distance between the sMeans.", "drift_mean"),
            _by_attribute("Novel values", "Share that no earlier window held.", "novel_share", unit=SHARE),
            _by_attribute("Unknown values", "Share that is not in the ontology.", "unknown_share", unit=SHARE),
        ],
        "Moments": [
            _drift("sVar", "Absolute difference of sVar.", "drift_variance"),
            _drift("sdVar", "Absolute difference of sdVar.", "drift_distance_variance"),
            _pair_drift("sdCov", "Absolute difference of sdCov.", "drift_covariance"),
            _pair_drift("sdCor", "Absolute difference of sdCor.", "drift_correlation"),
        ],
    },
)

PROTECTION = Dashboard(
    "protection",
    "Protection",
    "What an attacker learns who knows all but the secret.",
    {
        "Limits": [
            _one("Crossed limits", "Limits of the section risk.", aggregated("max", "risk_limits_crossed")),
            _one("Withheld versions", "Since the start.", aggregated("sum", "statistics_withheld_total")),
            _one("Guessed records", "Given all masks.", aggregated("max", "risk_record_vulnerability"), SHARE),
            _one("Unchanged records", "No value changes.", aggregated("max", "risk_record_unchanged_share"), SHARE),
        ],
        "Best guess of a value": [
            Panel(
                "Vulnerability",
                "Chance of the best guess of a value: without masks (prior), given its mask, or given its record's.",
                [
                    Query(aggregated("max", "risk_vulnerability", "attribute", "given"), "{{attribute}}, {{given}}"),
                    Query(aggregated("max", "risk_prior", "attribute"), "{{attribute}} prior"),
                ],
                SHARE,
                top=1,
            ),
            Panel(
                "RMSE",
                "Distance between originals and masks, beside the vulnerability.",
                [Query(aggregated("max", "rmse", "attribute", kind="actual"), "{{attribute}}")],
            ),
            Panel(
                "Share certain",
                "Values that are guessed with a probability above 0.9 and above 0.5.",
                [
                    Query(aggregated("max", "risk_certain_share", "attribute"), "{{attribute}} above 0.9"),
                    Query(aggregated("max", "risk_likely_share", "attribute"), "{{attribute}} above 0.5"),
                ],
                SHARE,
                top=1,
            ),
            _by_attribute("Expected guesses", "Until the original of a mask is found.", "risk_expected_rank"),
            _by_attribute("Uncertainty in bits", "About the original of a mask.", "risk_entropy"),
            Panel(
                "After repeats",
                "Chance of the best guess of a value after several masks of it.",
                [
                    Query(
                        aggregated("max", "risk_repeated_vulnerability", "attribute", "given"),
                        "{{attribute}}, {{given}}",
                    )
                ],
                SHARE,
                top=1,
            ),
            Panel(
                "Linked records",
                "Share of 1,000 random records whose nearest masked record is their own.",
                [Query(aggregated("max", "risk_linked_share"), "linked")],
                SHARE,
                top=1,
            ),
            Panel(
                "Unique pairs",
                "Rows whose pair of values no other row of the window has.",
                [Query(aggregated("max", "risk_unique_share", "records"), "{{records}}")],
                SHARE,
            ),
            _by_attribute("ε of the channel", "Infinite if a mask excludes an original.", "risk_epsilon"),
            _by_attribute("Share unchanged", "Values that stay.", "risk_unchanged_share", unit=SHARE, top=1.0),
            Panel(
                "Bound of the figures of records",
                "They differ by no more from the truth, with 95 % confidence.",
                [Query(aggregated("max", "risk_bound"), "bound")],
            ),
        ],
        "Values as masked": [
            Panel(
                "Unchanged values",
                "Share of the window's values that masking left, and of its records in which it left all.",
                [
                    Query(aggregated("max", "unchanged_share", "attribute"), "{{attribute}}"),
                    Query(aggregated("max", "unchanged_records_share"), "whole records"),
                ],
                SHARE,
                top=1,
            ),
            Panel(
                "Truncated and unsigned values",
                "Share of the window's values without a concept far enough, or on the right side.",
                [
                    Query(aggregated("max", "truncated_share", "attribute"), "{{attribute}} truncated"),
                    Query(aggregated("max", "unsigned_share", "attribute"), "{{attribute}} unsigned"),
                ],
                SHARE,
            ),
        ],
    },
)

CALIBRATOR = Dashboard(
    "calibrator",
    "Calibrator",
    "The calibration window, the versions, and what the calibrator refuses.",
    {
        "Window and versions": [
            _one("Records in the window", "", aggregated("max", "window_records")),
            _one("Blocks in the window", "", aggregated("max", "window_blocks")),
            _one("Version", "In use by calibrators.", f"max ({metric('statistics_version', SELECTED_SERIES)})"),
            _one("Privacy budget spent", "Since the start.", aggregated("sum", "publication_epsilon_total")),
        ],
        "Work": [
            Panel(
                "Published versions",
                "Versions per second, by source.",
                [Query(rate("statistics_published_total", "source"), "{{source}}")],
                "ops",
            ),
            Panel(
                "Time of a calibration",
                "Time to compute statistics.",
                [Query(quantile(q, "calibration_duration_seconds"), f"p{q * 100:g}") for q in (0.5, 0.99)],
                SECONDS,
            ),
            Panel(
                "Windows",
                "Windows per second that statistics were due for, by outcome.",
                [Query(rate("calibration_windows_total", "outcome"), "{{outcome}}")],
                "ops",
            ),
            Panel(
                "Processor time",
                "Cores that compute statistics.",
                [Query(rate("calibration_processor_seconds_total"), "cores")],
            ),
            Panel(
                "Blocks read",
                "Calibration blocks per second, by outcome.",
                [Query(rate("blocks_read_total", "outcome"), "{{outcome}}")],
                "ops",
            ),
            Panel(
                "Blocks written",
                "Calibration blocks per second that workers wrote, or left out because of their size.",
                [
                    Query(rate("blocks_total"), "written"),
                    Query(rate("blocks_left_out_total"), "left out"),
                ],
                "ops",
            ),
        ],
        "Refusals": [
            Panel(
                "Messages that are not authentic",
                "Messages of internal topics per second, by topic and cause.",
                [Query(rate("messages_refused_total", "topic", "cause"), "{{topic}} {{cause}}")],
                "ops",
            ),
            Panel(
                "Refused statistics and configurations",
                "Since the start.",
                [
                    Query(aggregated("sum", "statistics_refused_total"), "statistics"),
                    Query(aggregated("sum", "configuration_refused_total"), "configurations"),
                    Query(aggregated("sum", "psd_projections_total"), "projections of Σ"),
                ],
            ),
        ],
    },
)

DASHBOARDS = (OVERVIEW, SEMANTICS, DRIFT, PROTECTION, CALIBRATOR)


def dashboard_json(dashboard: Dashboard) -> str:
    """Return the JSON model of a dashboard, as Grafana imports it."""
    built = DashboardBuilder(f"stream-masker / {dashboard.title}").uid(f"stream-masker-{dashboard.name}")
    built.description(dashboard.description).tags(["stream-masker"]).readonly()
    built.refresh("30s").time("now-1h", "now").timezone("browser").tooltip(DashboardCursorSync.CROSSHAIR)
    for variable in variables():
        built.with_variable(variable)
    for title, panels in dashboard.rows.items():
        built.with_row(Row(title))
        for panel in panels:
            built.with_panel(built_panel(panel))
    return _text(built)


def _text(built: DashboardBuilder) -> str:
    """Return the JSON with an id for each panel, so that the same source always gives the same file."""
    model = json.loads(JSONEncoder(sort_keys=True).encode(built.build()))
    for number, panel in enumerate(model["panels"], 1):
        panel["id"] = number
    return json.dumps(model, indent=2, ensure_ascii=False, sort_keys=True) + "\n"
