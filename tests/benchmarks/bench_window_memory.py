"""The calibrator's memory with a full window of the default size, at several rates of the stream.

``python tests/benchmarks/bench_window_memory.py [--rates RATE ...] [--records 100000]``. Each case has a process of its
own. It masks synthetic nested events with ICD-10-CM and the patient as noise key, in the blocks of a worker of four
partitions, and adds the blocks, encoded and decoded, to the window.

The resident memory of the process that counts, in MB: ``before``, with the ontology and the encoded blocks;
``full``, with the window; ``peak``, the greatest one, while its counts are added up for the statistics.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from itertools import cycle, islice, starmap
from multiprocessing import get_context

import orjson
from measuring import NESTED, arguments, table
from support.polling import resident
from support.results import InputRecord, inputs

from stream_masker.pipeline.messages import decode_block, encode_block
from stream_masker.pipeline.records import Block
from stream_masker.pipeline.versions import put_in_force
from stream_masker.pipeline.window import CalibrationSettings, WindowLog
from stream_masker.service.configuration import load_configuration
from stream_masker.service.events.synthetic import SyntheticDischarges
from stream_masker.service.files import FileEvent
from stream_masker.service.files.masking import FileMasking
from stream_masker.service.masking import Masking

MB = 1 << 20
PARTITIONS = 4
DELAY = 0.05
"""The time of a commit, in seconds, during which a worker collects its next batch at a low load."""
LARGEST = 10_000
"""The default of ``worker.batch_records``."""
DISTINCT = 10_000
"""The number of blocks that are masked; further ones repeat them."""


def main() -> None:
    rates = {"nargs": "+", "type": int, "default": (1, 20, 300, 30_000)}
    options = arguments(__doc__, {"--rates": rates, "--records": 100_000})
    rows = ([rate, *alone(measured, rate, options.records)] for rate in options.rates)
    table("A full window", ("records/s", "blocks", "records", "before", "full", "peak"), rows)


def alone(run, *given):
    """Return the result of a function in a process of its own."""
    with ProcessPoolExecutor(1, get_context("spawn")) as other:
        return other.submit(run, *given).result()


def measured(rate: int, records: int) -> list[float]:
    """Return the blocks and the records of a window, and the memory before, with and after it, in MB."""
    size = max(1, min(LARGEST, int(rate * DELAY) // PARTITIONS))
    raw = alone(encoded, size, records)
    taxonomies = Masking(load_configuration(NESTED, {})).mechanism.taxonomies
    before = resident(os.getpid()) / MB
    log = WindowLog(CalibrationSettings(window_records=records, every_records=2**60), first=False)
    fill(log, (decode_block(one, taxonomies) for one in cycle(raw)), records // size, size)
    full, window = resident(os.getpid()) / MB, log.window()
    assert window is not None
    assert window.total.original.records == window.total.masked.records == log.records
    peak = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / MB
    return [len(window.blocks), log.records, before, full, peak]


def encoded(size: int, records: int) -> list[bytes]:
    """Return encoded blocks of ``size`` records each."""
    configuration = load_configuration(NESTED, {})
    masking, number = Masking(configuration), min(records, DISTINCT * size)
    values = [orjson.dumps(event) for event in SyntheticDischarges(configuration, seed=1).events(number)]
    put_in_force(FileMasking(configuration).snapshot(starmap(FileEvent, enumerate(values))), masking.mechanism)
    events = [InputRecord(offset, value) for offset, value in enumerate(values)]
    parts = (inputs(events[start : start + size]) for start in range(0, number, size))
    results = (masking.masker.mask("discharges", 0, part, statistics_version=1) for part in parts)
    return [encode_block(block, masking.mechanism.taxonomies) for result in results for block in result.blocks]


def fill(log: WindowLog, blocks: Iterator[Block], number: int, size: int) -> None:
    """Add blocks of ``size`` records of each partition in turn, until the window is full."""
    for offset, block in enumerate(islice(blocks, number + number // 10)):
        first = offset // PARTITIONS * size
        placed = replace(block, partition=offset % PARTITIONS, first_offset=first, last_offset=first + size - 1)
        log.add(offset, 2 * 10**12, placed)


if __name__ == "__main__":
    main()
