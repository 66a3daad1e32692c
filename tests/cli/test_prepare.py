"""``prepare`` calls all kernels that masking calls, so that none is compiled later, and parses all ontologies."""

from __future__ import annotations

import pytest
from support.prepared import Prepared, event

ODD = [b"no json", b'{"id":1,"main":"unknown"}', b'{"id":2,"age":3,"main":"t3"}', b"{}"]


@pytest.mark.exhaustive
@pytest.mark.parametrize("codes", [2, 500])
def test_no_other_kernel_is_called_and_no_ontology_parsed_after_it(tmp_path, ready: Prepared, codes):
    assert len(ready.kernels) > 20
    parsed = sorted((ready.folder / "ontologies").iterdir())
    config, events, statistics, masked = ready.configured(), tmp_path / "in", tmp_path / "statistics", tmp_path / "out"
    events.write_bytes(b"\n".join([*(event(k, codes) for k in range(400)), *ODD]))
    assert ready.kernels_beyond("calibrate", "--config", config, events, "-o", statistics) == set()
    assert ready.kernels_beyond("mask", "--config", config, "--statistics", statistics, events, masked) == set()
    assert len(masked.read_bytes().splitlines()) == 401
    assert sorted((ready.folder / "ontologies").iterdir()) == parsed
