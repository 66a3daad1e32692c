"""One calibrator on one core against 1,000 workers that mask 10 million records a second together.

Run by hand: ``python tests/benchmarks/bench_sampling.py [--workers 1000] [--rate 10000000] [--age 86400]
[--ages 1.5]``; ``--age`` and ``--window`` are those of the window, ``--ages`` the time to simulate in window ages.

The stream is simulated (``support.simulated_stream``): the blocks that the workers write are drawn, encoded and sealed
as they are on the topic; the calibrator's own code opens, decodes and merges them and computes and publishes versions,
at its pace. The calibrator has one core: a block waits until the processor time of all that came before has passed on
the simulated clock. Prints, over time: how far the calibrator is behind, its processor time, the window's records, its
span and its sampling rate, and the deviation of sVar and sdCor from those of the whole stream in standard errors, which
should be about 1 in size.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import deque
from math import log2
from pathlib import Path

from measuring import arguments, once, table
from support.calibration_session import SessionBench
from support.simulated_stream import Population, SimulatedWorkers
from support.small_configuration import small_configuration, write_secret

from stream_masker.pipeline.calibration.pace import Pace
from stream_masker.pipeline.records import Block
from stream_masker.pipeline.wire.blocks import block_key, encode_block
from stream_masker.service.calibrator.components import build_components
from stream_masker.service.configuration.loading import parse_configuration
from stream_masker.service.configuration.secret import topic_seal

SHOWN_AT = (1, 5, 30, 120, 600, 3_600, 4 * 3_600)
"""Seconds of the simulated clock at which the state is shown first; then every quarter of the window's age."""

OPTIONS = {"--workers": 1_000, "--rate": 1e7, "--age": 86_400.0, "--window": 100_000, "--ages": 1.5}
ATTRIBUTES = ("principal", "secondary")
FIRST_STEP, LONGEST_STEP = 0.05, 600.0
VERSIONS_PER_AGE = 20
"""Versions within the window's age. The calibrator could publish far more of them at its pace; the simulation has to
compute each."""

LATENCY_SECONDS = 1.0
"""The time until the workers follow a new version."""


class Simulation:
    """The simulated stream, its calibrator, and the clock. Times are in seconds."""

    def __init__(self, options: argparse.Namespace, folder: Path) -> None:
        write_secret(folder, content=b"a secret of the simulation only")
        schedule = {"every_seconds": options.age / VERSIONS_PER_AGE, "every_records": options.window}
        calibration = {"window_age": float(options.age), "window_records": options.window, **schedule}
        content = small_configuration(*ATTRIBUTES, calibration=calibration, secret={"file": "secret"})
        configuration = parse_configuration(content, folder=folder)
        self.bench = SessionBench(build_components(configuration))
        self.seal = topic_seal(configuration, configuration.topics.calibration)
        subject = self.bench.components.subject
        self.taxonomies, self.distances = subject.taxonomies, tuple(subject.distances.values())
        sizes = tuple(map(len, self.taxonomies.values()))
        self.population = Population.random((sizes[0], sizes[1]))
        self.truth = self.population.statistics(ATTRIBUTES, self.distances)
        self.workers = SimulatedWorkers(self.population, workers=options.workers, rate=options.rate)
        self.pace = Pace(self.bench.components.settings.core_share)
        self.waiting: deque[tuple[float, Block]] = deque()
        self.now = self.free_at = self.busy = self.ticked = 0.0
        self.offset = -1
        self.published = 0
        self.adopted: deque[tuple[float, int | None]] = deque()

    def run_until(self, end: float) -> None:
        """Advance the clock, in steps that grow with it."""
        while self.now < end:
            following = min(end, self.now + min(LONGEST_STEP, max(FIRST_STEP, self.now / 50)))
            while self.adopted and self.adopted[0][0] <= self.now:
                self.workers.level = self.adopted.popleft()[1]
            self.waiting.extend((following, block) for block in self.workers.blocks(self.now, following))
            self.now = following
            self._calibrate()

    def _calibrate(self) -> None:
        """Let the calibrator work for as long as the clock allows."""
        while self.free_at < self.now:
            if self.bench.session.begins_sampling:
                self._spend(self.bench.session.publish_sampling)
                self._adopt()
            if self.bench.session.pending_windows and (self.pace.is_open(self.free_at) or self.bench.session.is_urgent):
                self.bench.session.skip_windows(keep=1)
                self._compute()
            elif self.waiting:
                self._merge(self.waiting.popleft()[1])
            else:
                self.free_at = self.now
            if self.free_at - self.ticked >= 1:
                self.ticked = self.free_at
                self._spend(lambda: self.bench.session.tick(self.free_at))

    def _merge(self, block: Block) -> None:
        key = block_key(block)
        value = self.seal.seal(key, encode_block(block, self.taxonomies, configuration="0"))
        self.offset += 1
        written = block.timestamp
        self._spend(lambda: self.bench.session.deliver(self.offset, written, key, value))

    def _compute(self) -> None:
        seconds = self._spend(self.bench.session.publish_next)
        if self.published:
            self.pace.charge(seconds, self.free_at)
        self.published += 1
        self._adopt()

    def _adopt(self) -> None:
        """Let the workers follow the latest version."""
        sampling = self.bench.publisher.published[-1].message.sampling
        self.adopted.append((self.free_at + LATENCY_SECONDS, None if sampling is None else sampling.level))

    def _spend(self, action) -> float:
        seconds = once(action)
        self.busy += seconds
        self.free_at += seconds
        return seconds

    def row(self) -> list[object]:
        """The state, as a row of the table."""
        publish = self.bench.publisher.published[-1]
        statistics, sampling = publish.message.statistics, publish.message.sampling
        behind = self.now - self.waiting[0][0] if self.waiting else 0.0
        figures = [duration(self.now), behind, self.busy, statistics.version, statistics.records]
        if sampling is None or not sampling.variance_errors:
            return [*figures, "", "", "", ""]
        name, pair = ATTRIBUTES[0], (ATTRIBUTES[0], ATTRIBUTES[1])
        variance = (statistics.variance[name] - self.truth.variance[name]) / sampling.variance_errors[name]
        difference = float(statistics.correlation[0, 1] - self.truth.correlation[0, 1])
        correlation = difference / sampling.correlation_errors[pair]
        return [*figures, duration(sampling.span), f"2^{round(-log2(sampling.rate))}", variance, correlation]


def duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 600 else f"{seconds / 3600:.1f} h"


def main() -> None:
    options = arguments(__doc__, OPTIONS)
    shown = [at for at in SHOWN_AT if at < options.age / 4]
    shown += [options.age * quarter / 4 for quarter in range(1, round(4 * options.ages) + 1)]
    with tempfile.TemporaryDirectory() as name:
        simulation, rows = Simulation(options, Path(name)), []
        for at in shown:
            simulation.run_until(at)
            rows.append(simulation.row())
            print(rows[-1], file=sys.stderr, flush=True)
    head = ("time", "behind, s", "processor, s", "version", "records in the window", "span", "1 / rate")
    bounds = f"window of {options.window:,} records and {options.age:.0f} s"
    title = f"{options.workers:,} workers, {options.rate:,.0f} records/s, {bounds}"
    table(title, (*head, "sVar, deviation in SE", "sdCor, deviation in SE"), rows)


if __name__ == "__main__":
    main()
