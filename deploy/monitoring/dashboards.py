"""The two dashboards, as Grafana imports them: is it all right, and what moved?"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from alerts import PREFIX, THRESHOLDS
from queries import SELECTED_SERIES, aggregated, metric, quantile, rate

Limit: TypeAlias = tuple[float, Literal["orange", "red"]]
"""A value from which on a figure has another color. Lines show it as dashes."""

DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
SHARE, SECONDS, RECORDS_A_SECOND = "percentunit", "s", "recps"
COLUMNS, HEIGHTS = 24, {"stat": 4, "timeseries": 8, "table": 8}


@dataclass(frozen=True, slots=True)
class Panel:
    """A panel.

    ``type``, ``unit``: as Grafana names them. ``queries``: expressions by Grafana's pattern for the names of their
    series. ``columns``: the labels that are the columns of a table; the last one is the value, if it has a unit.
    """

    type: Literal["stat", "table", "timeseries"]
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
    return Panel("stat", title, description, {title: expression}, unit, limits, width=COLUMNS // 6)


def _lines(title: str, description: str, queries: Mapping[str, str], unit: str = "short", **options: Any) -> Panel:
    return Panel("timeseries", title, description, queries, unit, **options)


def _gauge(title: str, description: str, name: str, *labels: str, against: str = "", **options: Any) -> Panel:
    """Return the lines of a gauge: one for each combination of labels, of a value of ``against`` if it is given."""
    legend, selected = " ".join(f"{{{{{one}}}}}" for one in labels), {"against": against} if against else {}
    return _lines(title, description, {legend: aggregated("max", name, *labels, **selected)}, **options)


def _table(title: str, description: str, columns: tuple[str, ...], unit: str = "short", **queries: str) -> Panel:
    return Panel("table", title, description, queries, unit, columns=columns)


FIRING = f'ALERTS{{alertname=~"{PREFIX}.+", alertstate="firing", {SELECTED_SERIES}}}'
ALERT = ("alertname", "severity", "attribute", "component", "against", "job")
MOVED = ("attribute", "level", "concept", "label")
MEANS = ("attribute", "data", "concept", "label")
PAIR = ("first", "second", "data")
GUESSED = "{{attribute}} from {{given}}"
LAG, DRIFTS = "consumer_lag", ("attribute", "figure", "against")
BEYOND = f"{aggregated('max', 'drift', *DRIFTS)} / ({aggregated('max', 'drift_limit', *DRIFTS)} > 0) > 1"

NOW = [
    _number("Alerts", "Alerts that fire.", f"count({FIRING}) or vector(0)", (1, "red")),
    _number(
        "Not ready",
        "Processes that are not ready; /readyz of a process gives the reason.",
        f"sum(1 - {aggregated('min', 'ready', 'instance')})",
        (1, "red"),
    ),
    _number("Masked", "Masked records per second.", rate("records_masked_total"), unit=RECORDS_A_SECOND),
    _number("Lag", "Uncommitted records.", aggregated("sum", LAG), (THRESHOLDS["lag"], "orange")),
    _number(
        "Age of the statistics",
        "Time since the oldest version in use was published.",
        aggregated("max", "statistics_age_seconds"),
        (THRESHOLDS["staleSeconds"], "orange"),
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
        "The page Operations of the documentation says what to do.",
        ALERT,
        firing=f"max by ({', '.join(ALERT)}) ({FIRING})",
    ),
    _table(
        "Why processes are not ready",
        "/readyz of a process says more.",
        ("instance", "component"),
        not_ready=f"{aggregated('max', 'not_ready_because', 'instance', 'component')} > 0",
    ),
]

RECORDS = [
    _lines(
        "Records",
        "Records per second in committed transactions.",
        {"in": rate("records_in_total"), "masked": rate("records_masked_total")},
        RECORDS_A_SECOND,
    ),
    _lines(
        "Rejected and skipped",
        "Records per second: rejected, by reason, and deleted by retention before they were read.",
        {"{{reason}}": f"{rate('records_rejected_total', 'reason')} > 0", "skipped": rate("records_skipped_total")},
        RECORDS_A_SECOND,
    ),
    _lines(
        "Lag",
        "Uncommitted records: of all workers, and of the one that is most behind.",
        {"all workers": aggregated("sum", LAG), "most behind": aggregated("max", LAG)},
        limits=[(THRESHOLDS["lag"], "orange")],
    ),
    _lines(
        "Time of a batch",
        "Time to mask, write and commit a batch.",
        {f"p{share:.0f}": quantile(share / 100, "batch_duration_seconds") for share in (50.0, 99.0)},
        SECONDS,
    ),
]

PROTECTION = [
    _lines(
        "Guessed right",
        "Chance of the best guess of a code: without masks, from its own mask (value), from all of its record.",
        {
            "{{attribute}} without masks": aggregated("max", "risk_prior", "attribute"),
            GUESSED: aggregated("max", "risk_vulnerability", "attribute", "given"),
        },
        SHARE,
    ),
    _lines(
        "Guessed with certainty",
        "Share of the codes that are guessed with a probability above 0.9, from the same.",
        {GUESSED: aggregated("max", "risk_certain_share", "attribute", "given")},
        SHARE,
    ),
    _gauge(
        "Unchanged",
        "Share of the codes that masking leaves as they are.",
        *("unchanged_share", "attribute"),
        unit=SHARE,
        limits=[(THRESHOLDS["unchanged"], "red")],
    ),
    _gauge("RMSE", "Distance of originals and masks: actual, and the target.", "rmse", "attribute", "kind"),
]

MOVES = [
    _gauge(
        "Verdict",
        "0 none: by chance. 1 watch: beyond chance. 2 act: find the cause.",
        *("drift_verdict", "against"),
        limits=[(1, "orange"), (2, "red")],
    ),
    _table(
        "Codes and blocks that moved most",
        "By how much their share differs from the baseline. What few records have is left out.",
        MOVED,
        SHARE,
        change=f"sort_desc({aggregated('max', 'drift_moved', *MOVED)})",
    ),
    _lines(
        "Figures beyond chance",
        "Drift divided by its limit, where it is above 1. expected: of masks. Without data, all is by chance.",
        {"{{attribute}} {{figure}} {{against}}": BEYOND},
        limits=[(1, "orange")],
        width=COLUMNS,
    ),
]

MASKING = [
    _table(
        "sMean",
        "The mean code, with its label. It is left out if few records have it.",
        MEANS,
        means=aggregated("max", "smean", *MEANS),
    ),
    _gauge("sVar", "Semantic variance.", "svar", "attribute", "data"),
    _gauge("sdCor", "Semantic distance correlation.", "sdcor", *PAIR),
    _gauge("sdCov", "Semantic distance covariance, and sdVar.", "sdcov", *PAIR),
    _gauge(
        "Masks against what the statistics predict",
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
    """Return the JSON of a dashboard; the same source always gives the same file."""
    variables = [
        {"type": "datasource", "name": "datasource", "label": "Data source", "query": "prometheus"},
        {
            "type": "query",
            "name": "job",
            "label": "Job",
            "datasource": DATASOURCE,
            "query": f"label_values({metric('build_info')}, job)",
            "refresh": 1,
            "multi": True,
            "includeAll": True,
            "allValue": ".*",
            "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
        },
    ]
    model = {
        "uid": f"stream-masker-{one.name}",
        "title": f"stream-masker / {one.title}",
        "tags": ["stream-masker"],
        "schemaVersion": 42,
        "editable": False,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "browser",
        "templating": {"list": variables},
        "panels": [{"id": number, **panel} for number, panel in enumerate(_placed(one), 1)],
    }
    return json.dumps(model, indent=2, ensure_ascii=False) + "\n"


def _placed(one: Dashboard) -> Iterator[dict[str, Any]]:
    """Yield the rows and panels with their places: from left to right, and then below. A row has one height."""
    y = 0
    for title, panels in one.rows.items():
        yield {"type": "row", "title": title, "collapsed": False, "panels": [], "gridPos": _place(0, y, COLUMNS, 1)}
        x, y, height = 0, y + 1, HEIGHTS[panels[0].type]
        for panel in panels:
            if x + panel.width > COLUMNS:
                x, y = 0, y + height
            yield {**_model(panel), "gridPos": _place(x, y, panel.width, height)}
            x += panel.width
        y += height


def _place(x: int, y: int, width: int, height: int) -> dict[str, int]:
    return {"x": x, "y": y, "w": width, "h": height}


def _model(panel: Panel) -> dict[str, Any]:
    """Return a panel. Without limits a figure has no color; Grafana's default shows every value from 80 on in red."""
    steps = [{"value": None, "color": "green" if panel.limits else "text"}]
    steps += [{"value": value, "color": color} for value, color in panel.limits]
    defaults = {"unit": panel.unit, "thresholds": {"mode": "absolute", "steps": steps}}
    ranged = panel.type == "timeseries"
    made = {
        "type": panel.type,
        "title": panel.title,
        "description": panel.description,
        "datasource": DATASOURCE,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + number), "expr": expression, "legendFormat": legend}
            | {"range": ranged, "instant": not ranged, **({"format": "table"} if panel.type == "table" else {})}
            for number, (legend, expression) in enumerate(panel.queries.items())
        ],
    }
    match panel.type:
        case "stat":
            options = {"reduceOptions": {"calcs": ["lastNotNull"]}, "graphMode": "none", "colorMode": "value"}
            return {**made, "options": options}
        case "table":
            return {**made, "transformations": _columns(panel)}
    style = {"thresholdsStyle": {"mode": "dashed"}} if panel.limits else {}
    defaults |= {"min": 0, "custom": {"lineWidth": 2, **style}}
    legend: dict[str, Any] = {"displayMode": "list", "placement": "bottom", "showLegend": True}
    if panel.width == COLUMNS:
        legend |= {"displayMode": "table", "placement": "right", "calcs": ["lastNotNull"]}
    return {**made, "options": {"legend": legend}}


def _columns(panel: Panel) -> list[dict[str, Any]]:
    """Return the transformation to a table of labels: one row a series, without the time, and a value without unit."""
    order = {name: place for place, name in enumerate((*panel.columns, "Value"))}
    options = {"indexByName": order, "renameByName": dict.fromkeys(["Value"], *panel.queries)}
    return [{"id": "organize", "options": {**options, "excludeByName": {"Time": True, "Value": panel.unit == "short"}}}]
