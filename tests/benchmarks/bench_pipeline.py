"""Processor time of the parts of a worker's pipeline, without Kafka, in µs a record.

``python tests/benchmarks/bench_pipeline.py [--rounds 5]``. One thread; batches of 10,000 records of four partitions, as
a worker masks them by the statistics of a sample. Prints the quartiles over all batches. The time of the thread hardly
depends on what else runs on the machine. ``bench_peers.py`` shows the processor time of the whole worker.
"""

from __future__ import annotations

import gc
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import starmap
from pathlib import Path

import numpy as np
import orjson
from measuring import ResultT, arguments, table, timed
from streaming import PARTITIONS, configured, inputs

from stream_masker.core.random import FieldKeys
from stream_masker.pipeline.codec import DOCUMENTS, Codec
from stream_masker.pipeline.messages import block_key, encode_block
from stream_masker.pipeline.records import Inputs
from stream_masker.pipeline.transforms import Pseudonyms
from stream_masker.service.configuration import Configuration
from stream_masker.service.configuration.secret import masking_secret, topic_seal
from stream_masker.service.events.synthetic import SyntheticDischarges
from stream_masker.service.files import FileEvent
from stream_masker.service.files.masking import FileMasking
from stream_masker.service.masking import Masking

BATCH, BATCHES, SAMPLE = 10_000, 6, 20_000


class Parts:
    """Measures the parts of the pipeline of a configuration."""

    def __init__(self, configuration: Configuration) -> None:
        self.times: dict[str, list[float]] = defaultdict(list)
        events = SyntheticDischarges(configuration, seed=1).events(BATCH * BATCHES)
        self.values = [orjson.dumps(event) for event in events]
        self.masking = Masking(configuration)
        self.masking.restore(FileMasking(configuration).snapshot(starmap(FileEvent, enumerate(self.values[:SAMPLE]))))
        self.topic = configuration.topics.input
        self.secret = masking_secret(configuration, self.topic)
        self.seal = topic_seal(configuration, configuration.topics.calibration)
        self.codec = Codec(self.masking.plan, Pseudonyms(self.secret))

    def batches(self) -> Iterator[dict[int, Inputs]]:
        for start in range(0, len(self.values), BATCH):
            values = self.values[start : start + BATCH]
            yield {partition: inputs(values[partition::PARTITIONS], start) for partition in range(PARTITIONS)}

    def measure(self, batch: dict[int, Inputs]) -> None:
        masker = self.masking.masker
        mask = partial(masker.mask, self.topic, statistics_version=1)
        results = self.timed("mask", lambda: list(starmap(mask, batch.items())))
        blocks = [block for result in results for block in result.blocks]
        taxonomies = self.masking.taxonomies
        self.timed(
            "encode and seal the counts of all",
            lambda: [self.seal.seal(block_key(b), encode_block(b, taxonomies)) for b in blocks],
        )
        starts = range(0, BATCH // PARTITIONS, DOCUMENTS)
        parts = [records.part(start, start + DOCUMENTS) for records in batch.values() for start in starts]
        self.timed("of masking: read, replace, write", lambda: [*map(self.mask_part, parts)])

    def mask_part(self, part: Inputs) -> Sequence[bytes | None]:
        read = self.codec.read(part)
        keys = FieldKeys(self.secret, read.keys or [b"%d" % k for k in range(read.batch.size)])
        self.codec.write(read, self.masking.mechanism.mask_batch(read.batch, keys), part.offsets)
        return read.values

    def timed(self, name: str, do: Callable[[], ResultT]) -> ResultT:
        seconds, result = timed(do, time.thread_time)
        self.times[name].append(1e6 * seconds / BATCH)
        return result


def main() -> None:
    options = arguments(__doc__, {"--rounds": 5})
    gc.disable()
    parts = measured(options.rounds)
    rows = [[part, *np.percentile(times, [25, 50, 75])] for part, times in parts.times.items()]
    table("Processor time of a worker's pipeline", ("part", "µs a record, lower quartile", "median", "upper"), rows)


def measured(rounds: int) -> Parts:
    """Return the times of all rounds but the first."""
    with tempfile.TemporaryDirectory() as name:
        parts = Parts(configured(Path(name), "localhost:1", BATCH))
    for number in range(rounds + 1):
        for batch in parts.batches():
            parts.measure(batch)
        if not number:
            parts.times.clear()
    return parts


if __name__ == "__main__":
    main()
