"""Processor times, and what a script tells the command."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable


def obo_file() -> str:
    return json.loads(sys.argv[1])["file"]


def seconds(run: Callable[[], object]) -> float:
    """The processor time of one run."""
    start = time.process_time()
    run()
    return time.process_time() - start


def report_load(load: Callable[[], object], size: Callable[[object], int]) -> None:
    start = time.process_time()
    loaded = load()
    print(json.dumps({"load": time.process_time() - start, "concepts": size(loaded)}))


def report_pairs(similarity: Callable[[str, str], float]) -> None:
    """Time each pair of a file for the first time, and again."""
    with open("pairs.json") as file:
        pairs = json.load(file)
    first, again = (seconds(lambda: [similarity(a, b) for a, b in pairs]) for _ in range(2))
    values = [similarity(a, b) for a, b in pairs]
    print(json.dumps({"first": len(pairs) / first, "again": len(pairs) / again, "values": values}))
