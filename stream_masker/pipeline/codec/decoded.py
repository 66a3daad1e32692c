"""The decoded form of a batch: attribute codes, rejections, and a template for each output record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from stream_masker.core.batch import Batch
from stream_masker.core.dtypes import Int64Array
from stream_masker.pipeline.records import Rejected
from stream_masker.pipeline.style import StyleCounts

TemplatesT = TypeVar("TemplatesT")
OtherT = TypeVar("OtherT")


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodedBatch(Generic[TemplatesT]):
    """n records, of which k can be masked. Tombstones are neither decoded nor rejected.

    indices: (k,) int64, ascending: the records that can be masked; batch: their codes; keys: their noise keys, empty if
    the plan has none; rejected: the rejections, by index; undecided: (u,) int64, ascending: records that this codec
    leaves to another one; unknown: for each attribute the number of values without a concept, including those of
    rejected records; lost: the number of those that are not in ``batch``; styles: for each attribute the styles of the
    texts in ``batch``; templates: the k output records, from which the codec renders them; emptied: the number of
    values that a transform cannot treat, by configured path.
    """

    indices: Int64Array
    batch: Batch
    keys: Sequence[bytes]
    rejected: Mapping[int, Rejected]
    undecided: Int64Array
    unknown: Sequence[int]
    lost: Sequence[int]
    styles: Sequence[StyleCounts]
    templates: TemplatesT
    emptied: Mapping[str, int] = field(default_factory=dict)

    def with_templates(self, templates: OtherT) -> DecodedBatch[OtherT]:
        """Return the same records with other templates."""
        return DecodedBatch(
            indices=self.indices,
            batch=self.batch,
            keys=self.keys,
            rejected=self.rejected,
            undecided=self.undecided,
            unknown=self.unknown,
            lost=self.lost,
            styles=self.styles,
            templates=templates,
            emptied=self.emptied,
        )

    def reindexed(self, indices: Int64Array) -> DecodedBatch[TemplatesT]:
        """Return the same records as part of a larger batch: record i gets the index ``indices[i]``."""
        rejected = {int(indices[index]): one for index, one in self.rejected.items()}
        return replace(self, indices=indices[self.indices], rejected=rejected, undecided=indices[self.undecided])
