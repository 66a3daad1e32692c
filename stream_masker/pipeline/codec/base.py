"""The contract of codecs: records are read into a decoded batch, and rendered once the batch is masked."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Generic

from stream_masker.core.batch import MaskedBatch
from stream_masker.pipeline.codec.decoded import DecodedBatch, TemplatesT
from stream_masker.pipeline.records import Inputs
from stream_masker.pipeline.style import Style


class RecordCodec(ABC, Generic[TemplatesT]):
    """Reads and renders records as a plan says. All codecs of a plan give the same results.

    ``TemplatesT``: the codec's form of output records before masking. A batch is rendered by the codec that read it.
    """

    @abstractmethod
    def set_styles(self, styles: Sequence[Style]) -> None:
        """Sets the style that each attribute's codes are rendered in from now on; the ontology's own one at first."""

    @abstractmethod
    def read(self, records: Inputs) -> DecodedBatch[TemplatesT]:
        """Decodes records. An error in a record rejects that record only."""

    @abstractmethod
    def render(self, decoded: DecodedBatch[TemplatesT], masked: MaskedBatch) -> list[bytes]:
        """The JSON of the k decoded records, in their order. masked: their masked codes and numbers."""
