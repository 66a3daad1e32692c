"""Random faults of every kind on three brokers, with slow and fast streams, and an audit after each phase.

``STREAM_MASKER_SOAK_MINUTES`` sets how long it takes: by default two hours in the long form, five minutes in the short.
Each phase is a stream of its own, so that an audit reads only its records.
"""

from __future__ import annotations

import os
import random
import secrets
import time
from collections import Counter
from pathlib import Path

import pytest
from fault_stream import LONG, ON_REQUEST, running_stream
from kafka_broker import Cluster
from stream_faults import FAULTS

MINUTES = float(os.environ.get("STREAM_MASKER_SOAK_MINUTES", "120" if LONG else "5"))
RATES = (20.0, 200.0, 500.0)
"""Records per second of a phase."""

FAULTS_OF_A_PHASE = 8

pytestmark = [ON_REQUEST, pytest.mark.faults, pytest.mark.timeout(60 * MINUTES + 1800)]


def test_soak(kafka_cluster: Cluster, tmp_path: Path) -> None:
    """Phases begin until the time is over. A failure names the seed of the faults."""
    seed = secrets.randbelow(1 << 32)
    rng, end, faults, records, phases = random.Random(seed), time.monotonic() + 60 * MINUTES, Counter[str](), 0, 0
    while time.monotonic() < end:
        folder = tmp_path / f"phase-{phases}"
        folder.mkdir()
        rate = RATES[phases % len(RATES)]
        with running_stream(kafka_cluster, folder, rate=rate) as stream:
            stream.random = random.Random(rng.random())
            for name in rng.choices(list(FAULTS), k=FAULTS_OF_A_PHASE):
                print(f"seed {seed}, phase {phases}, {rate:.0f} records/s: {name}", flush=True)
                FAULTS[name](stream)
                faults[name] += 1
                if time.monotonic() > end:
                    break
            stream.recover()
            records, phases = records + stream.audit.checked, phases + 1
            print(f"phase {phases - 1} audited: {records} records and {faults.total()} faults so far", flush=True)
        stream.here.remove()
    print(f"{phases} phases, {records} records, {faults.total()} faults, 0 lost, 0 twice, 0 raw: {dict(faults)}")
    assert records
