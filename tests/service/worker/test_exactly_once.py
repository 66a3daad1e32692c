"""Exactly-once processing of a worker on a simulated broker, with rebalances and failures in random orders."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from worker_simulation import Simulation

from stream_masker.service.worker import worker
from stream_masker.service.worker.worker import TransactionOutcome

SEEDS = st.integers(0, 2**32 - 1)


@pytest.fixture(autouse=True, scope="module")
def no_waiting() -> None:
    """A simulated transaction advances when it is looked at."""
    patch = pytest.MonkeyPatch()
    patch.setattr(worker, "WAIT_SECONDS", 0.0)
    patch.setattr(worker, "CHECK_SECONDS", 0.0)
    yield
    patch.undo()


@given(seed=SEEDS, faulty_reads=st.integers(0, 400))
def test_every_record_is_processed_once_after_any_faults(seed: int, faulty_reads: int) -> None:
    simulation = Simulation(Random(seed), faulty_reads=faulty_reads, until_complete=True, grouped=False)
    simulation.run_and_check()


@pytest.mark.parametrize("grouped", [False, True], ids=["records", "groups"])
@given(seed=SEEDS, faulty_reads=st.integers(0, 400))
def test_a_worker_that_stops_at_any_time_leaves_nothing_open(seed: int, faulty_reads: int, grouped: bool) -> None:
    simulation = Simulation(Random(seed), faulty_reads=faulty_reads, until_complete=False, grouped=grouped)
    simulation.run_and_check()


@pytest.mark.parametrize("grouped", [False, True], ids=["records", "groups"])
def test_the_simulation_reaches_every_outcome(grouped: bool) -> None:
    simulations = [
        Simulation(Random(seed), faulty_reads=300, until_complete=False, grouped=grouped) for seed in range(40)
    ]
    for simulation in simulations:
        simulation.run_and_check()
    for outcome in TransactionOutcome:
        samples = ("stream_masker_transactions_total", {"outcome": outcome})
        assert sum(one.metrics.registry.get_sample_value(*samples) or 0.0 for one in simulations) > 40
    assert sum(len(simulation.consumers) for simulation in simulations) > 80, "sessions that were lost"
