"""Panels of dashboards, built with the Grafana foundation SDK."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from grafana_foundation_sdk.builders import common, dashboard, prometheus, stat, table, timeseries
from grafana_foundation_sdk.models import common as common_models
from grafana_foundation_sdk.models import dashboard as dashboard_models
from grafana_foundation_sdk.models.prometheus import PromQueryFormat
from queries import aggregated, metric

PanelKind: TypeAlias = Literal["timeseries", "stat", "table"]
PanelBuilder: TypeAlias = timeseries.Panel | stat.Panel | table.Panel
Color: TypeAlias = Literal["green", "orange", "red", "blue", "text"]

DATASOURCE = dashboard_models.DataSourceRef(type_val="prometheus", uid="${datasource}")

SHARE, SECONDS, BYTES, RECORDS_A_SECOND = "percentunit", "s", "bytes", "recps"

COLUMNS = 24
"""The width of a dashboard, in columns of Grafana's grid."""

WIDE, HALF, THIRD, QUARTER = COLUMNS, COLUMNS // 2, COLUMNS // 3, COLUMNS // 4

STAT_HEIGHT, HEIGHT = 4, 8

NARROW, NARROW_PIXELS = {"attribute", "data", "concept", "partition", "process", "version"}, 120
"""The columns of tables with short texts, which leave the width to those with long ones."""


@dataclass(frozen=True, slots=True)
class Query:
    """An expression, with Grafana's pattern for the names of its series."""

    expression: str
    legend: str


@dataclass(frozen=True, slots=True)
class Word:
    """The text and the color that stand for a value."""

    text: str
    color: Color


@dataclass(frozen=True, slots=True)
class Panel:
    """A panel.

    * ``unit``: as Grafana names it. ``whole``: whether values are small whole numbers. ``columns``: its width. ``top``:
      the end of its axis, if it has one.
    * ``limits``: values from which on a figure has another color. Lines show them as dashes. Without limits a figure
      says nothing by its color; Grafana's own default would show every value from 80 on in red.
    * ``words``: what a value stands for. ``dashboard``: the one that a verdict leads to.
    * ``order``: the labels that are columns of a table. ``shown``: the title of its value, which is the first column.
    """

    title: str
    description: str
    queries: Sequence[Query]
    unit: str = "short"
    whole: bool = False
    columns: int = HALF
    kind: PanelKind = "timeseries"
    top: float | None = None
    limits: Sequence[tuple[float, Color]] = ()
    words: Mapping[int, Word] = field(default_factory=dict)
    dashboard: str = ""
    order: Sequence[str] = ()
    shown: str = ""


def number(
    title: str,
    description: str,
    expression: str,
    unit: str = "short",
    *limits: tuple[float, Color],
    columns: int = QUARTER,
) -> Panel:
    """Return a panel of a single number."""
    return Panel(title, description, [Query(expression, title)], unit, columns=columns, kind="stat", limits=limits)


def by_attribute(title: str, description: str, name: str, **options: Any) -> Panel:
    """Return a panel with the lines of a gauge, one for each attribute."""
    return Panel(title, description, [Query(aggregated("max", name, "attribute"), "{{attribute}}")], **options)


def built_panel(panel: Panel) -> PanelBuilder:
    """Return the SDK's builder of a panel."""
    if panel.kind == "table":
        built = table.Panel().transformations(_columns(panel)).mappings(_mappings(panel))
        for name in filter(NARROW.__contains__, panel.order):
            built.override_by_name(name, [dashboard_models.DynamicConfigValue("custom.width", NARROW_PIXELS)])
        return _with_queries(built, panel, instant=True)
    if panel.kind == "stat":
        return _with_queries(_number(panel), panel, instant=True)
    return _with_queries(_lines(panel), panel, instant=False)


def _columns(panel: Panel) -> list[dashboard_models.DataTransformerConfig]:
    """Return what puts the columns in order, and leaves out the time, and the value unless it has a title."""
    hidden = ["Time", *([] if panel.shown else ["Value"])]
    options = {
        "excludeByName": dict.fromkeys(hidden, True),
        "renameByName": {"Value": panel.shown} if panel.shown else {},
        "indexByName": {name: place for place, name in enumerate(("Value", *panel.order))},
    }
    return [
        dashboard_models.DataTransformerConfig(id_val="organize", options=options),
    ]


def _number(panel: Panel) -> stat.Panel:
    options = common.ReduceDataOptions().calcs(["lastNotNull"])
    built = stat.Panel().reduce_options(options).graph_mode(common_models.BigValueGraphMode.NONE)
    if not panel.words:
        return built.color_mode(common_models.BigValueColorMode.VALUE)
    return (
        built.color_mode(common_models.BigValueColorMode.BACKGROUND)
        .text_mode(common_models.BigValueTextMode.VALUE)
        .mappings(_mappings(panel))
        .data_links([_link(panel)])
    )


def _mappings(panel: Panel) -> list[dashboard_models.ValueMap]:
    results = {
        str(value): dashboard_models.ValueMappingResult(text=word.text, color=word.color, index=index)
        for index, (value, word) in enumerate(panel.words.items())
    }
    return [dashboard_models.ValueMap(results)] if results else []


def _link(panel: Panel) -> dashboard.DashboardLink:
    """Return a link to another dashboard, with the same time and the same variables."""
    link = dashboard.DashboardLink(f"Open {panel.dashboard}").type(dashboard_models.DashboardLinkType.LINK)
    return link.url(f"/d/stream-masker-{panel.dashboard}?${{__url_time_range}}&${{__all_variables}}")


def _lines(panel: Panel) -> timeseries.Panel:
    legend = common.VizLegendOptions().display_mode(common_models.LegendDisplayMode.LIST)
    built = timeseries.Panel().min(0).legend(legend.placement(common_models.LegendPlacement.BOTTOM).show_legend(True))
    if panel.limits:
        dashes = common.GraphThresholdsStyleConfig().mode(common_models.GraphThresholdsStyleMode.DASHED)
        built.thresholds_style(dashes)
    return built.line_width(2) if panel.top is None else built.line_width(2).max(panel.top)


def _thresholds(panel: Panel) -> dashboard.ThresholdsConfig:
    base: Color = "green" if panel.limits else "text"
    steps = [dashboard_models.Threshold(None, base)]
    steps += [dashboard_models.Threshold(value, color) for value, color in panel.limits]
    return dashboard.ThresholdsConfig().mode(dashboard_models.ThresholdsMode.ABSOLUTE).steps(steps)


def _with_queries(built: PanelBuilder, panel: Panel, *, instant: bool) -> PanelBuilder:
    built.title(panel.title).description(panel.description).datasource(DATASOURCE).unit(panel.unit)
    if panel.whole:
        built.decimals(0)
    built.span(panel.columns).height(STAT_HEIGHT if panel.kind == "stat" else HEIGHT).thresholds(_thresholds(panel))
    for i, query in enumerate(panel.queries):
        target = prometheus.Dataquery().expr(query.expression).legend_format(query.legend).ref_id(chr(ord("A") + i))
        target = target.instant() if instant else target.range()
        built.with_target(target.format(PromQueryFormat.TABLE) if panel.kind == "table" else target)
    return built


def variables() -> tuple[dashboard.DatasourceVariable, dashboard.QueryVariable]:
    """Return the variables of every dashboard: the data source, and the jobs of Prometheus that scrape the
    service."""
    source = dashboard.DatasourceVariable("datasource").label("Data source").type("prometheus")
    return source, _label_variable("job", "Job")


def _label_variable(label: str, title: str) -> dashboard.QueryVariable:
    chosen = dashboard.QueryVariable(label).label(title).datasource(DATASOURCE).multi(True).include_all(True)
    return (
        chosen.query(f"label_values({metric('build_info')}, {label})")
        .refresh(dashboard_models.VariableRefresh.ON_DASHBOARD_LOAD)
        .all_value(".*")
        .current(dashboard_models.VariableOption(selected=True, text=["All"], value=["$__all"]))
    )
