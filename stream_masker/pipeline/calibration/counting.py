"""Counting of masked records in blocks: sampled, bounded for each noise key, and split to fit into messages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from stream_masker.core.batch import Batch, Distortion, unchanged_records
from stream_masker.core.dtypes import Int64Array
from stream_masker.core.ontology import Taxonomy
from stream_masker.core.random.distinct import KeyHasher, merged, sketch
from stream_masker.core.random.sampling import PositionSampler
from stream_masker.core.statistics.counts import Counts, count_batch, merge
from stream_masker.core.statistics.units import key_slots
from stream_masker.pipeline.calibration.blocks import CountedRecords, limit_elements, split_into_blocks
from stream_masker.pipeline.calibration.sampling import chosen_records, strata
from stream_masker.pipeline.calibration.weights import KeyWeights
from stream_masker.pipeline.codec.decoded import DecodedBatch
from stream_masker.pipeline.records import Block, Inputs, Rejected, Stratum
from stream_masker.pipeline.style import add_styles


class BlockCounter:
    """Counts the records of runs in blocks. Each run belongs to one partition.

    The state is the sampled level, which a statistics version sets, and the weights of the noise keys counted so far.
    """

    def __init__(
        self, secret: bytes, sizes: Sequence[int], weights: KeyWeights, fields: Mapping[str, Taxonomy]
    ) -> None:
        """sizes: the number of concepts of each attribute's taxonomy; fields: as of ``Block``.

        Raises ParameterError if the secret is empty.
        """
        self._sampler = PositionSampler(secret)
        self._hasher = KeyHasher(secret)
        self._sizes = sizes
        self._weights = weights
        self._fields = fields
        self._level: int | None = None

    def sample_from(self, level: int | None) -> None:
        """Count only records of this level or more from now on; None: all records."""
        self._level = level

    def count(self, decoded: DecodedBatch[Any]) -> Counts:
        """Return the counts of decoded records, all of them."""
        batch = replace(self.with_slots(decoded), columns=limit_elements(decoded.batch.columns))
        return count_batch(batch, self._sizes, decoded.unknown, decoded.lost)

    def with_slots(self, decoded: DecodedBatch[Any]) -> Batch:
        """Return the batch of decoded records with the slots of their noise keys."""
        return _with_slots(decoded.batch, self.hashes(decoded.keys) if decoded.keys else None)

    def hashes(self, keys: Sequence[bytes]) -> Int64Array:
        """Return (n,) int64: the hashes of n noise keys, for ``CountedRecords.keys``."""
        return self._hasher.hashes(keys)

    def blocks(
        self,
        records: Inputs,
        counted: CountedRecords,
        *,
        topic: str,
        source: str,
        partition: int,
        statistics_version: int,
    ) -> tuple[list[Block], int]:
        """Return the blocks of a run, and the number of its records that are left out because of the weight of their
        keys.

        records: those of the run, at least one; source: the topic's name with what distinguishes it from an earlier
        topic of that name.
        """
        levels = None
        if self._level is not None:
            levels = self._sampler.levels(source, partition, np.array(records.offsets, dtype=np.int64))
        counted, left_out = self._bounded(counted, levels)
        blocks = [
            Block(
                topic=topic,
                partition=partition,
                first_offset=records.offsets[start],
                last_offset=records.offsets[end - 1],
                timestamp=max(records.timestamps[start:end]),
                statistics_version=statistics_version,
                original=count_batch(_with_slots(part.batch, part.keys), self._sizes, part.unknown, part.lost),
                masked=count_batch(
                    Batch(part.batch.size, part.masked.columns, numeric=part.masked.numeric), self._sizes
                ),
                distortions=part.masked.distortions,
                rejected=_by_reason(part.rejected.values()),
                unchanged=int(np.count_nonzero(unchanged_records(part.batch, part.masked))),
                styles=tuple(part.styles),
                stratum=stratum,
                keys=None if part.keys is None else sketch(part.keys),
                fields=self._fields,
            )
            for stratum, chosen in self._strata(counted, levels)
            for start, end, part in split_into_blocks(chosen, len(records))
        ]
        return blocks, left_out

    def _bounded(self, counted: CountedRecords, levels: Int64Array | None) -> tuple[CountedRecords, int]:
        """Return the records without those whose noise keys have been counted too often, and their number."""
        if counted.keys is None:
            return counted, 0
        sampled = np.ones(len(counted.keys), np.bool_)
        if levels is not None:
            sampled = levels[counted.indices] >= (self._level or 0)
        admitted = self._weights.admit(counted.keys[sampled])
        if admitted.all():
            return counted, 0
        kept = np.ones(len(counted.keys), np.bool_)
        kept[sampled] = admitted
        return chosen_records(counted, np.flatnonzero(kept), counted.rejected), int(np.count_nonzero(~admitted))

    def _strata(
        self, counted: CountedRecords, levels: Int64Array | None
    ) -> Iterator[tuple[Stratum | None, CountedRecords]]:
        if levels is None or self._level is None:
            yield None, counted
        else:
            yield from strata(counted, levels, self._level)


def block_level(block: Block) -> int:
    """Return the level of a block's records; 0 if all records are counted."""
    return 0 if block.stratum is None else block.stratum.level


def merge_blocks(blocks: Sequence[Block]) -> Block:
    """Merge the blocks of consecutive records into one block."""
    columns = zip(*(block.distortions for block in blocks), strict=True)
    return replace(
        blocks[0],
        last_offset=blocks[-1].last_offset,
        timestamp=max(block.timestamp for block in blocks),
        original=merge(block.original for block in blocks),
        masked=merge(block.masked for block in blocks),
        distortions=tuple(sum(column, Distortion()) for column in columns),
        rejected=dict(sum((Counter(block.rejected) for block in blocks), Counter[str]())),
        unchanged=sum(block.unchanged for block in blocks),
        styles=add_styles(block.styles for block in blocks),
        keys=None if blocks[0].keys is None else merged(block.keys or () for block in blocks),
    )


def _with_slots(batch: Batch, hashes: Int64Array | None) -> Batch:
    return batch if hashes is None else replace(batch, slots=key_slots(hashes))


def _by_reason(rejected: Iterable[Rejected]) -> dict[str, int]:
    return dict(Counter(one.reason for one in rejected))
