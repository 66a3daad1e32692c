"""The live figures of a version with three attributes that are masked together."""

from __future__ import annotations

import numpy as np
import pytest
from support.field_windows import TAU, Window

from stream_masker import SemanticTransport
from stream_masker.pipeline.calibration.risk import RiskLimits, assess_version

NAMES = ("a", "b", "c")


@pytest.mark.parametrize("fresh_noise", [True, False])
def test_repeats_of_whole_records_are_assessed(fresh_noise: bool) -> None:
    counts = Window.random(np.random.default_rng(5), (-1, 0, 1), size=400).counts
    made = SemanticTransport(dict.fromkeys(NAMES, TAU), target={"alpha": 0.3}, seed=b"a seed of many bytes")
    limits = RiskLimits(repeats=10, fresh_noise=fresh_noise)
    found = assess_version(made, made.compute(counts, version=1), counts, made.distances, limits)
    assert found.risk is not None
    assert found.risk.given_record is not None
    once, often = found.risk.given_record, found.repeated["record"]
    for name in NAMES:
        assert often[name] == once[name] if not fresh_noise else once[name] + 0.02 < often[name] < 1.0
