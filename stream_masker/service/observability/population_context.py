"""Which population the current thread or task works for, as log lines and the texts of ``/readyz`` name it.

The population of the configuration file itself has an empty name, and its texts have no prefix.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, copy_context

_POPULATION: ContextVar[str] = ContextVar("population", default="")


@contextmanager
def working_for(population: str) -> Iterator[None]:
    """Work for a population inside the block, also in the threads and tasks that the block creates."""
    token = _POPULATION.set(population)
    try:
        yield
    finally:
        _POPULATION.reset(token)


def population_thread(run: Callable[[], object], name: str) -> threading.Thread:
    """Return a daemon thread that works for the same population as the caller."""
    return threading.Thread(target=copy_context().run, args=(run,), name=name, daemon=True)


def population_text(text: str) -> str:
    """Return a text with the name of the population that the current thread or task works for."""
    return named_text(_POPULATION.get(), text)


def named_text(population: str, text: str) -> str:
    """Return a text with the name of the population that it is about."""
    return f"population {population}: {text}" if population else text
