"""The demonstration from start to end."""

from __future__ import annotations

import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from stream_masker.errors import ServiceError
from stream_masker.service.configuration.build import build_taxonomies
from stream_masker.service.demo.children import Children
from stream_masker.service.demo.embedded import EmbeddedBroker
from stream_masker.service.demo.setting import DemoSetting, is_served, prepare_demo
from stream_masker.service.demo.view import DemoView, say, statistics_lines
from stream_masker.service.demo.watch import POLL_SECONDS, Observed, TopicWatcher
from stream_masker.service.kafka.topics import prepare_topics
from stream_masker.service.warmup import warm_up

STALL_SECONDS = 120.0
SETTLE_SECONDS = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoOptions:
    """What the demonstration is asked for.

    records: events to generate; rate: events a second, 0 for full speed; bootstrap_servers: a real broker, or none
    for the embedded one; port: of the calibrator's /metrics, the worker's is the next.
    """

    records: int = 20_000
    rate: float = 1_000.0
    correlation: float = 0.7
    seed: int = 1
    bootstrap_servers: str = ""
    port: int = 9464


def run_demo(options: DemoOptions, console: Console) -> None:
    """Runs every process of the service on generated events until all are accounted for.

    Raises ServiceError when a process stops, or when nothing happens for two minutes.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="stream-masker-demo-")))
        servers = options.bootstrap_servers or _embedded(stack, console)
        setting = prepare_demo(folder, bootstrap_servers=servers, records=options.records, port=options.port)
        say(console, "preparing ICD-10-CM and compiled kernels (the first time takes a minute) …")
        warm_up(setting.configuration)
        if options.bootstrap_servers:
            prepare_topics(setting.configuration)
        _watch(options, setting, stack, console)


def _embedded(stack: ExitStack, console: Console) -> str:
    say(console, "no --bootstrap-servers: this uses librdkafka's embedded broker, in memory, for trying out only")
    return stack.enter_context(EmbeddedBroker()).address


def _watch(options: DemoOptions, setting: DemoSetting, stack: ExitStack, console: Console) -> None:
    watcher = TopicWatcher(setting.configuration)
    stack.callback(watcher.close)
    children = stack.enter_context(Children(setting.folder))
    _start(options, setting, children)
    for name, port in (("calibrator", setting.calibrator_port), ("worker", setting.worker_port)):
        say(console, f"{name}: http://127.0.0.1:{port}/metrics")
    start = time.monotonic()
    taxonomies = build_taxonomies(setting.configuration)
    with DemoView(console, options.records, taxonomies) as view:
        _follow(watcher, children, view, options.records)
    _summarise(watcher.seen, time.monotonic() - start, console)
    say(console, "\n".join(statistics_lines(watcher.seen, taxonomies)))


def _start(options: DemoOptions, setting: DemoSetting, children: Children) -> None:
    config = ["--config", str(setting.file)]
    children.start("calibrator", config)
    children.start("worker", [*config, "--http-port", str(setting.worker_port)])
    _until_served(children, setting)
    events = ["--records", str(options.records), "--rate", str(options.rate), "--seed", str(options.seed)]
    drift = ["--correlation", str(options.correlation), "--drift-after", str(options.records // 2)]
    children.start("simulate", [*config, *events, *drift])


def _until_served(children: Children, setting: DemoSetting) -> None:
    """Waits until both processes serve their metrics, so that events do not pile up before they start."""
    waiting = {setting.calibrator_port, setting.worker_port}
    deadline = time.monotonic() + STALL_SECONDS
    while waiting:
        children.check()
        waiting = {port for port in waiting if not is_served(port)}
        if time.monotonic() > deadline:
            raise ServiceError(f"no /metrics after {STALL_SECONDS:.0f} s at the ports {sorted(waiting)}")
        time.sleep(POLL_SECONDS)


def _follow(watcher: TopicWatcher, children: Children, view: DemoView, records: int) -> None:
    """Until every record is masked or rejected and the statistics had time to follow."""
    seen, progressed, counted = watcher.seen, time.monotonic(), 0
    finished: float | None = None
    while finished is None or time.monotonic() < finished:
        watcher.poll()
        children.check(finished=("simulate",))
        view.update(seen)
        if (count := seen.produced + seen.outcomes) > counted:
            progressed, counted = time.monotonic(), count
        if time.monotonic() - progressed > STALL_SECONDS:
            raise ServiceError(f"nothing happened for {STALL_SECONDS:.0f} s; {seen.outcomes:,} records were done")
        if seen.outcomes >= records and (finished is None or _settled(seen)):
            finished = time.monotonic() + (0.0 if _settled(seen) else SETTLE_SECONDS)


def _settled(seen: Observed) -> bool:
    """Whether statistics of masked records, with their utility, have been seen."""
    return seen.drift is not None and seen.drift.utility is not None


def _summarise(seen: Observed, seconds: float, console: Console) -> None:
    version = 0 if seen.statistics is None else seen.statistics.version
    lines = [
        f"{seen.produced:,} events produced, {seen.masked:,} masked, {seen.rejected.total():,} rejected: "
        f"{seen.outcomes:,} accounted for, in {seconds:.1f} s",
        f"{version} statistics versions; peak drift from the baseline (Jensen-Shannon) {seen.peak_divergence:.3f}",
    ]
    say(console, "\n".join(lines))
