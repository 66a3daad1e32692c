"""Generated files below ``deploy``: ``python deploy/generate.py`` writes them.

* ``chart/values.schema.json``: from the values with their comments, the configuration's schema, and the alerts' names,
  so that helm refuses a broken configuration before it reaches the cluster.
* ``chart/README.md``: the table of values, from ``chart/values.yaml``.
* ``chart/files/dashboards``: from ``monitoring/dashboards.py``.
* ``chart/files/alerts.yaml``: the alerts for Prometheus without the chart, from ``chart/files/rules.yaml``.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "deploy" / "monitoring")]

from alerts import RULES, rules_yaml  # noqa: E402 - found through the path above
from dashboards import DASHBOARDS, dashboard_json  # noqa: E402

CHART = ROOT / "deploy" / "chart"
CONFIGURATION = ROOT / "schemas" / "configuration.schema.json"

SET_BY_CHART = ("secret", "previous_secrets", "http")
"""Sections of the configuration that the chart sets itself."""

TYPES = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object"}
"""The JSON type of a value, by the type of its default."""

NARROWER: dict[str, dict[str, Any]] = {
    "configuration": {
        "if": {"type": "object"},
        "then": {"$ref": "#/$defs/Configuration"},
        "type": ["object", "string"],
    },
    "image.pullPolicy": {"enum": ["Always", "IfNotPresent", "Never"]},
    "secret.existingSecret": {"minLength": 1},
    "autoscaling.mode": {"enum": ["none", "cpu", "keda"]},
    "autoscaling.trigger": {"additionalProperties": {"type": "string"}},
    "podDisruptionBudget.maxUnavailable": {"type": ["integer", "string"]},
    "monitoring.alerts.rules": {"propertyNames": {"enum": list(RULES)}},
}
"""What the schema says of a value beside its type."""

TABLE = re.compile(r"(?<=<!-- values -->\n).*?(?=<!-- end of values -->)", re.DOTALL)
COMMENT = re.compile(r"^ *# ?(.*)$")
KEY = re.compile(r"^( *)(\w+):(.*)$")


def generated_files() -> dict[Path, str]:
    """The text of every generated file, by its path."""
    files = CHART / "files"
    dashboards = {files / "dashboards" / f"{one.name}.json": dashboard_json(one) for one in DASHBOARDS}
    written = {CHART / "values.schema.json": values_schema(), CHART / "README.md": readme()}
    return {**written, files / "alerts.yaml": rules_yaml(), **dashboards}


def values_schema() -> str:
    """The JSON Schema of the chart's values."""
    configuration = json.loads(CONFIGURATION.read_text())
    definitions = configuration.pop("$defs")
    body = {key: configuration[key] for key in ("type", "properties", "required", "additionalProperties")}
    body["properties"] = {key: value for key, value in body["properties"].items() if key not in SET_BY_CHART}
    schema = _section() | {"required": ["configuration", "secret"], "$defs": {**definitions, "Configuration": body}}
    schema["properties"]["global"] = {"type": "object", "description": "Set by Helm in a chart of charts."}
    for name, default, meaning in documented_values():
        *sections, key = name.split(".")
        properties = schema["properties"]
        for section in sections:
            properties = properties.setdefault(section, _section())["properties"]
        properties[key] = {"type": TYPES[type(default)], "description": meaning, **NARROWER.get(name, {})}
    return json.dumps(schema, indent=2) + "\n"


def _section() -> dict[str, Any]:
    return {"type": "object", "additionalProperties": False, "properties": {}}


def readme() -> str:
    """The chart's README, with the table of values."""
    lines = ["| value | default | meaning |", "| --- | --- | --- |"]
    lines += [f"| `{name}` | `{json.dumps(default)}` | {meaning} |" for name, default, meaning in documented_values()]
    return TABLE.sub(lambda _: "\n".join(lines) + "\n", (CHART / "README.md").read_text())


def documented_values() -> Iterator[tuple[str, Any, str]]:
    """Name, default and comment of every value that is not a section. Raises ValueError for one without a comment."""
    path: list[str] = []
    comment = ""
    for line in (CHART / "values.yaml").read_text().splitlines():
        if found := COMMENT.match(line):
            comment = f"{comment} {found[1]}".strip()
        elif key := KEY.match(line):
            path = [*path[: len(key[1]) // 2], key[2]]
            name = ".".join(path)
            if key[3].strip():
                if not comment:
                    raise ValueError(f"{name} has no comment")
                yield name, yaml.safe_load(key[3]), comment
            comment = ""


if __name__ == "__main__":
    for path, text in generated_files().items():
        path.write_text(text)
