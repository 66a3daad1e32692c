"""Start of the image: seconds from the start of a container until its process is ready.

Run by hand, as root: ``STREAM_MASKER_TEST_IMAGE=NAME python tests/benchmarks/bench_image.py [--runs 5]``.

NAME is an image that was built from ``deploy/Dockerfile``. Starts a broker, publishes statistics, and then starts each
process several times, alone, with the arguments, the environment, the mounts and the security context that the chart
renders. Prints a Markdown table; a pod should be ready within 3 s. The processor time is that of all threads of the
process until it is ready.
"""

from __future__ import annotations

import argparse
import secrets
import sys
import tempfile
from pathlib import Path
from statistics import median

import yaml

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "support")]

from bench_start import broker
from containers import Pod, run_once, started, why_no_image
from measuring import table
from rendered_chart import EXAMPLE, rendered

EVENTS = "5000"
HEAD = ["process", "ready, s", "least, s", "greatest, s", "processor, s"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    given = parser.parse_args()
    if reason := why_no_image():
        raise SystemExit(reason)
    with tempfile.TemporaryDirectory() as name, broker(Path(name), delays=False) as cluster:
        pod = prepared(Path(name), cluster.bootstrap)
        table("Start of the image", HEAD, (row(pod, component, given.runs) for component in ("worker", "calibrator")))


def prepared(folder: Path, bootstrap: str) -> Pod:
    """Return a pod of the example's configuration, whose topics have statistics."""
    configuration = yaml.safe_load(EXAMPLE.read_text())["configuration"]
    configuration["kafka"] = {"bootstrap_servers": bootstrap}
    values = {"configuration": configuration, "secret": {"existingSecret": "stream-masker"}}
    pod = Pod(folder, rendered(values, example=False), {"stream-masker": {"secret": secrets.token_bytes(32)}}, folder)
    run_once(pod, "topics", "--partitions", "4", "--replication-factor", "1")
    run_once(pod, "simulate", "--records", EVENTS, "--rate", EVENTS)
    with started(pod, "calibrator") as calibrator, started(pod, "worker") as worker:
        calibrator.wait_until_ready()
        worker.wait_until_ready()
    return pod


def row(pod: Pod, component: str, runs: int) -> list[str | float]:
    """Return the row of a process: the median, the least and the greatest time, and the median processor time."""
    seconds, processor = [], []
    for _ in range(runs):
        with started(pod, component) as container:
            seconds.append(container.wait_until_ready())
            processor.append(container.processor_seconds())
    return [component, median(seconds), min(seconds), max(seconds), median(processor)]


if __name__ == "__main__":
    main()
