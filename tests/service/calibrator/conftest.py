"""Fixtures of the calibrator: a configuration with a small window, and a calibration without Kafka."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from calibration_bench import ONTOLOGY, CalibrationBench
from support.small_configuration import write_small

from stream_masker.service.calibrator.bootstrap import build_components
from stream_masker.service.configuration import load_configuration

CALIBRATION = {"window_records": 100, "every_records": 20, "every_seconds": 60, "min_records": 10}


@pytest.fixture
def new_bench(tmp_path: Path) -> Callable[..., CalibrationBench]:
    """Returns a function that makes a calibration; its arguments change sections of the configuration."""

    def made(**sections: Any) -> CalibrationBench:
        given = {"calibration": CALIBRATION, "secret": b"the secret of all processes", **sections}
        path = write_small(tmp_path, "one", "two", rows=ONTOLOGY, **given)
        return CalibrationBench(build_components(load_configuration(path, {})))

    return made


@pytest.fixture
def bench(new_bench: Callable[..., CalibrationBench]) -> CalibrationBench:
    return new_bench()
