"""Rendered manifests, compared with stored ones, so that a review shows what a change of a template does.

``PYTHONPATH=tests:tests/support python tests/deploy/test_chart_snapshots.py`` stores them again.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from rendered_chart import NEEDS_HELM, rendered_text

pytestmark = NEEDS_HELM

FOLDER = Path(__file__).parent / "snapshots"
FILE = {"url": "https://files.example/hp.obo", "sha256": "0" * 64, "name": "hp.obo"}
CASES = {
    "least": {},
    "most": {
        "autoscaling": {"mode": "keda", "maxReplicas": 12, "authenticationRef": "kafka"},
        "configuration": {"format": {"value": "confluent", "registry": {"url": "https://registry.example:8085"}}},
        "http": {"token": {"existingSecret": "metrics"}, "tls": {"existingSecret": "https"}},
        "image": {"repository": "registry.example/stream-masker", "pullSecrets": ["registry"]},
        "internalTopics": {"existingSecret": "topics", "previousSecrets": [{"existingSecret": "old"}]},
        "kafka": {"existingSecret": "kafka", "properties": ["ssl_key_password"], "certificates": "tls"},
        "monitoring": {"podMonitor": True, "labels": {"release": "prometheus"}},
        "networkPolicy": {"kafkaPorts": [9093], "metricsFrom": [{"namespaceSelector": {}}]},
        "ontologies": {"urls": [FILE]},
        "schemaRegistry": {"existingSecret": "registry", "certificates": "registry-tls"},
        "strimzi": {"cluster": "kafka", "users": True},
        "kafkaTopics": {"create": "strimzi"},
        "worker": {"nodeSelector": {"pool": "masking"}, "tolerations": [{"operator": "Exists"}]},
    },
}
"""Values by the name of the snapshot. Dashboards and alerts are left out: they are files of the chart."""


@pytest.mark.parametrize("name", CASES)
def test_manifests_are_those_stored(name: str) -> None:
    assert rendered_text(CASES[name]) == (FOLDER / f"{name}.yaml").read_text()


def test_no_snapshot_is_left_over() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == CASES.keys()


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for case, values in CASES.items():
        (FOLDER / f"{case}.yaml").write_text(rendered_text(values))
