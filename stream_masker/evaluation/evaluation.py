"""The evaluation of mechanisms on a data set, in several processes."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context, parent_process

from stream_masker.errors import ParameterError, StatisticsError
from stream_masker.evaluation.candidates import Candidate
from stream_masker.evaluation.dataset import DataSet
from stream_masker.evaluation.measurement import REPEATS, Measurement, measure


@dataclass(frozen=True, slots=True)
class Rejection:
    """A candidate that the data do not allow, with the reason."""

    label: str
    reason: str


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The measures of a data set, in the order of the candidates, regardless of which process is done first."""

    data: DataSet
    measurements: tuple[Measurement, ...]
    rejected: tuple[Rejection, ...] = ()


def evaluate(
    data: DataSet,
    candidates: Sequence[Candidate],
    *,
    processes: int = 1,
    repeats: int = REPEATS,
    done: Callable[[], None] = lambda: None,
) -> Evaluation:
    """Measure candidates. ``repeats``: how often an attacker masks the data. ``done``: called after each candidate."""
    results = _in_pool(data, candidates, processes, repeats, done) if processes > 1 else None
    if results is None:
        results = list(_here(data, candidates, repeats, done))
    return Evaluation(
        data,
        tuple(result for result in results if isinstance(result, Measurement)),
        tuple(result for result in results if isinstance(result, Rejection)),
    )


def _here(
    data: DataSet, candidates: Sequence[Candidate], repeats: int, done: Callable[[], None]
) -> Iterator[Measurement | Rejection]:
    for candidate in candidates:
        yield _attempt(data, candidate, repeats)
        done()


def _attempt(data: DataSet, candidate: Candidate, repeats: int) -> Measurement | Rejection:
    try:
        return measure(candidate, data, repeats=repeats)
    except (ParameterError, StatisticsError) as error:
        return Rejection(candidate.label, str(error))


def _in_pool(
    data: DataSet, candidates: Sequence[Candidate], processes: int, repeats: int, done: Callable[[], None]
) -> list[Measurement | Rejection]:
    pool = ProcessPoolExecutor(processes, get_context("spawn"), initializer=_start_worker, initargs=(data,))
    try:
        futures = [pool.submit(_attempt_in_worker, candidate, repeats) for candidate in candidates]
        for _ in as_completed(futures):
            done()
        return [future.result() for future in futures]
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


def _attempt_in_worker(candidate: Candidate, repeats: int) -> Measurement | Rejection:
    return _attempt(_WORKER[0], candidate, repeats)
