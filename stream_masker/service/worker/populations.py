"""The mask workers of several populations in one process: one thread for each."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait

from prometheus_client import CollectorRegistry

from stream_masker.service.configuration import Configuration
from stream_masker.service.configuration.build import load_ontologies
from stream_masker.service.observability.health import Health
from stream_masker.service.observability.population_context import population_thread, working_for
from stream_masker.service.runtime.shutdown import exit_within
from stream_masker.service.worker.run import run_worker

log = logging.getLogger(__name__)


def run_workers(
    configurations: Mapping[str, Configuration],
    *,
    registries: Mapping[str, CollectorRegistry],
    healths: Mapping[str, Health],
    stop: threading.Event,
) -> None:
    """Run the worker of each population until ``stop`` is set; a single one runs in the calling thread.

    If one fails, all stop, and its error is raised, so that the process ends and is started again. A process that went
    on without one population would look healthy to its supervisor. Raises the errors of ``run_worker``.
    """
    if len(configurations) == 1:
        [(name, configuration)] = configurations.items()
        run_worker(configuration, registry=registries[name], health=healths[name], stop=stop)
        return
    for configuration in configurations.values():
        load_ontologies(configuration)  # here, so that threads with the same ontology do not load it twice
    running = []
    for name, configuration in configurations.items():
        with working_for(name):
            running.append(_started(configuration, registries[name], healths[name], stop))
    wait(running, return_when=FIRST_COMPLETED)
    if not stop.is_set():
        exit_within()
        stop.set()
    wait(running)
    for worker in running:
        worker.result()


def _started(
    configuration: Configuration, registry: CollectorRegistry, health: Health, stop: threading.Event
) -> Future[None]:
    """Start a worker in a thread of its own; the future holds its end."""
    future: Future[None] = Future()

    def run() -> None:
        try:
            run_worker(configuration, registry=registry, health=health, stop=stop)
        except BaseException as failure:
            log.exception("the worker failed, so the process ends with all populations")
            future.set_exception(failure)
        else:
            future.set_result(None)

    population_thread(run, f"worker {configuration.population}".rstrip()).start()
    return future
