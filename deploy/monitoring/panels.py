"""Panels of dashboards, built with the Grafana foundation SDK."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from grafana_foundation_sdk.builders import common, dashboard, prometheus, stat, table, timeseries
from grafana_foundation_sdk.models import common as common_models
from grafana_foundation_sdk.models import dashboard as dashboard_models
from grafana_foundation_sdk.models.prometheus import PromQueryFormat
from queries import metric

PanelKind: TypeAlias = Literal["timeseries", "stat", "table"]
PanelBuilder: TypeAlias = timeseries.Panel | stat.Panel | table.Panel

DATASOURCE = dashboard_models.DataSourceRef(type_val="prometheus", uid="${datasource}")

COLUMNS = 24
"""The width of a dashboard, in columns of Grafana's grid."""

STAT_HEIGHT, HEIGHT = 4, 8


@dataclass(frozen=True, slots=True)
class Query:
    """An expression, with Grafana's pattern for the names of its series."""

    expression: str
    legend: str


@dataclass(frozen=True, slots=True)
class Panel:
    """A panel. ``unit``: as Grafana names it. ``columns``: its width. ``top``: the end of its axis, if it has one."""

    title: str
    description: str
    queries: Sequence[Query]
    unit: str = "short"
    columns: int = COLUMNS // 2
    kind: PanelKind = "timeseries"
    top: float | None = None


def built_panel(panel: Panel) -> PanelBuilder:
    """Return the SDK's builder of a panel."""
    if panel.kind == "table":
        return _with_queries(table.Panel(), panel, instant=True)
    if panel.kind == "stat":
        options = common.ReduceDataOptions().calcs(["lastNotNull"])
        return _with_queries(stat.Panel().reduce_options(options), panel, instant=True)
    return _with_queries(_lines(panel), panel, instant=False)


def _lines(panel: Panel) -> timeseries.Panel:
    legend = common.VizLegendOptions().display_mode(common_models.LegendDisplayMode.LIST)
    built = timeseries.Panel().min(0).legend(legend.placement(common_models.LegendPlacement.BOTTOM).show_legend(True))
    return built.line_width(2) if panel.top is None else built.line_width(2).max(panel.top)


def _with_queries(built: PanelBuilder, panel: Panel, *, instant: bool) -> PanelBuilder:
    built.title(panel.title).description(panel.description).datasource(DATASOURCE).unit(panel.unit)
    built.span(panel.columns).height(STAT_HEIGHT if panel.kind == "stat" else HEIGHT)
    for i, query in enumerate(panel.queries):
        target = prometheus.Dataquery().expr(query.expression).legend_format(query.legend).ref_id(chr(ord("A") + i))
        target = target.instant() if instant else target.range()
        built.with_target(target.format(PromQueryFormat.TABLE) if panel.kind == "table" else target)
    return built


def variables() -> tuple[dashboard.DatasourceVariable, dashboard.QueryVariable, dashboard.QueryVariable]:
    """Return the variables of every dashboard: the data source, the jobs of Prometheus that scrape the service, and the
    named populations. All populations include the one without a name."""
    source = dashboard.DatasourceVariable("datasource").label("Data source").type("prometheus")
    return source, _label_variable("job", "Job"), _label_variable("population", "Population")


def _label_variable(label: str, title: str) -> dashboard.QueryVariable:
    chosen = dashboard.QueryVariable(label).label(title).datasource(DATASOURCE).multi(True).include_all(True)
    return (
        chosen.query(f"label_values({metric('statistics_version')}, {label})")
        .refresh(dashboard_models.VariableRefresh.ON_DASHBOARD_LOAD)
        .all_value(".*")
        .current(dashboard_models.VariableOption(selected=True, text=["All"], value=["$__all"]))
    )
