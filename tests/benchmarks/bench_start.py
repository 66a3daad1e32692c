"""Cold start: seconds from the start of ``stream-masker worker`` until it is ready, and to the first masked record.

Run by hand: ``python tests/benchmarks/bench_start.py [--quick] [--runs 5] [--broker-defaults]``.

Starts a broker, publishes statistics, and writes records to the
input topic. Then it starts a worker several times, each in a new consumer group that reads everything. Prints a
Markdown table of medians; all times count from the start of the process. ``--quick``: a smaller RF2 release.

* serving: /readyz responds;
* ready: /readyz reports ready: the worker has its ontologies, a producer, and statistics;
* first record: a reader of committed records has received one. The worker waits up to ``worker.batch_delay`` (0.5 s)
  for a full batch, and the broker delays a group's first member by ``group.initial.rebalance.delay.ms``: 3 s by
  default, with ``--broker-defaults``, otherwise 0;
* CPU: the processor time of the process until then, including all threads.
"""

from __future__ import annotations

import argparse
import contextlib
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from measuring import SNOMED_CONCEPTS, arguments, processor_seconds, table
from streaming import Stream, Watch, broker, child, responded
from support.kafka_broker import free_ports
from support.memory import MB, resident
from support.snomed import write_release

ROLES = ("input", "output", "rejected", "calibration", "statistics", "drift")
RECORDS = 5_000
LIMIT = 60.0
DEFAULT_DELAY = 3_000
HEAD = ["ontology", "serving, s", "ready, s", "first record, s", "CPU until then, s", "MB resident"]


def main() -> None:
    options = arguments(__doc__, {"--quick": False, "--runs": 5, "--broker-defaults": False})
    options.shape, options.batch = "flat", 10_000
    delay = DEFAULT_DELAY if options.broker_defaults else 0
    with broker(group_initial_rebalance_delay_ms=delay) as (folder, cluster):
        release = write_release(folder / "release", concepts=50_000 if options.quick else SNOMED_CONCEPTS, seed=1)
        sources = {"ICD-10-CM": "icd10cm", "RF2": str(release)}
        rows = (row(folder, cluster.bootstrap, name, source, options) for name, source in sources.items())
        table("Cold start of a worker", HEAD, rows)


def row(folder: Path, bootstrap: str, name: str, source: str, options: argparse.Namespace) -> list[object]:
    """Return medians over the starts with one ontology; each has its own output topic and consumer group."""
    prepared = Stream.prepared(folder, bootstrap, options, RECORDS, ontologies={"icd": {"source": source}})
    stream = prepared.with_topics(ROLES)
    stream.fill(RECORDS)
    stream.calibrate()
    starts = [start(stream.with_topics(("output",))) for _ in range(options.runs)]
    return [name, *(median(column) for column in zip(*starts, strict=True))]


def start(stream: Stream) -> list[float]:
    """Return the seconds until a worker serves, is ready, has written a record; its CPU seconds and megabytes."""
    (port,), topic = free_ports(1), stream.configuration.topics.output
    with contextlib.closing(Watch(stream.bootstrap, [topic], **{"fetch.wait.max.ms": 10})) as watch:
        begun = time.perf_counter()
        with child(stream.command("worker", port=port)) as process:
            times = list(milestones(process, port, watch, begun))
            return [*times, processor_seconds(process.pid), resident(process.pid) / MB]


def milestones(process: subprocess.Popen[bytes], port: int, watch: Watch, begun: float) -> Iterator[float]:
    for reached in (
        lambda: responded(port, "/readyz")[0] != 0,
        lambda: responded(port, "/readyz")[0] == 200,
        lambda: bool(watch.read(0.002)),
    ):
        while not reached():
            assert process.poll() is None, "the worker ended"
            assert time.perf_counter() - begun < LIMIT, "the worker does not come up"
            time.sleep(0.005)
        yield time.perf_counter() - begun


if __name__ == "__main__":
    main()
