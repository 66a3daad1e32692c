"""Counting of masked records in blocks: sampled, bounded for each noise key, and split to fit into messages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.batch import Batch, Distortion, unchanged_records
from stream_masker.core.dtypes import Int64Array
from stream_masker.core.ontology import Taxonomy
from stream_masker.core.random import Secret
from stream_masker.core.statistics.counts import Counts, count_batch, key_hashes, key_slots, merge
from stream_masker.pipeline.calibration.blocks import (
    CountedRecords,
    chosen_records,
    limit_elements,
    split_into_blocks,
    strata,
)
from stream_masker.pipeline.calibration.sampling import PositionSampler
from stream_masker.pipeline.codec import DecodedBatch
from stream_masker.pipeline.reasons import RejectionCause, RejectionCauses, by_reason
from stream_masker.pipeline.records import Block, Inputs, Stratum
from stream_masker.pipeline.style import StyleCounts, add_styles

KEY_CELLS: Final = 1 << 16
"""The number of cells. Keys in the same cell are bounded together."""

LEAST_COUNTED: Final = 100
"""The number of records of a key that are always counted in each period."""


class KeyWeights:
    """Chooses the records that are counted, so that none of their noise keys outweighs the others.

    ``period`` is a number of offered records. In each period, the records of a cell are counted while they are fewer
    than ``LEAST_COUNTED``, or fewer than ``share`` of all records counted in the period. If an earlier period had so
    few keys that they cannot fill a window at this share, the share is twice that of equally frequent keys.
    """

    def __init__(self, *, share: float = 1.0, period: int = 100_000) -> None:
        """share: above 0, at most 1 (no bound); period: at least 1."""
        self._share = share
        self._period = period
        self._counted = np.zeros(KEY_CELLS, np.int64)
        self._total = 0
        self._offered = 0
        self._keys_before = 0

    def admit(self, hashes: Int64Array) -> NDArray[np.bool_]:
        """Return (n,) bool: whether each of n records is counted. ``hashes``: (n,) the hashes of their noise keys."""
        if self._share >= 1:
            return np.ones(len(hashes), np.bool_)
        if self._offered >= self._period:
            self._begin_period()
        cells = (hashes & (KEY_CELLS - 1)).astype(np.uint16)
        admitted = _ranks(cells) < self._bound - self._counted[cells]
        np.add.at(self._counted, cells[admitted], 1)
        self._total += int(np.count_nonzero(admitted))
        self._offered += len(cells)
        return admitted

    def _begin_period(self) -> None:
        self._keys_before = int(np.count_nonzero(self._counted))
        self._counted[:] = 0
        self._total = self._offered = 0

    @property
    def _bound(self) -> int:
        """The number of records of a cell that may be counted so far in this period."""
        share = max(self._share, 2 / self._keys_before) if self._keys_before else self._share
        return max(LEAST_COUNTED, int(share * self._total))


def _ranks(cells: NDArray[np.uint16]) -> Int64Array:
    """Return (n,) int64: for each of n records, the number of earlier records in the same cell."""
    order = np.argsort(cells, kind="stable")
    ordered = cells[order]
    first = np.searchsorted(ordered, ordered)
    ranks = np.empty(len(cells), np.int64)
    ranks[order] = np.arange(len(cells)) - first
    return ranks


@dataclass(frozen=True, slots=True)
class SampleCounts:
    """The counts of a sample.

    causes: the number of records that are not counted, by reason and configured path; styles: those of the codes of
    each attribute.
    """

    counts: Counts
    causes: RejectionCauses
    styles: tuple[StyleCounts, ...]

    @property
    def rejected(self) -> dict[str, int]:
        """The number of records that are not counted, by reason."""
        return by_reason(self.causes)

    @classmethod
    def joined(cls, parts: Sequence[SampleCounts]) -> SampleCounts:
        """Join the counts of all parts, at least one."""
        causes = sum((Counter(part.causes) for part in parts), Counter[RejectionCause]())
        styles = add_styles(part.styles for part in parts)
        return cls(merge(part.counts for part in parts), dict(causes), styles)


class BlockCounter:
    """Counts the records of runs in blocks. Each run belongs to one partition.

    The state is the sampled level, which a statistics version sets, and the weights of the noise keys counted so far.
    """

    def __init__(
        self, secret: Secret, sizes: Sequence[int], weights: KeyWeights, fields: Mapping[str, Taxonomy]
    ) -> None:
        """sizes: the number of concepts of each attribute's taxonomy; fields: as of ``Block``."""
        self._sampler = PositionSampler(secret)
        self._secret = secret
        self._sizes = sizes
        self._weights = weights
        self._fields = fields
        self._level: int | None = None

    def sample_from(self, level: int | None) -> None:
        """Count only records of this level or more from now on; None: all records."""
        self._level = level

    def count(self, decoded: DecodedBatch) -> Counts:
        """Return the counts of decoded records, all of them."""
        batch = replace(self.with_slots(decoded), columns=limit_elements(decoded.batch.columns))
        return count_batch(batch, self._sizes, decoded.unknown, decoded.lost)

    def with_slots(self, decoded: DecodedBatch) -> Batch:
        """Return the batch of decoded records with the slots of their noise keys."""
        return _with_slots(decoded.batch, self._hashes(decoded.keys) if decoded.keys else None)

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
                rejected=dict(Counter(one.reason for one in part.rejected.values())),
                unchanged=int(np.count_nonzero(unchanged_records(part.batch, part.masked))),
                styles=tuple(part.styles),
                stratum=stratum,
                fields=self._fields,
            )
            for stratum, in_stratum in self._strata(counted, levels)
            for start, end, part in split_into_blocks(in_stratum, len(records))
        ]
        return blocks, left_out

    def _bounded(self, counted: CountedRecords, levels: Int64Array | None) -> tuple[CountedRecords, int]:
        """Hash the noise keys of the records that are counted.

        Return the records without those whose noise keys have been counted too often, and their number.
        """
        if counted.noise_keys is None:
            return counted, 0
        keys = np.zeros(len(counted.noise_keys), np.int64)
        sampled = slice(None) if levels is None else np.flatnonzero(levels[counted.indices] >= (self._level or 0))
        keys[sampled] = self._hashes(np.array(counted.noise_keys, object)[sampled])
        admitted = self._weights.admit(keys[sampled])
        counted = replace(counted, noise_keys=None, keys=keys)
        if admitted.all():
            return counted, 0
        kept = np.ones(len(keys), np.bool_)
        kept[sampled] = admitted
        return chosen_records(counted, np.flatnonzero(kept), counted.rejected), int(np.count_nonzero(~admitted))

    def _hashes(self, keys: Iterable[bytes]) -> Int64Array:
        return key_hashes(self._secret, keys)

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
    )


def _with_slots(batch: Batch, hashes: Int64Array | None) -> Batch:
    return batch if hashes is None else replace(batch, slots=key_slots(hashes))
