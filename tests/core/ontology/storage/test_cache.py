"""The folder of compiled ontologies, when several processes start at once."""

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from stream_masker.core.ontology import Ontology
from stream_masker.core.ontology.storage import cache

pytestmark = pytest.mark.usefixtures("own_cache")

LINKS = [("a", "r"), ("b", "a")]
DIES = """
import os, sys
from stream_masker.core.ontology.storage import cache
cache.through_cache("key", "source", lambda: os._exit(3))
"""


def test_of_several_that_start_at_once_one_parses_and_the_others_wait():
    parsing, waiting = threading.Event(), threading.Semaphore(0)
    parsed = []

    def parse():
        parsed.append(Ontology.from_edges(LINKS))
        parsing.set()
        for _ in range(3):
            assert waiting.acquire(timeout=30)
        return parsed[-1]

    def other():
        assert parsing.wait(30)
        waiting.release()
        return cache.through_cache("key", "source", parse)

    with ThreadPoolExecutor(4) as pool:
        found = [pool.submit(cache.through_cache, "key", "source", parse), *(pool.submit(other) for _ in range(3))]
        assert all(list(each.result(60).concepts) == ["r", "a", "b"] for each in found)
    assert len(parsed) == 1


def test_different_sources_do_not_wait_for_each_other():
    def parse():
        return cache.through_cache("other", "other", lambda: Ontology.from_edges(LINKS))

    assert len(cache.through_cache("key", "source", parse)) == 3


def test_a_process_that_dies_while_it_parses_keeps_nobody_waiting():
    assert subprocess.run([sys.executable, "-c", DIES], check=False).returncode == 3
    assert len(cache.through_cache("key", "source", lambda: Ontology.from_edges(LINKS))) == 3


def test_an_error_of_the_source_keeps_nobody_waiting():
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            cache.through_cache("key", "source", lambda: 1 / 0)
