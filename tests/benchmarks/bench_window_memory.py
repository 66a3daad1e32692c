"""The calibrator's memory with a full window of the default size, at several rates of the stream.

``python tests/benchmarks/bench_window_memory.py [--rates RATE ...] [--records N]``. Each case has a process of its own.
It masks synthetic nested events with ICD-10-CM and the patient as noise key, in the blocks of a worker of four
partitions, and adds the blocks, encoded and decoded, to the window.

The resident memory of the process that counts, in MB: ``before``, with the ontology and the encoded blocks;
``full``, with the window; ``peak``, the greatest one, while its counts are added up for the statistics.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from itertools import starmap
from multiprocessing import get_context
from pathlib import Path

import orjson
from measuring import arguments, table
from streaming import PARTITIONS, configured, inputs
from support.memory import resident

from stream_masker.pipeline.messages import decode_block, encode_block
from stream_masker.pipeline.records import Block
from stream_masker.pipeline.window import CalibrationSettings, WindowLog
from stream_masker.service.configuration import load_configuration
from stream_masker.service.events.synthetic import SyntheticDischarges
from stream_masker.service.files import FileEvent
from stream_masker.service.files.masking import FileMasking
from stream_masker.service.masking import Masking

MB = 1 << 20
RATES = (1, 20, 300, 30_000)
RECORDS = 100_000
DELAY = 0.05
"""The time of a commit, in seconds, during which a worker collects its next batch at a low load."""
LARGEST = 10_000
"""The default of ``worker.batch_records``."""
DISTINCT = 10_000
"""The number of blocks that are masked; further ones repeat them."""
HEAD = ("records/s", "blocks", "records", "before", "full", "peak")


def main() -> None:
    rates, case = {"nargs": "+", "type": int, "default": RATES}, {"type": int, "help": argparse.SUPPRESS}
    options = arguments(__doc__, {"--rates": rates, "--records": RECORDS, "--case": case})
    if options.case:
        print(json.dumps(measured(options.case, options.records)))
        return
    table("A full window", HEAD, (run(rate, options.records) for rate in options.rates))


def run(rate: int, records: int) -> list[object]:
    command = [sys.executable, __file__, "--records", str(records), "--case", str(rate)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return [rate, *json.loads(done.stdout.splitlines()[-1])]


def measured(rate: int, records: int) -> list[float]:
    with tempfile.TemporaryDirectory() as name:
        configuration = configured(Path(name), "localhost:1", LARGEST, "nested")
        size = max(1, min(LARGEST, int(rate * DELAY) // PARTITIONS))
        with ProcessPoolExecutor(1, get_context("spawn")) as other:
            raw = other.submit(encoded, Path(name), size, records).result()
        taxonomies = Masking(configuration).taxonomies
    before = resident(os.getpid()) / MB
    log = WindowLog(CalibrationSettings(window_records=records, every_records=2**60), first=False)
    fill(log, (decode_block(one, taxonomies) for one in itertools.cycle(raw)), records // size, size)
    full, window = resident(os.getpid()) / MB, log.window()
    assert window is not None
    assert window.total.original.records == window.total.masked.records == log.records
    assert len(window.total.distortions) == len(window.total.styles)
    peak = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / MB
    return [len(window.blocks), log.records, before, full, peak]


def encoded(folder: Path, size: int, records: int) -> list[bytes]:
    """Return encoded blocks of ``size`` records each, made with the configuration in a folder."""
    configuration = load_configuration(folder / "stream-masker.yaml", {})
    number = min(records, DISTINCT * size)
    values = [orjson.dumps(event) for event in SyntheticDischarges(configuration, seed=1).events(number)]
    masking = Masking(configuration)
    masking.restore(FileMasking(configuration).snapshot(starmap(FileEvent, enumerate(values))))
    blocks = itertools.chain.from_iterable(
        masking.masker.mask("discharges", 0, inputs(values[start : start + size], start), statistics_version=1).blocks
        for start in range(0, number, size)
    )
    return [encode_block(block, masking.taxonomies) for block in blocks]


def fill(log: WindowLog, blocks: Iterator[Block], number: int, size: int) -> None:
    """Add blocks of ``size`` records of each partition in turn, until the window is full."""
    for offset, block in enumerate(itertools.islice(blocks, number + number // 10)):
        first = offset // PARTITIONS * size
        placed = replace(block, partition=offset % PARTITIONS, first_offset=first, last_offset=first + size - 1)
        log.add(offset, 2 * 10**12, placed)


if __name__ == "__main__":
    main()
