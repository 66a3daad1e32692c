"""The contract of codecs: records are read into a decoded batch, and rendered once the batch is masked.

A decoded batch has attribute codes, rejections, and a template for each output record.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar, cast

from stream_masker.core.batch import Batch, MaskedBatch
from stream_masker.core.dtypes import Int32Array, Int64Array
from stream_masker.pipeline.records import Inputs, Rejected
from stream_masker.pipeline.style import Style, StyleCounts

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
        changed: Any = replace(self, templates=cast(Any, templates))
        return cast("DecodedBatch[OtherT]", changed)

    def reindexed(self, indices: Int64Array) -> DecodedBatch[TemplatesT]:
        """Return the same records as part of a larger batch: record i gets the index ``indices[i]``."""
        rejected = {int(indices[index]): rejection for index, rejection in self.rejected.items()}
        return replace(self, indices=indices[self.indices], rejected=rejected, undecided=indices[self.undecided])


class RecordCodec(ABC, Generic[TemplatesT]):
    """Reads and renders records according to a plan. All codecs of a plan give the same results.

    ``TemplatesT``: the codec's form of output records before masking. A batch is rendered by the codec that read it.
    """

    @abstractmethod
    def set_styles(self, styles: Sequence[Style]) -> None:
        """Set the styles in which the attributes' codes are rendered from now on.

        Before the first call, it is the ontology's own style.
        """

    def set_shared(self, shared: Mapping[str, Int32Array]) -> None:
        """Set what each concept of a field becomes that is generalized by the counts of the window, by its path."""

    @abstractmethod
    def read(self, records: Inputs) -> DecodedBatch[TemplatesT]:
        """Decode records. An error in a record rejects that record only."""

    @abstractmethod
    def render(self, decoded: DecodedBatch[TemplatesT], masked: MaskedBatch) -> list[bytes]:
        """Return the JSON of the k decoded records, in their order. masked: their masked codes and numbers."""
