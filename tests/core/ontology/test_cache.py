"""The cache folder, when several processes load the same source at once, and the files of an installation."""

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from stream_masker.core.ontology import Ontology, sources

pytestmark = pytest.mark.usefixtures("own_cache")

LINKS = [("a", "r"), ("b", "a")]
DIE_WHILE_PARSING = """
import os
from stream_masker.core.ontology import sources, compiled
sources.load_cached("key", "source", lambda: os._exit(3))
"""


def parse_links():
    return Ontology.from_edges(LINKS).data


def test_one_of_several_threads_parses_and_the_others_wait():
    parsing, waiting = threading.Event(), threading.Semaphore(0)
    parsed = []

    def parse():
        parsed.append(parse_links())
        parsing.set()
        for _ in range(3):
            assert waiting.acquire(timeout=30)
        return parsed[-1]

    def load_later():
        assert parsing.wait(30)
        waiting.release()
        return sources.load_cached("key", "source", parse)

    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(sources.load_cached, "key", "source", parse)
        loaded = [first, *(pool.submit(load_later) for _ in range(3))]
        assert all(list(each.result(60).taxonomy.ids) == ["r", "a", "b"] for each in loaded)
    assert len(parsed) == 1


def test_different_sources_do_not_wait_for_each_other():
    def parse():
        return sources.load_cached("other", "other", parse_links)

    assert len(sources.load_cached("key", "source", parse).taxonomy) == 3


def test_a_process_that_dies_while_parsing_releases_the_lock():
    assert subprocess.run([sys.executable, "-c", DIE_WHILE_PARSING], check=False).returncode == 3
    assert len(sources.load_cached("key", "source", parse_links).taxonomy) == 3


def test_an_error_while_parsing_releases_the_lock():
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            sources.load_cached("key", "source", lambda: 1 / 0)


def test_a_source_that_an_earlier_build_parsed_is_parsed_again(shipped, tmp_path, monkeypatch):
    readers = tmp_path / "readers"
    readers.mkdir()
    (readers / "claml.py").write_text("another parser")
    monkeypatch.setattr(sources, "READERS_FOLDER", readers)
    parsed = Ontology.from_edges([("x", "r")]).data
    assert list(sources.load_cached("key", "source", lambda: parsed).taxonomy.ids) == ["r", "x"]


def test_a_damaged_file_of_the_installation_is_parsed(shipped, own_cache):
    shipped.write_bytes(shipped.read_bytes()[:-1])
    assert len(sources.load_cached("key", "source", parse_links).taxonomy) == 3
    assert len(list(own_cache.glob("*.ontology"))) == 1
