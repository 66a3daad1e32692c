"""Generated files below ``deploy``: ``python deploy/generate.py`` writes them.

* ``chart/values.schema.json``: its ``$defs`` and the key ``configuration`` come from the configuration's schema, so
  that helm refuses a broken configuration before it reaches the cluster, and the key ``monitoring.alerts`` from the
  alerts. The rest of the file is written by hand.
* ``chart/README.md``: the table of values comes from the comments of ``chart/values.yaml``.
* ``chart/files/dashboards``, ``chart/files/alerts.yaml``, and ``chart/files/rules.yaml``, the alerts with marks for
  values of the chart: from the sources in ``monitoring``.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "deploy" / "monitoring")]

from alerts import Thresholds, alerts, camel_case, marked_rules_yaml, rules_yaml  # noqa: E402 - found through the path above
from dashboards import DASHBOARDS, dashboard_json  # noqa: E402

CHART = ROOT / "deploy" / "chart"
CONFIGURATION = ROOT / "schemas" / "configuration.schema.json"

SET_BY_CHART = ("secret", "http")
"""Sections of the configuration that the chart sets itself."""

TABLE = re.compile(r"(?<=<!-- values -->\n).*?(?=<!-- end of values -->)", re.DOTALL)
COMMENT = re.compile(r"^ *# ?(.*)$")
KEY = re.compile(r"^( *)(\w+):(.*)$")


def generated_files() -> dict[Path, str]:
    """The text of every generated file, by its path."""
    files = CHART / "files"
    dashboards = {files / "dashboards" / f"{one.name}.json": dashboard_json(one) for one in DASHBOARDS}
    written = {CHART / "values.schema.json": values_schema(), CHART / "README.md": readme()}
    rules = {files / "alerts.yaml": rules_yaml(), files / "rules.yaml": marked_rules_yaml()}
    return {**written, **rules, **dashboards}


def values_schema() -> str:
    """The JSON Schema of the chart's values."""
    schema = json.loads((CHART / "values.schema.json").read_text())
    configuration = json.loads(CONFIGURATION.read_text())
    definitions = configuration.pop("$defs")
    body = {key: configuration[key] for key in ("type", "properties", "required", "additionalProperties")}
    body["properties"] = {key: value for key, value in body["properties"].items() if key not in SET_BY_CHART}
    schema["$defs"] = {**definitions, "Configuration": body}
    schema["properties"]["configuration"] = {
        "description": "The configuration as a mapping, or the text of a configuration file.",
        "if": {"type": "string"},
        "then": {"minLength": 1},
        "else": {"$ref": "#/$defs/Configuration"},
    }
    schema["properties"]["monitoring"]["properties"]["alerts"] = alerts_schema()
    return json.dumps(schema, indent=2) + "\n"


def alerts_schema() -> dict[str, Any]:
    """The JSON Schema of ``monitoring.alerts``."""
    duration = {"type": "string", "pattern": "^[0-9]+(s|m|h|d)$"}
    labels = {"type": "object", "additionalProperties": {"type": "string"}}
    thresholds = {
        camel_case(one.name): duration if str(one.default).endswith(("m", "d")) else {"type": "number", "minimum": 0}
        for one in fields(Thresholds)
    }
    changed = _object({"enabled": {"type": "boolean"}, "for": duration, "labels": labels})
    names = [alert.full_name for alert in alerts(Thresholds())]
    rules = {"type": "object", "propertyNames": {"enum": names}, "additionalProperties": changed}
    return _object(
        {"selector": {"type": "string"}, "labels": labels, "thresholds": _object(thresholds), "rules": rules}
    )


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": False, "properties": properties}


def readme() -> str:
    """The chart's README, with the table of values."""
    lines = ["| value | default | meaning |", "| --- | --- | --- |"]
    lines += [f"| `{key}` | `{default}` | {meaning} |" for key, default, meaning in documented_values()]
    return TABLE.sub(lambda _: "\n".join(lines) + "\n", (CHART / "README.md").read_text())


def documented_values() -> Iterator[tuple[str, str, str]]:
    """Key, default and comment of every value that is not a section. Raises ValueError for one without a comment."""
    text = (CHART / "values.yaml").read_text()
    values, path, comment = yaml.safe_load(text), [], ""
    for line in text.splitlines():
        if found := COMMENT.match(line):
            comment = f"{comment} {found[1]}".strip()
        elif key := KEY.match(line):
            path = [*path[: len(key[1]) // 2], key[2]]
            name = ".".join(path)
            if key[3].strip() and not comment:
                raise ValueError(f"{name} has no comment")
            if key[3].strip():
                yield name, json.dumps(_at(values, path)), comment
            comment = ""


def _at(values: Any, path: list[str]) -> Any:
    for key in path:
        values = values[key]
    return values


if __name__ == "__main__":
    for path, text in generated_files().items():
        path.write_text(text)
