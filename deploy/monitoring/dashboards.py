"""The two dashboards, built with the Grafana foundation SDK: is it all right, and what moved?"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from alerts import PREFIX, Thresholds
from grafana_foundation_sdk.builders import common, dashboard, prometheus, stat, table, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import common as common_models
from grafana_foundation_sdk.models import dashboard as models
from grafana_foundation_sdk.models.prometheus import PromQueryFormat
from queries import SELECTED_SERIES, aggregated, metric, quantile, rate

PanelBuilder: TypeAlias = timeseries.Panel | stat.Panel | table.Panel
Limit: TypeAlias = tuple[float, Literal["orange", "red"]]
"""A value from which on a figure has another color. Lines show it as dashes."""

DATASOURCE = models.DataSourceRef(type_val="prometheus", uid="${datasource}")
SHARE, SECONDS, RECORDS_A_SECOND = "percentunit", "s", "recps"
COLUMNS, STAT_HEIGHT, HEIGHT = 24, 4, 8
AT = Thresholds()


@dataclass(frozen=True, slots=True)
class Panel:
    """A panel.

    ``queries``: expressions by Grafana's pattern for the names of their series. ``unit``: as Grafana names it.
    ``columns``: the labels that are the columns of a table.
    """

    kind: Literal["lines", "number", "table"]
    title: str
    description: str
    queries: Mapping[str, str]
    unit: str = "short"
    limits: Sequence[Limit] = ()
    columns: Sequence[str] = ()
    width: int = COLUMNS // 2


@dataclass(frozen=True, slots=True)
class Dashboard:
    """A dashboard: its name as part of its uid and file name, its title, and its rows of panels by title."""

    name: str
    title: str
    rows: Mapping[str, Sequence[Panel]]

    @property
    def panels(self) -> list[Panel]:
        """The panels of all rows."""
        return [panel for panels in self.rows.values() for panel in panels]


def _number(title: str, description: str, expression: str, *limits: Limit, unit: str = "short") -> Panel:
    return Panel("number", title, description, {title: expression}, unit, limits, width=COLUMNS // 6)


def _gauge(title: str, description: str, name: str, *labels: str, against: str = "", **options: Any) -> Panel:
    """Return the lines of a gauge: one for each combination of labels, of a value of ``against`` if it is given."""
    legend, selected = " ".join(f"{{{{{one}}}}}" for one in labels), {"against": against} if against else {}
    return Panel("lines", title, description, {legend: aggregated("max", name, *labels, **selected)}, **options)


def _table(title: str, description: str, columns: tuple[str, ...], unit: str = "short", **queries: str) -> Panel:
    return Panel("table", title, description, queries, unit, columns=columns)


FIRING = f'ALERTS{{alertname=~"{PREFIX}.+", alertstate="firing", {SELECTED_SERIES}}}'
MOVED = ("attribute", "level", "concept", "label")
MEANS = ("attribute", "data", "concept", "label")
PAIR = ("first", "second", "data")
LAG, DRIFTS = "consumer_lag", ("attribute", "figure", "against")
BEYOND = f"{aggregated('max', 'drift', *DRIFTS)} / ({aggregated('max', 'drift_limit', *DRIFTS)} > 0)"

NOW = [
    _number("Alerts", "Alerts that fire.", f"count({FIRING}) or vector(0)", (1, "red")),
    _number(
        "Not ready",
        "Processes that are not ready; /readyz of a process gives the reason.",
        f"sum(1 - {aggregated('min', 'ready', 'instance')})",
        (1, "red"),
    ),
    _number("Masked", "Masked records per second.", rate("records_masked_total"), unit=RECORDS_A_SECOND),
    _number("Lag", "Uncommitted records.", aggregated("sum", LAG), (float(AT.lag), "orange")),
    _number(
        "Age of the statistics",
        "Of the oldest version in use.",
        aggregated("max", "statistics_age_seconds"),
        (float(AT.stale_seconds), "orange"),
        unit=SECONDS,
    ),
    _number(
        "Limits crossed",
        "Limits of the disclosure risk that the last version crosses.",
        aggregated("max", "risk_limits_crossed"),
        (1, "red"),
    ),
]

PROBLEMS = [
    _table(
        "Alerts that fire",
        "Their sections in the documentation say what to do.",
        ("alertname", "severity", "attribute", "component", "job"),
        firing=f"max by (alertname, severity, attribute, component, job) ({FIRING})",
    ),
    _table(
        "Reasons of processes",
        "Why processes are not ready, and why workers hold their input.",
        ("instance", "component", "reason"),
        not_ready=f"{aggregated('max', 'not_ready_because', 'instance', 'component')} > 0",
        held=f"{aggregated('max', 'held_because', 'instance', 'reason')} > 0",
    ),
]

RECORDS = [
    Panel(
        "lines",
        "Records",
        "Records per second in committed transactions.",
        {"in": rate("records_in_total"), "masked": rate("records_masked_total")},
        RECORDS_A_SECOND,
    ),
    Panel(
        "lines",
        "Rejected and skipped",
        "Records per second: rejected, by reason, and deleted by retention before they were read.",
        {
            "{{reason}}": f"{rate('records_rejected_total', 'reason')} > 0",
            "skipped": rate("records_skipped_total"),
        },
        RECORDS_A_SECOND,
    ),
    Panel(
        "lines",
        "Lag",
        "Uncommitted records: of all partitions, and of the one that is most behind.",
        {"all partitions": aggregated("sum", LAG), "most behind": aggregated("max", LAG)},
        limits=[(float(AT.lag), "orange")],
    ),
    Panel(
        "lines",
        "Time of a batch",
        "Time to mask, write and commit a batch.",
        {f"p{share:.0f}": quantile(share / 100, "batch_duration_seconds") for share in (50.0, 99.0)},
        SECONDS,
    ),
]

PROTECTION = [
    Panel(
        "lines",
        "Guessed right",
        "Chance of the best guess of a code: without masks, from its own mask, from all of its record.",
        {
            "{{attribute}} without masks": aggregated("max", "risk_prior", "attribute"),
            "{{attribute}} from {{given}}": aggregated("max", "risk_vulnerability", "attribute", "given"),
        },
        SHARE,
    ),
    _gauge(
        "Guessed with certainty",
        "Share of the codes that are guessed with a probability above 0.9.",
        *("risk_certain_share", "attribute", "given"),
        unit=SHARE,
    ),
    _gauge(
        "Unchanged",
        "Share of the codes that masking leaves as they are.",
        *("unchanged_share", "attribute"),
        unit=SHARE,
        limits=[(float(AT.unchanged), "red")],
    ),
    _gauge("RMSE", "Distance of originals and masks: actual, and the target.", "rmse", "attribute", "kind"),
]

MOVES = [
    _gauge(
        "Verdict",
        "0 none: by chance. 1 watch: beyond chance. 2 act: as great as practice acts on.",
        *("drift_verdict", "against"),
        limits=[(1, "orange"), (2, "red")],
    ),
    _table(
        "Codes and blocks that moved most",
        "By how much their share differs from the baseline. Those of few records are left out.",
        MOVED,
        SHARE,
        moved=aggregated("max", "drift_moved", *MOVED),
    ),
    Panel(
        "lines",
        "Figures beyond chance",
        "Figures as multiples of the limit that they exceed only by chance; expected: of masks.",
        {"{{attribute}} {{figure}} {{against}}": BEYOND},
        limits=[(1, "orange")],
        width=COLUMNS,
    ),
]

MASKING = [
    _table(
        "sMean",
        "The semantic mean, with its label. It is left out if few records are in its class.",
        MEANS,
        means=aggregated("max", "smean", *MEANS),
    ),
    _gauge("sVar", "Semantic variance.", "svar", "attribute", "data"),
    _gauge("sdCor", "Semantic distance correlation.", "sdcor", *PAIR),
    _gauge("sdCov", "Semantic distance covariance, and sdVar.", "sdcov", *PAIR),
    _gauge(
        "Masks against the expected ones",
        "Distance of the sMeans, and differences of sVar and sdCor.",
        *("drift", "attribute", "figure"),
        against="expected",
    ),
]

OVERVIEW = Dashboard(
    "overview", "Is it all right?", {"Now": NOW, "Problems": PROBLEMS, "Records": RECORDS, "Protection": PROTECTION}
)
DRIFT = Dashboard("drift", "What moved?", {"Drift": MOVES, "Before and after masking": MASKING})
DASHBOARDS = (OVERVIEW, DRIFT)


def dashboard_json(one: Dashboard) -> str:
    """Return the JSON model of a dashboard, as Grafana imports it; the same source always gives the same file."""
    built = dashboard.Dashboard(f"stream-masker / {one.title}").uid(f"stream-masker-{one.name}")
    built.tags(["stream-masker"]).readonly().refresh("30s").time("now-1h", "now").timezone("browser")
    built.tooltip(models.DashboardCursorSync.CROSSHAIR)
    built.with_variable(dashboard.DatasourceVariable("datasource").label("Data source").type("prometheus"))
    built.with_variable(_job_variable())
    for title, panels in one.rows.items():
        built.with_row(dashboard.Row(title))
        for panel in panels:
            built.with_panel(_built(panel))
    model = json.loads(JSONEncoder(sort_keys=True).encode(built.build()))
    for number, panel in enumerate(model["panels"], 1):
        panel["id"] = number
    return json.dumps(model, indent=2, ensure_ascii=False, sort_keys=True) + "\n"


def _job_variable() -> dashboard.QueryVariable:
    """Return the variable of the jobs of Prometheus that scrape the service; by default, all."""
    chosen = dashboard.QueryVariable("job").label("Job").datasource(DATASOURCE).multi(True).include_all(True)
    return (
        chosen.query(f"label_values({metric('build_info')}, job)")
        .refresh(models.VariableRefresh.ON_DASHBOARD_LOAD)
        .all_value(".*")
        .current(models.VariableOption(selected=True, text=["All"], value=["$__all"]))
    )


def _built(panel: Panel) -> PanelBuilder:
    """Return the SDK's builder of a panel."""
    built = {"table": _columns, "number": _stat, "lines": _lines}[panel.kind](panel)
    built.title(panel.title).description(panel.description).datasource(DATASOURCE).unit(panel.unit).span(panel.width)
    built.height(STAT_HEIGHT if panel.kind == "number" else HEIGHT).thresholds(_thresholds(panel))
    for number, (legend, expression) in enumerate(panel.queries.items()):
        target = prometheus.Dataquery().expr(expression).legend_format(legend).ref_id(chr(ord("A") + number))
        target = target.range() if panel.kind == "lines" else target.instant()
        built.with_target(target.format(PromQueryFormat.TABLE) if panel.kind == "table" else target)
    return built


def _columns(panel: Panel) -> PanelBuilder:
    """Return a table of labels: one row a series, without the time and the value."""
    order = {name: place for place, name in enumerate(panel.columns)}
    hidden = dict.fromkeys(("Time", "Value", *(f"Value #{one}" for one in "AB")), True)
    options = {"excludeByName": hidden, "indexByName": order}
    steps = [models.DataTransformerConfig(id_val="merge", options={})] if len(panel.queries) > 1 else []
    return table.Panel().transformations([*steps, models.DataTransformerConfig(id_val="organize", options=options)])


def _stat(panel: Panel) -> PanelBuilder:
    built = stat.Panel().reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
    return built.graph_mode(common_models.BigValueGraphMode.NONE).color_mode(common_models.BigValueColorMode.VALUE)


def _lines(panel: Panel) -> PanelBuilder:
    legend = common.VizLegendOptions().display_mode(common_models.LegendDisplayMode.LIST)
    built = timeseries.Panel().min(0).line_width(2)
    built.legend(legend.placement(common_models.LegendPlacement.BOTTOM).show_legend(True))
    if panel.limits:
        dashes = common.GraphThresholdsStyleConfig().mode(common_models.GraphThresholdsStyleMode.DASHED)
        built.thresholds_style(dashes)
    return built


def _thresholds(panel: Panel) -> dashboard.ThresholdsConfig:
    """Return the colors. Without limits a figure has none; Grafana's default shows every value from 80 on in red."""
    steps = [models.Threshold(None, "green" if panel.limits else "text")]
    steps += [models.Threshold(value, color) for value, color in panel.limits]
    return dashboard.ThresholdsConfig().mode(models.ThresholdsMode.ABSOLUTE).steps(steps)
