"""Block counting: the counts of a run's records, before and after masking, as the blocks of the calibration topic."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import groupby

import numpy as np

from stream_masker.core.batch import Batch, Distortion
from stream_masker.core.random.distinct import merged, sketch
from stream_masker.core.random.sampling import PositionSampler
from stream_masker.core.statistics.counts import count_batch, merge
from stream_masker.pipeline.calibration.blocks import CountedRecords, split_into_blocks
from stream_masker.pipeline.calibration.sampling import strata
from stream_masker.pipeline.records import Block, Rejected, Stratum
from stream_masker.pipeline.runs import Run
from stream_masker.pipeline.style import add_styles


class BlockCounter:
    """Counts runs in blocks. sizes: the number of concepts of each attribute's taxonomy."""

    def __init__(self, sizes: Sequence[int], sampler: PositionSampler) -> None:
        self._sizes = sizes
        self._sampler = sampler
        self._level: int | None = None

    def sample_from(self, level: int | None) -> None:
        """Count only records of this level or more from now on (``calibration.sampling``); None: all records."""
        self._level = level

    def blocks(self, run: Run, counted: CountedRecords) -> list[Block]:
        """The blocks of a run: several if one would not fit into a message, and one for each stratum of a sample."""
        return [
            block
            for start, end, part in split_into_blocks(counted, len(run.records))
            for block in self._strata(replace(run, records=run.records.part(start, end)), part)
        ]

    def _strata(self, run: Run, counted: CountedRecords) -> list[Block]:
        if self._level is None:
            return [self._block(run, counted)]
        levels = self._sampler.levels(run.topic, run.partition, np.array(run.records.offsets, dtype=np.int64))
        return [self._block(run, part, stratum) for stratum, part in strata(counted, levels, self._level)]

    def _block(self, run: Run, counted: CountedRecords, stratum: Stratum | None = None) -> Block:
        masked = Batch(counted.batch.size, counted.masked.columns, numeric=counted.masked.numeric)
        return Block(
            topic=run.topic,
            partition=run.partition,
            first_offset=run.records.offsets[0],
            last_offset=run.records.offsets[-1],
            timestamp=max(run.records.timestamps),
            statistics_version=run.statistics_version,
            original=count_batch(counted.batch, self._sizes, counted.unknown, counted.lost),
            masked=count_batch(masked, self._sizes),
            distortions=counted.masked.distortions,
            rejected=_number_by_reason(counted.rejected.values()),
            styles=tuple(counted.styles),
            stratum=stratum,
            keys=None if counted.keys is None else sketch(counted.keys),
        )


def merge_single_blocks(blocks: Iterable[Block]) -> list[Block]:
    """The blocks of consecutive records that have a block each, merged to one block for each stratum."""
    return [_merge_blocks(list(group)) for _, group in groupby(sorted(blocks, key=_level_of), _level_of)]


def _level_of(block: Block) -> int:
    return 0 if block.stratum is None else block.stratum.level


def _merge_blocks(blocks: Sequence[Block]) -> Block:
    columns = zip(*(block.distortions for block in blocks), strict=True)
    return replace(
        blocks[0],
        last_offset=blocks[-1].last_offset,
        timestamp=max(block.timestamp for block in blocks),
        original=merge(block.original for block in blocks),
        masked=merge(block.masked for block in blocks),
        distortions=tuple(sum(column, Distortion()) for column in columns),
        rejected=dict(sum((Counter(block.rejected) for block in blocks), Counter[str]())),
        styles=add_styles(block.styles for block in blocks),
        keys=None if blocks[0].keys is None else merged(block.keys or () for block in blocks),
    )


def _number_by_reason(rejected: Iterable[Rejected]) -> dict[str, int]:
    return dict(Counter(one.reason for one in rejected))
