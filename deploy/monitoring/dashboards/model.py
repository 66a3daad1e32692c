"""A dashboard, and the JSON that Grafana reads."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from grafana_foundation_sdk.builders.dashboard import Dashboard as DashboardBuilder
from grafana_foundation_sdk.builders.dashboard import Row
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import DashboardCursorSync
from panels import Panel, built_panel, variables


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
