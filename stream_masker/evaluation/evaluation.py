"""The evaluation of mechanisms on a data set: all measures and tables, computed in several processes."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import get_context, parent_process
from typing import Any, TypeAlias

from stream_masker.errors import ParameterError, StatisticsError
from stream_masker.evaluation.attack import REPEATS
from stream_masker.evaluation.candidates import NOISE_METHODS, Candidate, candidates, noise_candidate
from stream_masker.evaluation.co_occurrence import CoOccurrence, co_occurrence
from stream_masker.evaluation.dataset import DataSet
from stream_masker.evaluation.measurement import Measurement, measure
from stream_masker.evaluation.sse import SSE_KS, SseRow, sse_rows
from stream_masker.evaluation.swapping import BASELINES, METHODS, SWAPPING_KS, SwappingRow, swapping_rows

ALPHAS_2016 = (0.2, 0.4)
"""The noise levels of 2016's Table 1."""

TaskDone: TypeAlias = Callable[[], None]
"""Called when a task is done."""


@dataclass(frozen=True, slots=True)
class Rejection:
    """A candidate that the data do not allow, with the reason."""

    label: str
    reason: str


@dataclass(slots=True)
class Evaluation:
    """All measures of a data set. Every list is in the order of the tasks, regardless of which process is done
    first."""

    data: DataSet
    measurements: list[Measurement] = field(default_factory=list)
    rejected: list[Rejection] = field(default_factory=list)
    swapping: list[SwappingRow] = field(default_factory=list)
    errors: list[SseRow] = field(default_factory=list)
    co_occurrence: CoOccurrence | None = None

    def add(self, result: object) -> None:
        """Add the result of a task."""
        match result:
            case Measurement():
                self.measurements.append(result)
            case Rejection():
                self.rejected.append(result)
            case CoOccurrence():
                self.co_occurrence = result
            case [*rows]:
                self.swapping += [row for row in rows if isinstance(row, SwappingRow)]
                self.errors += [row for row in rows if isinstance(row, SseRow)]

    def of(self, mechanism: str) -> list[Measurement]:
        """Return the measurements of a mechanism by name."""
        return [one for one in self.measurements if one.candidate.mechanism == mechanism]


@dataclass(frozen=True, slots=True)
class Task:
    """A part of an evaluation: a function of this module's ``_TASKS``, and its arguments."""

    kind: str
    arguments: tuple[Any, ...]


def evaluation_tasks(
    data: DataSet,
    mechanisms: Sequence[str],
    alphas: Sequence[float],
    *,
    confidential: str,
    configured: Sequence[Candidate] = (),
    repeats: int = REPEATS,
) -> list[Task]:
    """Return the tasks that measure mechanisms by name, with the tables of the papers that concern them.

    ``configured``: further candidates, which come first. ``confidential``: the attribute of 2012's entropies.
    ``repeats``: how often the attacker masks the data.
    """
    chosen = [*configured, *candidates(mechanisms, alphas)]
    if "semantic_noise" in mechanisms:
        known = {candidate.label for candidate in chosen}
        chosen += [one for one in _candidates_of_2016() if one.label not in known]
    tasks = [Task("candidate", (candidate, repeats)) for candidate in chosen]
    ks = [k for k in SWAPPING_KS if k < data.whole.size]
    if "rank_swapping" in mechanisms:
        tasks += [Task("swapping", (method, k)) for method in METHODS for k in ks]
        tasks += [Task("swapping", (method, 0)) for method in BASELINES]
    if "microaggregation" in mechanisms:
        tasks += [Task("errors", (k,)) for k in SSE_KS if k <= data.whole.size]
    if "vicus" in mechanisms:
        tasks.append(Task("co_occurrence", (confidential,)))
    return tasks


def _candidates_of_2016() -> Iterator[Candidate]:
    for alpha in ALPHAS_2016:
        for method in ("Uncorrelated-Algorithm1", "Correlated-Algorithm2"):
            yield noise_candidate(method, NOISE_METHODS[method], "ceil", alpha)


def run_tasks(data: DataSet, tasks: Sequence[Task], *, processes: int, done: TaskDone = lambda: None) -> Evaluation:
    """Run tasks, in this process or in several; ``done`` is called after each."""
    result = Evaluation(data)
    for found in _in_process(data, tasks, done) if processes == 1 else _in_pool(data, tasks, processes, done):
        result.add(found)
    return result


def _in_process(data: DataSet, tasks: Sequence[Task], done: TaskDone) -> Iterator[Any]:
    for task in tasks:
        yield _TASKS[task.kind](data, *task.arguments)
        done()


def _in_pool(data: DataSet, tasks: Sequence[Task], processes: int, done: TaskDone) -> list[Any]:
    with _pool(data, processes) as pool:
        futures = [pool.submit(_run_task, task) for task in tasks]
        for _ in as_completed(futures):
            done()
        return [future.result() for future in futures]


@contextmanager
def _pool(data: DataSet, processes: int) -> Iterator[ProcessPoolExecutor]:
    pool = ProcessPoolExecutor(processes, get_context("spawn"), initializer=_start_worker, initargs=(data,))
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


_WORKER: dict[str, DataSet] = {}
"""The data set of a worker process."""


def _start_worker(data: DataSet) -> None:
    threading.Thread(target=_end_with_parent, name="parent", daemon=True).start()
    _WORKER["data"] = data


def _end_with_parent() -> None:
    """End this process when the one that started it has ended, which may have been killed."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _run_task(task: Task) -> Any:
    return _TASKS[task.kind](_WORKER["data"], *task.arguments)


def _measured(data: DataSet, candidate: Candidate, repeats: int) -> Measurement | Rejection:
    try:
        return measure(candidate, data, repeats=repeats)
    except (ParameterError, StatisticsError) as error:
        return Rejection(candidate.label, str(error))


def _swapped(data: DataSet, method: str, k: int) -> list[SwappingRow] | Rejection:
    methods, baselines = ({method: METHODS[method]}, {}) if k else ({}, BASELINES)
    found = swapping_rows(
        data.nominal, data.taxonomies, secrets=[data.secret], ks=(k,), methods=methods, baselines=baselines
    )
    try:
        return list(found)
    except (ParameterError, StatisticsError) as error:
        return Rejection(f"2019: {method}, k = {k}", str(error))


def _aggregated(data: DataSet, k: int) -> list[SseRow] | Rejection:
    try:
        return list(sse_rows(data.whole, data.taxonomies, data.numeric, secret=data.secret, ks=(k,)))
    except (ParameterError, StatisticsError) as error:
        return Rejection(f"2013: k = {k}", str(error))


def _co_occurring(data: DataSet, confidential: str) -> CoOccurrence:
    return co_occurrence(data, confidential=confidential)


_TASKS: dict[str, Callable[..., Any]] = {
    "candidate": _measured,
    "swapping": _swapped,
    "errors": _aggregated,
    "co_occurrence": _co_occurring,
}
