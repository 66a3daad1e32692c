"""The alerts of ``chart/files/rules.yaml``, with the thresholds that the chart has by default."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

CHART = Path(__file__).resolve().parents[1] / "chart"

PREFIX = "StreamMasker"
"""The first part of the names of all alerts."""

THRESHOLDS = yaml.safe_load((CHART / "values.yaml").read_text())["monitoring"]["alerts"]["thresholds"]
"""When alerts fire, by the names of the chart's values."""


def rules_yaml() -> str:
    """Return the rules as Prometheus reads them, for all series."""
    _, groups, rules = (CHART / "files" / "rules.yaml").read_text().partition("groups:\n")
    rules = re.sub(r"\{<<selector>>\}|, <<selector>>", "", rules)
    for name, value in THRESHOLDS.items():
        rules = rules.replace(f"<<{name}>>", str(value))
    return groups + rules


RULES = {rule["alert"]: rule for rule in yaml.safe_load(rules_yaml())["groups"][0]["rules"]}
"""The rule of each alert, by its full name."""
