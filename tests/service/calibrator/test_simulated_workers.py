"""One calibrator against 1,000 simulated workers that mask 10 million records a second together."""

from __future__ import annotations

import pytest
from calibration_session import SessionBench
from simulated_stream import RUN_RECORDS, Population, SimulatedWorkers

WORKERS, RATE = 1_000, 10_000_000.0


@pytest.mark.exhaustive
def test_window_spans_its_age_and_its_cost_does_not_grow_with_the_stream(bench: SessionBench) -> None:
    subject, limits = bench.components.subject, bench.components.settings
    distances = tuple(subject.distances.values())
    population = Population.random((7, 7), codes=7, rows=200)
    truth = population.statistics(subject.attributes, distances)
    workers = SimulatedWorkers(population, workers=WORKERS, rate=RATE)
    now, step, offset, deviations = 0.0, 2.1 * RUN_RECORDS / RATE, 0, []
    blocks_in_last_age = 0
    while now < 2.5 * limits.window_age:
        for block in workers.blocks(now, now + step):
            bench.deliver(offset, block)
            offset += 1
            blocks_in_last_age += now > 1.5 * limits.window_age
        now += step
        step = min(limits.window_age / 60, max(step, now / 3))
        bench.session.tick(now)
        if not bench.session.pending_windows:
            continue
        bench.session.skip_windows(keep=1)
        bench.session.publish_next()
        message = bench.publisher.published[-1].message
        workers.level = None if message.sampling is None else message.sampling.level
        if message.sampling is not None and message.sampling.variance_errors and now > 1.2 * limits.window_age:
            difference = message.statistics.variance["one"] - truth.variance["one"]
            deviations.append(difference / message.sampling.variance_errors["one"])
    message = bench.publisher.published[-1].message
    assert message.sampling is not None
    assert message.sampling.span > 0.9 * limits.window_age
    assert limits.window_records / 3 < message.statistics.records <= limits.window_records
    assert message.statistics.records < 2 * RATE * limits.window_age * message.sampling.rate
    assert blocks_in_last_age < 4 * limits.window_records
    assert deviations
    assert max(map(abs, deviations)) < 5
