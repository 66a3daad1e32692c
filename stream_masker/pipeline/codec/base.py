"""The contract of codecs: records are read into a decoded batch, and rendered once the batch is masked."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Generic

from stream_masker.core.batch import MaskedBatch
from stream_masker.core.dtypes import Int32Array
from stream_masker.pipeline.codec.decoded import DecodedBatch, TemplatesT
from stream_masker.pipeline.records import Inputs
from stream_masker.pipeline.style import Style


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
