"""``warm_up`` with every mechanism: it masks sample records and computes their statistics."""

import pytest
import yaml

from stream_masker.core.mechanisms import MECHANISMS
from stream_masker.service.configuration import load_configuration
from stream_masker.service.runtime.warmup import WARMUP_WINDOWS, warm_up


@pytest.mark.parametrize(
    "mechanism", [*({"name": name} for name in MECHANISMS), {"name": "microaggregation", "k": 100}]
)
def test_warm_up_with_every_mechanism(tmp_path, mechanism):
    rows = "".join(f"c{k},c{(k - 1) // 3}\n" for k in range(1, 60))
    (tmp_path / "tree.csv").write_text(f"concept,parent\n{rows}")
    (tmp_path / "secret").write_bytes(b"0123456789abcdef")
    (tmp_path / "secret").chmod(0o600)
    content = {
        "ontologies": {"tree": {"source": "tree.csv"}},
        "attributes": {name: {"path": name, "ontology": "tree"} for name in ("a", "b")},
        "fields": {"unlisted": "drop"},
        "noise_key": "position",
        "mechanism": mechanism,
        "secret": {"file": "secret"},
    }
    (tmp_path / "c.yaml").write_text(yaml.safe_dump(content))
    ready = warm_up(load_configuration(tmp_path / "c.yaml", {}))
    assert ready.name == mechanism["name"]
    assert ready.statistics.records == WARMUP_WINDOWS[-1]
