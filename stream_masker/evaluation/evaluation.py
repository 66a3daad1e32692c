"""The evaluation of mechanisms on a data set: all measures and tables, computed in several processes."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from multiprocessing import get_context, parent_process
from typing import TypeAlias

from stream_masker.core.mechanisms.microaggregation import AGGREGATION_VARIANTS
from stream_masker.errors import ParameterError, StatisticsError
from stream_masker.evaluation.candidates import (
    SWAPPING_INTERVALS,
    SWAPPING_VARIANTS,
    Candidate,
    candidates,
    noise_candidate,
)
from stream_masker.evaluation.co_occurrence import CoOccurrence, co_occurrence
from stream_masker.evaluation.dataset import DataSet
from stream_masker.evaluation.grouped import (
    SSE_KS,
    SseRow,
    SwappingRow,
    sse_row,
    swapping_row,
)
from stream_masker.evaluation.measurement import REPEATS, Measurement, measure

ALPHAS_2016 = (0.2, 0.4)
METHODS_2016 = ("Uncorrelated-Algorithm1", "Correlated-Algorithm2")
"""The noise levels and methods of 2016's Table 1."""

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
            case SwappingRow():
                self.swapping.append(result)
            case SseRow():
                self.errors.append(result)

    def of(self, mechanism: str) -> list[Measurement]:
        """Return the measurements of a mechanism by name."""
        return [m for m in self.measurements if m.candidate.mechanism == mechanism]


Task: TypeAlias = Callable[[DataSet], object]
"""A part of an evaluation, whose result ``Evaluation.add`` takes. It can be pickled."""


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
    compared = [*configured, *candidates(mechanisms, alphas)]
    if "semantic_noise" in mechanisms:
        known = {candidate.label for candidate in compared}
        of_2016 = (noise_candidate(method, "ceil", alpha) for alpha, method in product(ALPHAS_2016, METHODS_2016))
        compared += [candidate for candidate in of_2016 if candidate.label not in known]
    tasks = candidate_tasks(compared, repeats)
    ks = [k for k in SWAPPING_INTERVALS if k < data.whole.size]
    if "rank_swapping" in mechanisms:
        cases = product(SWAPPING_VARIANTS, ks)
        tasks += [_task(f"2019: {method}, k = {k}", partial(swapping_row, method=method, k=k)) for method, k in cases]
    if "microaggregation" in mechanisms:
        tasks += [
            _task(f"2013: {variant}, k = {k}", partial(sse_row, k=k, variant=variant))
            for k, variant in product(SSE_KS, AGGREGATION_VARIANTS[::-1])
            if k <= data.whole.size
        ]
    if "vicus" in mechanisms:
        tasks.append(_task("2012: VICUS", partial(co_occurrence, confidential=confidential)))
    return tasks


def candidate_tasks(compared: Sequence[Candidate], repeats: int) -> list[Task]:
    """Return the tasks that measure candidates."""
    return [_task(candidate.label, partial(measure, candidate, repeats=repeats)) for candidate in compared]


def _task(label: str, part: Callable[[DataSet], object]) -> Task:
    return partial(_attempt, label=label, part=part)


def _attempt(data: DataSet, label: str, part: Callable[[DataSet], object]) -> object:
    """Return a part of an evaluation, or why the data do not allow it."""
    try:
        return part(data)
    except (ParameterError, StatisticsError) as error:
        return Rejection(label, str(error))


def run_tasks(data: DataSet, tasks: Sequence[Task], *, processes: int, done: TaskDone = lambda: None) -> Evaluation:
    """Run tasks, in this process or also in others; ``done`` is called when a task is done, or begins here."""
    evaluation = Evaluation(data)
    for result in _in_pool(data, tasks, processes, done) if processes > 1 else (task(data) for task in tasks):
        evaluation.add(result)
        if processes == 1:
            done()
    return evaluation


def _in_pool(data: DataSet, tasks: Sequence[Task], processes: int, done: TaskDone) -> list[object]:
    """Run tasks in other processes, and in this one the last ones that none of those has begun."""
    pool = ProcessPoolExecutor(processes - 1, get_context("spawn"), initializer=_start_worker, initargs=(data,))
    try:
        futures = [pool.submit(_run_task, task) for task in tasks]
        for future in futures:
            future.add_done_callback(lambda _: done())
        results = {
            future: task(data) for future, task in zip(futures[::-1], tasks[::-1], strict=True) if future.cancel()
        }
        return [results[future] if future in results else future.result() for future in futures]
    finally:
        pool.shutdown(cancel_futures=True)


_WORKER: list[DataSet] = []
"""The data set of a worker process."""


def _start_worker(data: DataSet) -> None:
    threading.Thread(target=_end_with_parent, name="parent", daemon=True).start()
    _WORKER.append(data)


def _end_with_parent() -> None:
    """End this process when the one that started it has ended, which may have been killed."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _run_task(task: Task) -> object:
    return task(_WORKER[0])
